package embedded_test

import (
	"bytes"
	"context"
	"fmt"
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

	"github.com/echomq/pipeline/tier/embedded"
)

// parentDirEnv makes the test binary a parentProcess.
const parentDirEnv = "ECHOMQ_TEST_PARENT_DIR"

// alive is false for a zombie too: its parent may be no reaper of orphans.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // no /proc here
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// both runs a test on the servers that must work.
func both(t *testing.T, f func(t *testing.T, binary string)) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(name)
			require.NoError(t, err, "install it with scripts/setup test")
			f(t, path)
		})
	}
}

func start(t *testing.T, cfg embedded.Config) *embedded.Server {
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := embedded.Start(within(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(within(t))) })
	return s
}

func TestStartServes(t *testing.T) {
	tests := []struct {
		name string
		cfg  embedded.Config
		url  string
	}{
		{"unix socket", embedded.Config{}, "unix:///"},
		{"tcp on a free port", embedded.Config{Listen: "127.0.0.1:0"}, "valkey://127.0.0.1:"},
		{"a directory with spaces", embedded.Config{Dir: "a dir"}, "unix:///"},
		{"a socket of one's own", embedded.Config{Socket: "sock"}, "unix:///"},
		{"a path too long for a socket", embedded.Config{Dir: strings.Repeat("long/", 25)}, "unix:///"},
		{"cluster", embedded.Config{Cluster: true}, "valkey://127.0.0.1:"},
	}
	both(t, func(t *testing.T, binary string) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				cfg := tt.cfg
				cfg.Binary = binary
				cfg.Dir = filepath.Join(t.TempDir(), "new", cfg.Dir)
				if cfg.Socket != "" {
					cfg.Socket = filepath.Join(t.TempDir(), cfg.Socket)
				}
				s := start(t, cfg)
				require.Contains(t, s.URL(), tt.url)
				if s.Network() == "unix" && filepath.Dir(s.Addr()) != s.Dir() {
					t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(s.Addr()))) })
				}
				c := dial(t, s.URL())
				do(t, c, "XADD", "{a}", "*", "f", "v")
				name, _, _ := strings.Cut(filepath.Base(binary), "-")
				require.Regexp(t, `^`+name+` \d+\.\d+\.\d+$`, s.Version())
				require.True(t, alive(s.Pid()))
				fi, err := os.Stat(s.Dir())
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
			})
		}
	})
}

func TestClusterOwnsAllSlots(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		s := start(t, embedded.Config{Binary: binary, Cluster: true})
		for range 2 {
			info, err := do(t, dial(t, s.URL()), "CLUSTER", "INFO").ToString()
			require.NoError(t, err)
			require.Contains(t, info, "cluster_state:ok")
			require.Contains(t, info, "cluster_slots_ok:16384")
			require.NoError(t, s.Restart(within(t)), "a cluster that has its slots already")
		}
	})
}

func TestStopKeepsTheFile(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		s := start(t, embedded.Config{Binary: binary, AppendOnly: true, Listen: "127.0.0.1:0"})
		url, pid := s.URL(), s.Pid()
		do(t, dial(t, url), "SET", "k", "v")
		require.NoError(t, s.Restart(within(t)))
		require.Equal(t, url, s.URL())
		require.NotEqual(t, pid, s.Pid())
		v, err := do(t, dial(t, url), "GET", "k").ToString()
		require.NoError(t, err)
		require.Equal(t, "v", v)
	})
}

func TestKillAndRestart(t *testing.T) {
	both(t, func(t *testing.T, binary string) {
		s := start(t, embedded.Config{Binary: binary})
		do(t, dial(t, s.URL()), "SET", "k", "v")
		exited := s.Exited()
		s.Kill()
		<-exited
		require.False(t, alive(s.Pid()))
		require.NoError(t, s.Stop(within(t)), "stop after a kill")
		require.NoError(t, s.Restart(within(t)), "a stale socket is in the way")
		n, err := do(t, dial(t, s.URL()), "DBSIZE").AsInt64()
		require.NoError(t, err)
		require.Zero(t, n, "nothing is kept without an append-only file")
	})
}

func TestFreeze(t *testing.T) {
	s := start(t, embedded.Config{})
	c := dial(t, s.URL())
	require.NoError(t, s.Freeze())
	answer := make(chan error, 1)
	go func() { answer <- c.Do(within(t), c.B().Ping().Build()).Error() }()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid()))
	if err == nil { // no /proc elsewhere
		require.Contains(t, string(stat), ") T ")
	}
	require.Empty(t, answer)
	require.NoError(t, s.Thaw())
	require.NoError(t, <-answer)

	require.NoError(t, s.Freeze())
	require.NoError(t, s.Stop(within(t)), "a frozen server stops too")
}

func TestStopKillsWhatDoesNotStop(t *testing.T) {
	s := start(t, embedded.Config{Args: []string{"--busy-reply-threshold", "1"}})
	c, other := dial(t, s.URL()), dial(t, s.URL())
	ended := make(chan error, 1)
	go func() { ended <- c.Do(within(t), c.B().Arbitrary("EVAL", "while true do end", "0").Build()).Error() }()
	// A server that says it is busy in a script does not act on a signal.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for other.Do(within(t), other.B().Ping().Build()).Error() == nil {
		<-tick.C
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := s.Stop(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, strconv.Itoa(s.Pid()))
	<-s.Exited()
	require.Error(t, <-ended)
}

func TestStartFails(t *testing.T) {
	taken := start(t, embedded.Config{Listen: "127.0.0.1:0"})
	noServer := filepath.Join(t.TempDir(), "no-server")
	require.NoError(t, os.WriteFile(noServer, []byte("#!/bin/sh\necho it is broken; exit 3\n"), 0o700))
	hangs := filepath.Join(t.TempDir(), "hangs")
	require.NoError(t, os.WriteFile(hangs, []byte("#!/bin/sh\nexec cat /dev/zero > /dev/null\n"), 0o700))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		cfg  embedded.Config
		want string
	}{
		{"bad argument", nil, embedded.Config{Args: []string{"--no-such-thing", "1"}}, "no-such-thing"},
		{"port taken", nil, embedded.Config{Listen: taken.Addr()}, "in use"},
		{"no such binary", nil, embedded.Config{Binary: "/no/such/file"}, "/no/such/file"},
		{"exits at once", nil, embedded.Config{Binary: noServer}, "it is broken"},
		{"never answers", ended, embedded.Config{Binary: hangs}, "context canceled"},
		{"all interfaces", nil, embedded.Config{Listen: "0.0.0.0:0"}, "not on loopback"},
		{"a name", nil, embedded.Config{Listen: "example.org:1"}, "not on loopback"},
		{"port out of range", nil, embedded.Config{Listen: "127.0.0.1:65536"}, "0..65535"},
		{"no port", nil, embedded.Config{Listen: "127.0.0.1"}, "missing port"},
		{"long socket", nil, embedded.Config{Socket: "/tmp/" + strings.Repeat("s", 96)}, "101 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, ctx := tt.cfg, tt.ctx
			cfg.Dir = t.TempDir()
			if ctx == nil {
				ctx = within(t)
			}
			_, err := embedded.Start(ctx, cfg)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := embedded.Start(within(t), embedded.Config{})
	require.ErrorContains(t, err, "Dir is required")
}

func TestNoServerOnPath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := embedded.Start(within(t), embedded.Config{Dir: t.TempDir()})
	require.ErrorIs(t, err, embedded.ErrNoServer)
	require.ErrorContains(t, err, "brew install valkey")
	require.ErrorContains(t, err, "bookworm-backports")
}

func TestAdvice(t *testing.T) {
	for _, manager := range []string{"apt-get", "brew", "dnf", "apk", "pacman"} {
		t.Run(manager, func(t *testing.T) {
			got := embedded.Advice(func(m string) bool { return m == manager })
			require.Contains(t, got, manager)
			require.NotContains(t, got, ", or ")
		})
	}
}

func TestEnvironmentIsScrubbed(t *testing.T) {
	t.Setenv("PIPELINE_URL", "valkey://:secret@example.org")
	t.Setenv("TZ", "UTC")
	show := filepath.Join(t.TempDir(), "show")
	require.NoError(t, os.WriteFile(show, []byte("#!/bin/sh\nenv; exit 1\n"), 0o700))
	_, err := embedded.Start(within(t), embedded.Config{Binary: show, Dir: t.TempDir()})
	require.ErrorContains(t, err, "TZ=UTC")
	require.NotContains(t, err.Error(), "secret")
}

// lines is a writer that any goroutine may read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestLog(t *testing.T) {
	var log lines
	s := start(t, embedded.Config{Log: &log})
	require.NoError(t, s.Stop(within(t)))
	require.Contains(t, log.String(), "bye bye")
}

// parentProcess starts a server, prints its process id, and waits to be killed.
func parentProcess(dir string) int {
	s, err := embedded.Start(context.Background(), embedded.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.Pid())
	<-s.Exited()
	return 1
}

func TestServerDiesWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentDirEnv+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var pid int
	_, err = fmt.Fscan(out, &pid)
	require.NoError(t, err)
	require.True(t, alive(pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	gone(t, pid)
}
