package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/embedded"
)

// userDirEnv makes the test binary a userProcess.
const userDirEnv = "ECHOMQ_TEST_USER_DIR"

// userProcess leases the shared server again and again, each time for a random
// moment and after another, counts in it, and prints what the count was: the
// count of all processes together shows whether they saw the same data.
func userProcess(dir string) int {
	for {
		randomMoment()
		if err := useOnce(dir); err != nil {
			fmt.Println("error", err)
			return 1
		}
		// Standard input ends when the test wants us to.
		if _, err := os.Stdin.Read(make([]byte, 1)); err == io.EOF {
			return 0
		}
	}
}

// randomMoment is of the length of a start, so that a server is often without
// users, and as often not.
func randomMoment() { <-time.After(time.Duration(rand.IntN(30)) * time.Millisecond) }

func useOnce(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l, err := embedded.Share(ctx, dir)
	if err != nil {
		return err
	}
	c, err := connect(l.URL())
	if err != nil {
		return err
	}
	n, err := c.Do(ctx, c.B().Incr().Key("count").Build()).AsInt64()
	if err != nil {
		return err
	}
	fmt.Println("count", n)
	randomMoment()
	c.Close()
	return l.Release(ctx)
}

func share(t *testing.T, dir string) *embedded.Lease {
	l, err := embedded.Share(within(t), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Release(within(t))) })
	return l
}

func serverPid(t *testing.T, c rueidis.Client) int {
	info, err := do(t, c, "INFO", "server").ToString()
	require.NoError(t, err)
	_, after, _ := strings.Cut(info, "process_id:")
	digits, _, _ := strings.Cut(after, "\r\n")
	pid, err := strconv.Atoi(digits)
	require.NoError(t, err)
	return pid
}

func TestShareIsOneServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	a, b := share(t, dir), share(t, dir)
	require.Equal(t, a.URL(), b.URL())
	c := dial(t, a.URL())
	do(t, c, "SET", "k", "v")
	pid := serverPid(t, c)
	require.NoError(t, a.Release(within(t)))
	require.NoError(t, a.Release(within(t)), "a second release")
	require.Equal(t, pid, serverPid(t, dial(t, b.URL())), "still there for the other")
	require.NoError(t, b.Release(within(t)))
	require.False(t, alive(pid), "nobody left")

	again := dial(t, share(t, dir).URL())
	v, err := do(t, again, "GET", "k").ToString()
	require.NoError(t, err)
	require.Equal(t, "v", v)
}

func TestShareAfterAKill(t *testing.T) {
	dir := t.TempDir()
	first := share(t, dir)
	pid := serverPid(t, dial(t, first.URL()))
	p, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	gone(t, pid)
	// The socket file is still there, and so is the first lease.
	second := share(t, dir)
	next := serverPid(t, dial(t, second.URL()))
	require.NotEqual(t, pid, next)
	require.NoError(t, first.Release(within(t)))
	require.True(t, alive(next))
}

func TestShareListens(t *testing.T) {
	l := share(t, t.TempDir())
	url, err := l.Listen(within(t), "127.0.0.1:0")
	require.NoError(t, err)
	do(t, dial(t, url), "PING")
	again, err := l.Listen(within(t), "127.0.0.1:0")
	require.NoError(t, err)
	require.Equal(t, url, again)
	_, err = l.Listen(within(t), "127.0.0.1:1")
	require.ErrorContains(t, err, "already")
	_, err = l.Listen(within(t), "0.0.0.0:0")
	require.ErrorContains(t, err, "not on loopback")
}

func TestShareFails(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "appendonlydir")
	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	_, err := embedded.Share(within(t), dir)
	require.ErrorContains(t, err, "its log ends")
	require.NoError(t, os.Remove(broken))
	share(t, dir) // no lock was left
}

func TestShareWaitsNoLongerThanAsked(t *testing.T) {
	dir := t.TempDir()
	l := share(t, dir)
	p, err := os.FindProcess(serverPid(t, dial(t, l.URL())))
	require.NoError(t, err)
	require.NoError(t, p.Signal(freeze))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = embedded.Share(ctx, dir)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "server.log")
	require.NoError(t, p.Signal(thaw))
}

func TestDefaultDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PIPELINE_DIR", "")
	t.Setenv("XDG_DATA_HOME", "")
	dir, err := embedded.DefaultDir()
	require.NoError(t, err)
	require.Contains(t, dir, home)

	t.Setenv("XDG_DATA_HOME", "/data")
	dir, err = embedded.DefaultDir()
	require.NoError(t, err)
	require.Equal(t, "/data/echomq", dir)

	t.Setenv("PIPELINE_DIR", "/mine")
	dir, err = embedded.DefaultDir()
	require.NoError(t, err)
	require.Equal(t, "/mine", dir)
}

// user is one process of TestShareAmongProcesses.
type user struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	counted []int64
	failed  string
}

func startUser(t *testing.T, dir string, wg *sync.WaitGroup) *user {
	u := &user{cmd: exec.Command(os.Args[0])}
	u.cmd.Env = append(os.Environ(), userDirEnv+"="+dir)
	u.cmd.Stderr = os.Stderr
	var err error
	u.stdin, err = u.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := u.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, u.cmd.Start())
	wg.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int64
			if _, err := fmt.Sscanf(lines.Text(), "count %d", &n); err != nil {
				u.failed = lines.Text()
				continue
			}
			u.counted = append(u.counted, n)
			_, _ = u.stdin.Write([]byte{1}) // again
		}
		_ = u.cmd.Wait()
	})
	return u
}

// TestShareAmongProcesses lets processes come and go at random, some of them by
// kill -9. Every count must be handed out once, whatever server counted.
func TestShareAmongProcesses(t *testing.T) {
	const rounds, processes = 6, 3
	dir := t.TempDir()
	seen := map[int64]bool{}
	for round := range rounds {
		var wg sync.WaitGroup
		users := make([]*user, processes)
		for i := range users {
			users[i] = startUser(t, dir, &wg)
		}
		<-time.After(time.Duration(200+rand.IntN(200)) * time.Millisecond) // the length of a round is part of the chance
		for i, u := range users {
			if i == round%processes {
				_ = u.cmd.Process.Kill()
			}
			_ = u.stdin.Close()
		}
		wg.Wait()
		for _, u := range users {
			require.Empty(t, u.failed)
			for _, n := range u.counted {
				require.False(t, seen[n], "count %d twice: two servers, or lost data", n)
				seen[n] = true
			}
		}
	}
	require.GreaterOrEqual(t, len(seen), rounds*(processes-1))

	l := share(t, dir)
	c := dial(t, l.URL())
	total, err := do(t, c, "GET", "count").AsInt64()
	require.NoError(t, err)
	// A killed process may have counted without telling.
	require.InDelta(t, len(seen), total, rounds)
	pid := serverPid(t, c)
	require.NoError(t, l.Release(within(t)))
	require.False(t, alive(pid))
	_, err = net.Dial("unix", strings.TrimPrefix(l.URL(), "unix://"))
	require.Error(t, err)
}
