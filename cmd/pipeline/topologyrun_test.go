package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestTopologyPipes: what comes on standard input goes through the stages to standard output: to its end with --drain, and else
// line by line, as it comes, until the run is stopped (B100).
func TestTopologyPipes(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	topology := func(name string) {
		p.file("pipe.yaml", strings.ReplaceAll(`topology: NAME
scopes: {NAME: {streams: {in: {}, out: {}}}}
sources: {typed: {to: NAME/in, stdin: {format: jsonl}, key: "'k' + string(data.n)"}}
stages: {large: {from: NAME/in, to: NAME/out, filter: "data.n > 1"}}
sinks: {printed: {from: NAME/out, stdout: {format: lines}}}
`, "NAME", name))
		p.ok("topology", "apply", "pipe.yaml")
	}
	own := tiertest.Scope(t)
	topology(own)
	r := p.given("{\"n\":1}\n{\"n\":2}\nno json\n\n{\"n\":\"x\"}\n{\"n\": 3}").ok("topology", "run", "pipe.yaml", "--drain")
	require.Equal(t, "{\"n\":2}\n{\"n\": 3}\n", r.out)
	require.Contains(t, r.errOut, "record passed over (source typed, ")
	require.Contains(t, r.errOut, "message given up, it goes to the dead letters (stage large, entry ")
	require.Contains(t, p.ok("range", own+"/out").lines()[0], `"key":"k2"`)

	topology(tiertest.Scope(t))
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	running := p.startOn(stdin, "topology", "run", "pipe.yaml")
	for n := 2; n < 5; n++ { // one after another: none waits for more to come
		_, err = fmt.Fprintf(in, "{\"n\":%d}\n", n)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, n), running.line())
	}
	_, err = in.WriteString(`{"n":5}` + "\n" + `{"n":`) // half a record is none
	require.NoError(t, err)
	require.Equal(t, `{"n":5}`, running.line())
	r = running.terminated()
	require.Zero(t, r.code, r.errOut)
	require.Empty(t, r.out)
	require.NotContains(t, r.errOut, "passed over")
}

// TestTopologyFails: a run that is to end when all is handled ends when a part fails as well, and says so.
func TestTopologyFails(t *testing.T) {
	t.Parallel()
	p, own := onShared(t), tiertest.Scope(t)
	p.file("fails.yaml", strings.ReplaceAll(`topology: NAME
scopes: {NAME: {streams: {in: {}}}}
sources: {typed: {to: NAME/in, stdin: {format: jsonl}}}
sinks: {kept: {from: NAME/in, file: {path: no/such/directory.jsonl}}}
`, "NAME", own))
	p.ok("topology", "apply", "fails.yaml")
	r := p.given("1\n").run("topology", "run", "fails.yaml", "--drain")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "sink kept: projection kept of "+own+"/in: open no/such/directory.jsonl")
}

// terminated asks for the end, as service managers do, and waits for it.
func (p *process) terminated() result {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	asked := time.Now()
	r := p.wait()
	require.Less(p.t, time.Since(asked), limit/4)
	return r
}

// TestTopologyStopped: a run that is told to stop in the midst of requests ends by itself. Each message that was accepted is
// through once when the stages have run again (B98).
func TestTopologyStopped(t *testing.T) {
	t.Parallel()
	p, own := onShared(t), tiertest.Scope(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	p.file("http.yaml", strings.NewReplacer("NAME", own, "ADDRESS", address).Replace(`topology: NAME
scopes: {NAME: {streams: {in: {}, pairs: {}, out: {}}}}
sources: {posted: {to: NAME/in, http: {listen: "ADDRESS"}}}
stages:
  pairs: {from: NAME/in, to: NAME/pairs, batch: {size: 2}}
  pass: {from: NAME/pairs, to: NAME/out, filter: "true"}
sinks: {kept: {from: NAME/out, file: {path: kept.jsonl}}}
`))
	p.ok("topology", "apply", "http.yaml")
	running := p.start("topology", "run", "http.yaml")
	post := func(body string) bool {
		answer, err := http.Post("http://"+address, "application/json", strings.NewReader(body)) //nolint:noctx // as clients do
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusAccepted
	}
	tiertest.Eventually(t, limit/2, func() (bool, string) { return post("0"), running.errOut() })

	var clients sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	accepted, ended := map[int64]bool{0: true}, make(chan struct{})
	enough := make(chan struct{})
	for range 4 {
		clients.Go(func() {
			for {
				n := next.Add(1)
				if post(fmt.Sprint(n)) {
					mu.Lock()
					accepted[n] = true
					if len(accepted) == 200 {
						close(enough)
					}
					mu.Unlock()
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	<-enough
	r := running.terminated()
	close(ended)
	clients.Wait()
	require.Zero(t, r.code, r.errOut)

	p.ok("topology", "run", "http.yaml", "--drain", "--part", "pairs", "--part", "pass", "--part", "kept")
	text, err := os.ReadFile(filepath.Join(p.dir, "kept.jsonl"))
	require.NoError(t, err)
	through := map[int64]int{}
	for line := range strings.Lines(string(text)) {
		var pair struct{ Data []int64 }
		require.NoError(t, json.Unmarshal([]byte(line), &pair), line)
		for _, n := range pair.Data {
			through[n]++
		}
	}
	missing := 0
	for n := range accepted {
		if through[n] == 0 {
			missing++
		}
	}
	require.LessOrEqual(t, missing, 1, "the batch that is open has one at most")
	for n, times := range through {
		require.Equal(t, 1, times, "%d", n)
	}
}
