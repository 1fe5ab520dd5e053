package main_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/embedded"
	"github.com/echomq/pipeline/tier/tiertest"
)

// scrape reads the metrics of a program that says where it serves them.
func scrape(t testing.TB, running *process) string {
	t.Helper()
	running.said("metrics: http://127.0.0.1:")
	url := regexp.MustCompile(`http://\S+/metrics`).FindString(running.errOut())
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// Without a URL the commands share one server and its data, and say so.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	p := alone(t)
	dir := filepath.Join(p.dir, "data")
	notice := "pipeline: no server URL: using the embedded server, valkey "
	r := p.given("1\n2\n").ok("produce", "shop/orders")
	require.Contains(t, r.errOut, notice)
	require.Contains(t, r.errOut, ", with its data in "+dir+"\n")
	r = p.ok("tail", "shop/orders")
	require.Equal(t, quoted(1, 2), data(t, r))
	require.Contains(t, r.errOut, notice)
	require.Empty(t, p.ok("tail", "shop/orders", "--quiet").errOut)
	_, err := net.Dial("unix", filepath.Join(dir, "server.sock"))
	require.Error(t, err, "the last one shuts it down")

	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestEmbeddedWithoutAServer(t *testing.T) {
	t.Parallel()
	p := alone(t)
	p.env = []string{"PATH=" + filepath.Dir(binary), "HOME=" + p.dir}
	r := p.run("streams")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "neither valkey-server nor redis-server is on PATH; install it with: ")
	require.Equal(t, 1, strings.Count(r.errOut, "\n"))
}

func TestServer(t *testing.T) {
	t.Parallel()
	p := alone(t)
	running := p.start("server", "--listen", "127.0.0.1:0", "--metrics", ":0")
	url := running.line()
	require.Regexp(t, `^valkey://127\.0\.0\.1:\d+$`, url)
	require.Contains(t, scrape(t, running), "process_resident_memory_bytes")

	p.given("1\n").ok("produce", "shop/orders")
	q := onServer(t, url)
	require.Equal(t, quoted(1, 1), data(t, q.ok("tail", "shop/orders")), "the same data at its URL")
	second := p.start("server", "--output", "json")
	require.Regexp(t, `^\{"dir":"`+regexp.QuoteMeta(p.dir)+`/data","server":"valkey [\d.]+","url":"unix:///\S+/data/server\.sock"\}$`, second.line())

	r := running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	require.Equal(t, quoted(1, 1), data(t, q.ok("tail", "shop/orders")), "it runs as long as one needs it")
	require.Equal(t, 130, second.interrupted().code)
	require.Equal(t, 1, q.run("tail", "shop/orders").code)
	require.Equal(t, quoted(1, 1), data(t, p.ok("tail", "shop/orders")), "the data are kept")

	r = p.ok("server", "--dir", filepath.Join(p.dir, "other"), "--timeout", "3s")
	require.Equal(t, "unix://"+p.dir+"/other/server.sock\n", r.out)
}

func TestServerEnds(t *testing.T) {
	t.Parallel()
	p := alone(t)
	running := p.start("server")
	url := running.line()
	c, err := tiertest.Raw(at(url))
	require.NoError(t, err)
	defer c.Close()
	c.Do(t.Context(), c.B().Arbitrary("SHUTDOWN", "NOSAVE").Build())
	r := running.wait()
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "the server has ended: see "+p.dir+"/data/server.log")
}

// Metrics on all addresses are told with one that can be reached.
func TestMetricsEverywhere(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/lines"
	running := p.start("tail", addr, "--follow", "--metrics", "0.0.0.0:0")
	require.Contains(t, scrape(t, running), "go_goroutines")
	require.Contains(t, running.errOut(), "warning: --metrics 0.0.0.0:0: others on the network can read the metrics")
}

// An outage is told once, and its end once; that of the embedded server with what
// starts it again.
func TestTailOutage(t *testing.T) {
	t.Parallel()
	p := alone(t)
	p.given("1\n").ok("produce", "shop/orders")
	running := p.start("tail", "shop/orders", "--follow")
	require.Contains(t, running.line(), `"data":"1"`)
	c, err := tiertest.Raw(at("unix://" + p.dir + "/data/server.sock"))
	require.NoError(t, err)
	c.Do(t.Context(), c.B().Arbitrary("SHUTDOWN").Build())
	c.Close()
	gone := "pipeline: warning: tail interrupted: the embedded server has ended: any pipeline command starts it again\n"
	running.said(gone)
	p.given("2\n").ok("produce", "shop/orders")
	server := p.start("server")
	server.line()
	running.said("pipeline: the server answers again\n")
	require.Contains(t, running.line(), `"data":"2"`)
	r := running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	require.Equal(t, 1, strings.Count(r.errOut, "answers again"), r.errOut)
	require.Equal(t, 1, strings.Count(r.errOut, "tail interrupted"), r.errOut)
}

// TestConsumeOutage: consume tells an outage as tail does, once, and its end.
func TestConsumeOutage(t *testing.T) {
	t.Parallel()
	p := alone(t)
	p.given("1\n").ok("produce", "shop/orders")
	running := p.start("consume", "shop/orders", "--group", "g")
	require.Contains(t, running.line(), `"data":"1"`)
	c, err := tiertest.Raw(at("unix://" + p.dir + "/data/server.sock"))
	require.NoError(t, err)
	c.Do(t.Context(), c.B().Arbitrary("SHUTDOWN").Build())
	c.Close()
	running.said("pipeline: warning: the server does not answer, it is tried again: the embedded server has ended: any pipeline command starts it again\n")
	server := p.start("server")
	server.line()
	running.said("pipeline: the server answers again\n")
	p.given("2\n").ok("produce", "shop/orders")
	require.Contains(t, running.line(), `"data":"2"`)
	r := running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	require.Equal(t, 1, strings.Count(r.errOut, "answers again"), r.errOut)
	require.Equal(t, 1, strings.Count(r.errOut, "does not answer"), r.errOut)
}

// TestProduceToAReplica: why nothing is taken is said while it is tried again.
func TestProduceToAReplica(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, s.URL())
	p.given("1\n").ok("produce", "shop/orders")
	raw(t, s, "REPLICAOF", "127.0.0.1", "1")
	p.file("input", "2\n")
	running := p.start("produce", "shop/orders", "input")
	running.said("pipeline: warning: the server is a read-only replica: connect to its primary: trying for half a minute in all; Ctrl-C stops\n")
	raw(t, s, "REPLICAOF", "NO", "ONE")
	r := running.wait()
	require.Zero(t, r.code, r.errOut)
	require.NotContains(t, r.errOut, "does not answer")
	require.Equal(t, quoted(1, 2), data(t, p.ok("range", "shop/orders")))
}

// TestProduceToAnEmptiedServer: that the stream was lost is said, and shows in the metrics.
func TestProduceToAnEmptiedServer(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, s.URL())
	reads, writes, err := os.Pipe()
	require.NoError(t, err)
	defer writes.Close()
	running := p.startOn(reads, "produce", "shop/orders", "--metrics", ":0")
	put := func(line string, want string) {
		t.Helper()
		_, err = writes.WriteString(line)
		require.NoError(t, err)
		tiertest.Eventually(t, limit/2, func() (bool, string) {
			out := p.run("range", "shop/orders", "--count").out
			return out == want, out
		})
	}
	put("1\n", "1\n")
	raw(t, s, "FLUSHALL")
	put("2\n3\n", "2\n")
	running.said("pipeline: warning: the server had lost the stream, or knew it otherwise: it was declared again; what stood in it may be gone (brand ORD)\n")
	require.Regexp(t, `echomq_stream_redeclared_total\{scope="shop",stream="orders"\} 1\n`, scrape(t, running))
	require.NoError(t, writes.Close())
	r := running.wait()
	require.Zero(t, r.code, r.errOut)
	require.Equal(t, 1, strings.Count(r.errOut, "declared again"), r.errOut)
}

// at is a server that is known by its URL.
type at string

func (u at) URL() string { return string(u) }

func TestServerPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p := alone(t)
	r := p.run("server", "--listen", l.Addr().String())
	require.Equal(t, 1, r.code, r.errOut)
	require.Contains(t, r.errOut, "pipeline: --listen "+l.Addr().String()+": the address is in use: choose another, or port 0\n")
	r = p.run("server", "--metrics", l.Addr().String())
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "pipeline: --metrics "+l.Addr().String()+": the address is in use: choose another, or port 0\n")
}

func TestProduceMetrics(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/lines"
	reads, writes, err := os.Pipe()
	require.NoError(t, err)
	defer writes.Close()
	running := p.startOn(reads, "produce", addr, "--metrics", "127.0.0.1:0")
	_, err = writes.WriteString("1\n2\n")
	require.NoError(t, err)
	var body string
	tiertest.Eventually(t, limit/2, func() (bool, string) {
		body = scrape(t, running)
		return regexp.MustCompile(`echomq_stream_appended_messages_total\{scope="\w+",stream="lines"\} 2`).MatchString(body), body
	})
	require.NoError(t, writes.Close())
	require.Zero(t, running.wait().code)
}

// One line for each way in which a server cannot be had, and what to do.
func TestServerTrouble(t *testing.T) {
	t.Parallel()
	full := tiertest.Private(t, tiertest.Valkey, "--maxmemory", "2mb", "--maxmemory-policy", "noeviction")
	private := tiertest.Private(t, tiertest.Valkey)
	raw(t, private, "SET", logKey(t, "odd/type"), "text")

	for _, tc := range []struct {
		name string
		run  func() result
		code int
		want string
	}{
		{
			"unreachable", func() result { return onServer(t, "unix:///nowhere/x.sock").run("streams") }, 1,
			"the server cannot be reached: check the address, and that it runs",
		},
		{
			"refused", func() result { return onServer(t, "valkey://127.0.0.1:1").run("streams") }, 1,
			"the server cannot be reached: check the address, and that it runs",
		},
		{"full", func() result {
			return onServer(t, full.URL()).given(strings.Repeat(strings.Repeat("x", 1000)+"\n", 20000)).run("produce", "shop/orders")
		}, 1, "the server is full (maxmemory): trim, raise maxmemory, or wait for consumers that free memory"},
		{
			"wrong type", func() result { return onServer(t, private.URL()).given("1\n").run("produce", "odd/type") }, 1,
			logKey(t, "odd/type") + ": the key holds another type, so another program wrote to it",
		},
		{"unreachable, with a password", func() result {
			return onServer(t, "valkey://reader:s3cret@127.0.0.1:1").run("streams")
		}, 1, "the server cannot be reached"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tc.run()
			require.Equal(t, tc.code, r.code, r.errOut)
			require.Contains(t, r.errOut, tc.want)
			require.NotContains(t, r.errOut, "s3cret")
		})
	}
}

// A password is nowhere to be seen, and a place for it is named.
func TestPasswords(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pt-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Listen: "127.0.0.1:0", Args: []string{"--protected-mode", "no"}})
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	raw(t, s, "ACL", "SETUSER", "app", "on", ">s3cret-word", "~*", "&*", "+@all")
	raw(t, s, "ACL", "SETUSER", "low", "on", ">s3cret-word", "~*", "&*", "+@all", "-eval", "-evalsha")
	url := func(user, password string) string { return "valkey://" + user + ":" + password + "@" + s.Addr() }

	p := alone(t)
	r := p.ok("streams", "--url", url("app", "s3cret-word"))
	require.Contains(t, r.errOut, "pipeline: warning: the password in --url shows in the list of processes: put the URL into a file for --url-file, or into PIPELINE_URL")
	require.NotContains(t, r.errOut, "s3cret")

	p.file("url", url("app", "s3cret-word")+"\n")
	require.NotContains(t, p.ok("streams", "--url-file", "url").errOut, "warning")
	require.NoError(t, os.Chmod(filepath.Join(p.dir, "url"), 0o644))
	require.Contains(t, p.ok("streams", "--url-file", "url").errOut, "warning: --url-file url holds a password and others can read it: chmod 600 it")

	r = onServer(t, url("app", "s3cret-wrong")).run("streams")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "the user or the password is wrong, or the user is switched off: check them in the URL")
	require.NotContains(t, r.errOut, "s3cret")

	r = onServer(t, url("low", "s3cret-word")).given("x\n").run("produce", "shop/orders")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "the user lacks a right: grant it with ACL SETUSER")
	require.NotContains(t, r.errOut, "s3cret")
	require.NotContains(t, r.errOut, "list of processes")
}
