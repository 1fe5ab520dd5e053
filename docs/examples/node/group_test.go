package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const limit = 30 * time.Second

// tally counts who has handled which message.
type tally struct {
	mu      sync.Mutex
	handled map[string][]string
	by      map[string]int
}

func newTally() *tally { return &tally{handled: map[string][]string{}, by: map[string]int{}} }

func (c *tally) add(who, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled[message] = append(c.handled[message], who)
	c.by[who]++
}

func (c *tally) enough(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by["node"] >= n && c.by["go"] >= n
}

func (c *tally) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by["node"] + c.by["go"]
}

// handleAll runs a consumer of ours, until it is stopped.
func handleAll(t *testing.T, group *stream.Group, counts *tally) (stop func()) {
	t.Helper()
	c, err := consumer.New(consumer.Group(group), func(_ context.Context, d *consumer.Delivery) error {
		counts.add("go", d.Key)
		return nil
	}, consumer.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}

// groupProgram is read.mjs in a group; what it prints is counted until it ends.
func groupProgram(t *testing.T, e *site, counts *tally, args ...string) (cmd *exec.Cmd, printed <-chan struct{}) {
	t.Helper()
	cmd = program(t, e.server.URL(), append(append([]string{"read.mjs"}, args...), e.address)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rows := bufio.NewScanner(out); rows.Scan(); {
			var l line
			if json.Unmarshal(rows.Bytes(), &l) == nil {
				counts.add("node", string(l.Key))
			}
		}
	}()
	return cmd, done
}

// TestGroupIsShared by a consumer of ours and a raw client: each message is handled by one of the two, and none is left.
func TestGroupIsShared(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		e := newSite(t, s)
		group, err := stream.NewGroup(e.client, stream.GroupConfig{Address: e.address, Name: "mailer", Start: stream.Head()})
		require.NoError(t, err)
		require.NoError(t, group.Create(t.Context()))
		counts := newTally()
		stop := handleAll(t, group, counts)
		cmd, printed := groupProgram(t, e, counts, "--group", "mailer", "--page", "10")

		plain, packs := e.writer(t, 1), e.writer(t, 3)
		var n int
		batch := func() (ms []codec.Message) {
			for range 3 {
				ms = append(ms, codec.Message{Type: "order.placed", Key: strconv.Itoa(n)})
				n++
			}
			return ms
		}
		// Each batch is read by who waits: until both have had several.
		tiertest.Eventually(t, limit, func() (bool, string) {
			_, err := plain.AppendBatch(t.Context(), batch())
			require.NoError(t, err)
			_, err = packs.AppendBatch(t.Context(), batch())
			require.NoError(t, err)
			return counts.enough(20), "one of the two gets nothing"
		})
		tiertest.Eventually(t, limit, func() (bool, string) {
			return counts.total() >= n, "messages are left"
		})
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		<-printed
		require.NoError(t, cmd.Wait())
		stop()

		require.Len(t, counts.handled, n)
		for message, who := range counts.handled {
			require.Len(t, who, 1, message)
		}
		infos, err := stream.Groups(t.Context(), e.client, e.address)
		require.NoError(t, err)
		require.Len(t, infos, 1)
		require.Zero(t, infos[0].Pending)
		require.Zero(t, infos[0].Lag)
		require.Zero(t, infos[0].Dead)
	})
}

// stuck is a group, and read.mjs in it, that was given all and cannot print it, since nobody reads what it prints.
func stuck(t *testing.T, e *site) (group *stream.Group, cmd *exec.Cmd, out *bufio.Reader, errs *bytes.Buffer) {
	t.Helper()
	group, err := stream.NewGroup(e.client, stream.GroupConfig{Address: e.address, Name: "mailer", Start: stream.Head(), Lease: 500 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, group.Create(t.Context()))
	e.large(t)
	cmd = program(t, e.server.URL(), "read.mjs", "--group", "mailer", e.address)
	errs = &bytes.Buffer{}
	cmd.Stderr = errs
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out = bufio.NewReader(stdout)
	_, err = out.ReadBytes('\n')
	require.NoError(t, err)
	return group, cmd, out, errs
}

func (e *site) pending(t *testing.T) int {
	t.Helper()
	infos, err := stream.Groups(t.Context(), e.client, e.address)
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Zero(t, infos[0].Lag)
	return int(infos[0].Pending)
}

// TestGroupTakesOverFromARawClient: what a raw client was given and has not acknowledged when it dies comes to a consumer
// of ours after the lease.
func TestGroupTakesOverFromARawClient(t *testing.T) {
	e := newSite(t, tiertest.Shared(t, tiertest.Valkey))
	group, cmd, _, _ := stuck(t, e)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.NotZero(t, e.pending(t))

	counts := newTally()
	stop := handleAll(t, group, counts)
	tiertest.Eventually(t, limit, func() (bool, string) { return e.pending(t) == 0, "entries are left" })
	stop()
	counts.add("node", "0") // the one that was printed whole, and perhaps acknowledged
	require.Len(t, counts.handled, 20)
}

// TestGroupIsNotAckedAfterTheLease: by then another consumer may hold the entry, and the server would not ask.
func TestGroupIsNotAckedAfterTheLease(t *testing.T) {
	e := newSite(t, tiertest.Shared(t, tiertest.Valkey))
	_, cmd, out, errs := stuck(t, e)
	tiertest.Eventually(t, limit, func() (bool, string) {
		rows, err := e.raw.Do(t.Context(), e.raw.B().Xpending().Key(e.key).Group("mailer").Start("-").End("+").Count(1).Build()).ToArray()
		require.NoError(t, err)
		row, err := rows[0].ToArray()
		require.NoError(t, err)
		idle, err := row[2].AsInt64()
		require.NoError(t, err)
		return idle > 500, "the lease has not ended"
	})
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	require.Contains(t, errs.String(), "longer than half the lease")
	printed := 1 + bytes.Count(rest, []byte("\n"))
	require.Equal(t, 20-(printed-1), e.pending(t), "the last one was late")
}

// TestGroupEndsWhenNothingComes, and says what to do when there is no such group.
func TestGroupEndsWhenNothingComes(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	e := newSite(t, s)
	_, err := e.writer(t, 4).AppendBatch(t.Context(), corners())
	require.NoError(t, err)
	_, errs, err := run(t, s.URL(), "", "read.mjs", "--group", "mailer", e.address)
	require.Error(t, err)
	require.Contains(t, errs, "NOGROUP")
	require.Contains(t, errs, "XGROUP CREATE")

	group, err := stream.NewGroup(e.client, stream.GroupConfig{Address: e.address, Name: "mailer", Start: stream.Head()})
	require.NoError(t, err)
	require.NoError(t, group.Create(t.Context()))
	want := linesOf(e.records(t))
	require.Equal(t, want, parse(t, runOK(t, s.URL(), "", "read.mjs", "--group", "mailer", "--wait", "0.2", e.address)))
	require.Empty(t, runOK(t, s.URL(), "", "read.mjs", "--group", "mailer", "--wait", "0.2", e.address))
}
