package stage_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// The test binary, started with this in its environment, is the child of an exec stage: it does what the data of a message says. Its
// number stands in the file that this names, a line for each.
const answererEnv = "STAGE_TEST_ANSWERER"

func answerer() {
	f, err := os.OpenFile(os.Getenv(answererEnv), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(f, os.Getpid())
	_ = f.Close()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var r stage.ExecRequest
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			panic(err)
		}
		var what string
		if json.Unmarshal(r.Data, &what) != nil {
			what = "twice"
		}
		switch what {
		default: // twice
			fmt.Printf(`{"id": %q, "out": [{}, {"key": "second", "type": "t", "data": {"of": %s}, "headers": {"h": "1", "gone": null}}]}`+"\n", r.ID, r.Data)
		case "text":
			fmt.Printf("\n"+`{"id": %q, "out": [{"data": "told \u00e9"}]}`+"\n", r.ID)
		case "env":
			env, _ := json.Marshal(strings.Join(os.Environ(), "\n"))
			fmt.Printf(`{"id": %q, "out": [{"data": %s}]}`+"\n", r.ID, env)
		case "nothing":
			fmt.Printf(`{"id": %q}`+"\n", r.ID)
		case "later":
			if r.Attempt < 3 {
				fmt.Printf(`{"id": %q, "error": "not yet"}`+"\n", r.ID)
			} else {
				fmt.Printf(`{"id": %q, "out": [{}]}`+"\n", r.ID)
			}
		case "never":
			fmt.Printf(`{"id": %q, "error": "no such customer", "permanent": true}`+"\n", r.ID)
		case "poison":
			fmt.Fprintln(os.Stderr, "it hurts")
			os.Exit(3)
		case "once": // dies of it, the first time
			if r.Attempt == 1 {
				os.Exit(1)
			}
			fmt.Printf(`{"id": %q, "out": [{}]}`+"\n", r.ID)
		case "orphan": // leaves a process of its own behind
			left := exec.Command("sleep", "1000")
			if err := left.Start(); err != nil {
				panic(err)
			}
			f, err := os.OpenFile(os.Getenv(answererEnv), os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprintln(f, left.Process.Pid)
			os.Exit(0)
		case "hang":
			select {}
		case "mute":
			_ = os.Stdout.Close()
			select {}
		case "flood": // a line without end
			for {
				if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
					os.Exit(1)
				}
			}
		case "chatter": // about what it was never asked
			for {
				if _, err := fmt.Println(`{"id": "AAA000000000000"}`); err != nil {
					os.Exit(1)
				}
			}
		case "garbage":
			fmt.Println("Loading model ...")
		case "noise":
			for i := range 3000 {
				fmt.Fprintln(os.Stderr, "noise", i, strings.Repeat("-", 2000))
			}
			fmt.Printf(`{"id": %q, "out": [{}]}`+"\n", r.ID)
		}
	}
}

// answering is a stage whose child is this binary; born is where its children write their numbers.
func answering(b *bench, cfg stage.Config) (_ stage.Config, born string) {
	self, err := os.Executable()
	require.NoError(b.t, err)
	born = filepath.Join(b.t.TempDir(), "born")
	cfg.From, cfg.Exec.Command = b.address("in"), []string{self}
	env := map[string]string{answererEnv: born}
	maps.Copy(env, cfg.Exec.Env)
	cfg.Exec.Env = env
	return cfg, born
}

// numbers are those of the children so far.
func numbers(t testing.TB, born string) (pids []int) {
	text, err := os.ReadFile(born)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	for _, line := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(line)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// noneLives waits until no process of the numbers is there.
func noneLives(t testing.TB, pids []int) {
	tiertest.Eventually(t, patience, func() (bool, string) {
		for _, pid := range pids {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !bytes.Contains(stat, []byte(") Z ")) {
				return false, fmt.Sprint(pid)
			}
		}
		return true, ""
	})
}

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestExec: what children answer is appended; one that hangs, floods, lies or dies loses nothing, and takes nobody along: only what it
// was about is in the dead letters.
func TestExec(t *testing.T) {
	t.Parallel()
	b, log := newBench(t, tiertest.Shared(t, tiertest.Valkey)), &logged{}
	bad := []string{"poison", "orphan", "hang", "mute", "flood", "chatter", "garbage", "never"}
	good := []string{"text", "nothing", "later", "once", "noise"}
	var in []codec.Message
	for _, what := range append(good, bad...) {
		in = append(in, event(what, what), event("and-"+what, `{"n": 9007199254740993}`))
	}
	in[1].Headers.Set("gone", "x")
	b.append("in", append(in, codec.Message{Type: stage.WatermarkType})...)
	cfg, born := answering(b, stage.Config{
		To: b.address("out"), Attempts: 3, Backoff: duration(time.Millisecond),
		Exec: &stage.Exec{Timeout: duration(2 * time.Second), MaxLine: 64 << 10},
	})
	stop := b.run("ask", cfg, stage.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	b.settled("in", "ask")
	tiertest.Eventually(t, patience, func() (bool, string) {
		dead, got := b.letters("in", "ask"), b.all("out")
		return len(dead) == len(bad) && len(got) == 4+2*len(good)+2*len(bad)+1, fmt.Sprint(dead, len(got))
	})
	want := []string{"text told é", "later later", "once once", "noise noise", "emq.watermark "}
	for _, what := range append(good, bad...) {
		want = append(want, "and-"+what+` {"n": 9007199254740993}`, `second {"of": {"n":9007199254740993}}`)
	}
	got := b.all("out")
	require.ElementsMatch(t, want, data(got))
	for _, m := range got {
		if m.Key == "second" {
			h, _ := m.Headers.Get("h")
			_, gone := m.Headers.Get("gone")
			require.Equal(t, []any{"t", "1", false}, []any{m.Type, h, gone})
		}
	}
	dead := strings.Join(b.letters("in", "ask"), "\n")
	for _, why := range []string{"exit status 3: \"it hurts\"", "no answer in time", "longer than max_line", "no answer to a message", "Loading model", "no such customer"} {
		require.Contains(t, dead, why)
	}
	stop()
	noneLives(t, numbers(t, born))
	require.Contains(t, log.String(), "on standard error")
	require.Less(t, len(log.String()), 400<<10, "the noise is bounded")
}

// TestExecEnvironment: a child sees what it was given and nothing of ours, and what cannot be run is told at once.
func TestExecEnvironment(t *testing.T) {
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	t.Setenv("STAGE_TEST_SECRET", "hush")
	b.append("in", event("k", "env"), codec.Message{Key: "raw", Data: []byte("\xff\xfe")})
	cfg, _ := answering(b, stage.Config{To: b.address("out"), Exec: &stage.Exec{Env: map[string]string{"GREETING": "hello"}}})
	b.run("ask", cfg, stage.Options{})
	tiertest.Eventually(t, patience, func() (bool, string) { return len(b.all("out")) == 3, fmt.Sprint(data(b.all("out"))) })
	require.Contains(t, data(b.all("out")), `second {"of": "//4="}`)
	got := strings.Join(data(b.all("out")), "\n")
	require.Contains(t, got, "GREETING=hello")
	require.Contains(t, got, "PATH=")
	require.NotContains(t, got, "hush")
	for _, command := range []string{"no-such-program", "./no/such", "/etc/passwd", "/tmp"} {
		cfg.Exec.Command = []string{command}
		_, err := stage.New(b.client, "ask", cfg, stage.Options{})
		require.ErrorContains(t, err, "stage: exec:", command)
	}
}

// twice is the exec stage of a child process.
func twice(scope string) stage.Config {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return stage.Config{
		From: scope + "/in", To: scope + "/out", Lease: duration(time.Second),
		Exec: &stage.Exec{Command: []string{self}, Env: map[string]string{answererEnv: os.Getenv("STAGE_TEST_EXEC")}},
	}
}

// TestExecKilled: whoever runs the stage is killed again and again; its children go with it, and each message has its two outputs.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	born := filepath.Join(t.TempDir(), "born")
	var in []codec.Message
	for i := range 3000 {
		in = append(in, event(fmt.Sprint(i), fmt.Sprint(i)))
	}
	b.append("in", in...)
	spawn := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+b.server.URL()+" "+b.scope, "STAGE_TEST_EXEC="+born)
		cmd.Stderr = io.Discard
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	for round := range 3 {
		cmd, before := spawn(), len(b.all("out"))
		tiertest.Eventually(t, patience, func() (bool, string) { return len(b.all("out")) > before, fmt.Sprint(round) })
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		noneLives(t, numbers(t, born))
	}
	last := spawn()
	b.settled("in", "twice")
	require.NoError(t, last.Process.Signal(syscall.SIGTERM))
	require.NoError(t, last.Wait())
	noneLives(t, numbers(t, born))
	require.Len(t, numbers(t, born), 4)
	var want []string
	for i := range 3000 {
		want = append(want, fmt.Sprintf("%d %d", i, i), fmt.Sprintf(`second {"of": %d}`, i))
	}
	require.ElementsMatch(t, want, data(b.all("out")))
}
