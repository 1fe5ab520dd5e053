package tiertest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// raw is a client that sends what it is told and hides nothing.
type raw struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

const limit = 20 * time.Second

func connect(t testing.TB, network, addr string) *raw {
	conn, err := net.Dial(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(limit)))
	return &raw{t, conn, bufio.NewReader(conn)}
}

func direct(t testing.TB, s *tiertest.Server) *raw { return connect(t, s.Network(), s.Addr()) }

func (c *raw) send(args ...string) {
	_, err := c.conn.Write(tiertest.Encode(args...))
	require.NoError(c.t, err)
}

// line sends a command, if any, and returns the next line that comes.
func (c *raw) line(args ...string) string {
	if len(args) > 0 {
		c.send(args...)
	}
	line, err := c.r.ReadString('\n')
	require.NoError(c.t, err)
	return strings.TrimSpace(line)
}

// bulk sends a command and returns its reply, a bulk string.
func (c *raw) bulk(args ...string) string {
	var n int
	_, err := fmt.Sscanf(c.line(args...), "$%d", &n)
	require.NoError(c.t, err)
	b := make([]byte, n+2)
	_, err = io.ReadFull(c.r, b)
	require.NoError(c.t, err)
	return string(b[:n])
}

func TestEachServer(t *testing.T) {
	var mu sync.Mutex
	pids := map[tiertest.Kind]int{}
	t.Run("first", func(t *testing.T) {
		tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
			name, mode := string(s.Kind), "standalone"
			if s.Kind.Cluster() {
				name, mode = strings.TrimSuffix(name, "-cluster"), "cluster"
			}
			require.Contains(t, s.Version(), name+" ")
			require.Regexp(t, `(redis|server)_mode:`+mode, direct(t, s).bulk("INFO", "server"))
			mu.Lock()
			defer mu.Unlock()
			pids[s.Kind] = s.Pid()
		})
	})
	want, err := tiertest.KindsOf("TestEachServer/first", os.Getenv)
	require.NoError(t, err)
	require.Len(t, pids, len(want))
	for kind, pid := range pids {
		require.Equal(t, pid, tiertest.Shared(t, kind).Pid(), "one server for all tests")
	}
}

func TestKindsOf(t *testing.T) {
	all := []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster, tiertest.Redis, tiertest.RedisCluster}
	one, other := []tiertest.Kind{tiertest.Valkey, tiertest.RedisCluster}, []tiertest.Kind{tiertest.ValkeyCluster, tiertest.Redis}
	tests := []struct {
		name, list, ci string
		want           []tiertest.Kind
		err            string
	}{
		{name: "two", want: one},
		{name: "one", want: other},
		{name: "all", list: "all", want: all},
		{name: "all in CI", list: "all", ci: "true", want: all},
		{name: "named", list: "valkey, redis-cluster", want: one},
		{name: "never fewer in CI", list: "redis", ci: "true", want: other},
		{name: "a slip of the pen", list: "valkye", err: "valkye"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tiertest.KindsOf(tt.name, func(name string) string {
				return map[string]string{"CI": tt.ci, "PIPELINE_TEST_SERVERS": tt.list}[name]
			})
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestPrivate(t *testing.T) {
	var dir, addr string
	t.Run("lives", func(t *testing.T) {
		s := tiertest.Private(t, tiertest.Redis, "--maxmemory", "20mb")
		dir, addr = s.Dir(), s.Addr()
		require.Contains(t, direct(t, s).bulk("INFO", "memory"), "maxmemory:20971520")
		require.NotEqual(t, tiertest.Shared(t, tiertest.Redis).Pid(), s.Pid())
		s.Kill()
	})
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = net.Dial("unix", addr)
	require.Error(t, err)
}

// failing is a test that is told to fail, and a goroutine that it ends.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper()        {}
func (f *failing) Cleanup(func()) {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *failing) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	runtime.Goexit()
}

// failure returns what a test would have failed with, "" for none.
func failure(f func(t testing.TB)) string {
	var t failing
	var wg sync.WaitGroup
	wg.Go(func() { f(&t) })
	wg.Wait()
	return t.said
}

func TestMissingServerFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		said := failure(func(t testing.TB) { tiertest.Private(t, tiertest.Valkey) })
		require.Contains(t, said, "valkey-server")
		require.Contains(t, said, "scripts/setup test")
	}
	require.Contains(t, failure(func(t testing.TB) { tiertest.Private(t, "memcached") }), "memcached")
}

func TestWrongServerFails(t *testing.T) {
	valkey, err := exec.LookPath("valkey-server")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(valkey, filepath.Join(dir, "redis-server")))
	t.Setenv("PATH", dir)
	require.Contains(t, failure(func(t testing.TB) { tiertest.Private(t, tiertest.Redis) }), "is valkey")
}

func TestScope(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s := tiertest.Scope(t)
		require.Regexp(t, `^[A-Za-z0-9._-]{1,128}$`, s)
		require.False(t, seen[s])
		seen[s] = true
	}
}

func TestEventually(t *testing.T) {
	calls := 0
	tiertest.Eventually(t, limit, func() (bool, string) { calls++; return calls == 3, "" })
	require.Equal(t, 3, calls)
	said := failure(func(t testing.TB) {
		tiertest.Eventually(t, 10*time.Millisecond, func() (bool, string) { return false, "no luck" })
	})
	require.Contains(t, said, "no luck")
}

// leakEnv makes the test binary leave a goroutine behind.
const leakEnv = "ECHOMQ_TEST_LEAK"

func TestMainFindsLeaks(t *testing.T) {
	if os.Getenv(leakEnv) != "" {
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestScope$")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	cmd = exec.Command(os.Args[0], "-test.run=^TestScope$")
	cmd.Env = append(os.Environ(), leakEnv+"=1")
	out, err = cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "goroutines are left")
}
