package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const (
	patience  = 60 * time.Second // for what must happen; a busy machine is slow
	lease     = 2 * time.Second  // long enough for a machine that is busy, unless a test wants it to end
	groupName = "mailer"
)

// stage is a stream of a test's own, with a group, on one server. The scope is audited when the test ends.
type stage struct {
	t      testing.TB
	server *tiertest.Server
	client *tier.Client
	addr   tier.Address
	lease  time.Duration
}

func newStage(t testing.TB, server *tiertest.Server) *stage {
	return &stage{
		t: t, server: server, lease: lease,
		addr:   tier.Address{Scope: tiertest.AuditedScope(t, server), Stream: "orders"},
		client: tiertest.Dial(t, server),
	}
}

func (s *stage) group(client *tier.Client) *stream.Group {
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: s.addr.String(), Name: groupName, Start: stream.Head(), Lease: s.lease})
	require.NoError(s.t, err)
	return g
}

func (s *stage) source() consumer.Source { return consumer.Group(s.group(s.client)) }

// append appends messages 0 to n-1, the number being key and data, pack of them an entry.
func (s *stage) append(n, pack int) []codec.ID {
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD", Pack: pack})
	require.NoError(s.t, err)
	var ids []codec.ID
	for at := 0; at < n; {
		batch := make([]codec.Message, 0, 4000)
		for ; at < n && len(batch) < cap(batch); at++ {
			text := strconv.Itoa(at)
			batch = append(batch, codec.Message{Type: "order.placed", Key: text, Data: []byte(text)})
		}
		got, err := w.AppendBatch(s.t.Context(), batch)
		require.NoError(s.t, err)
		ids = append(ids, got...)
	}
	return ids
}

// raw adds an entry as another program would.
func (s *stage) raw(id string, fieldsAndValues ...string) string {
	add := s.client.B().Arbitrary("XADD").Keys(s.addr.LogKey()).Args(id).Args(fieldsAndValues...).Build()
	m, err := s.client.Do(s.t.Context(), s.addr.LogKey(), add)
	require.NoError(s.t, err)
	text, err := m.ToString()
	require.NoError(s.t, err)
	return text
}

// do runs a command whose first key is the log.
func (s *stage) do(command string, args ...string) (reply any) {
	m, err := s.client.Do(context.Background(), s.addr.LogKey(), s.client.B().Arbitrary(command).Keys(s.addr.LogKey()).Args(args...).Build())
	require.NoError(s.t, err)
	reply, err = m.ToAny()
	require.NoError(s.t, err)
	return reply
}

// pending is how many entries are pending.
func (s *stage) pending() int {
	return int(s.do("XPENDING", groupName).([]any)[0].(int64))
}

// parked counts what is parked, and the rows of what is open.
func (s *stage) parked() (n int64) {
	for _, ask := range [][2]string{{"ZCARD", s.addr.RetryKey(groupName)}, {"HLEN", s.addr.OpenKey(groupName)}} {
		m, err := s.client.Do(context.Background(), ask[1], s.client.B().Arbitrary(ask[0]).Keys(ask[1]).Build())
		require.NoError(s.t, err)
		some, err := m.AsInt64()
		require.NoError(s.t, err)
		n += some
	}
	return n
}

// holders are the consumers that hold pending entries, with their number.
func (s *stage) holders() map[string]int {
	holders := map[string]int{}
	rows, _ := s.do("XPENDING", groupName).([]any)[3].([]any)
	for _, row := range rows {
		n, err := strconv.Atoi(row.([]any)[1].(string))
		require.NoError(s.t, err)
		holders[row.([]any)[0].(string)] = n
	}
	return holders
}

// info is the group as the server has it.
func (s *stage) info() stream.GroupInfo {
	groups, err := stream.Groups(context.Background(), s.client, s.addr.String())
	require.NoError(s.t, err)
	require.Len(s.t, groups, 1)
	return groups[0]
}

// letters are the group's dead letters, field by field.
func (s *stage) letters() (letters []map[string]string) {
	key := s.addr.DeadKey(groupName)
	m, err := s.client.Do(context.Background(), key, s.client.B().Xrange().Key(key).Start("-").End("+").Build())
	require.NoError(s.t, err)
	entries, err := m.AsXRange()
	require.NoError(s.t, err)
	for _, e := range entries {
		letters = append(letters, e.FieldValues)
	}
	return letters
}

func (s *stage) settled(within time.Duration) {
	s.t.Helper()
	tiertest.Eventually(s.t, within, func() (bool, string) {
		pending, parked := s.pending(), s.parked()
		return pending == 0 && parked == 0, fmt.Sprintf("%d pending, %d parked", pending, parked)
	})
}

// running is a consumer at work.
type running struct {
	t    testing.TB
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// run starts a consumer and stops it with the test.
func (s *stage) run(source consumer.Source, h consumer.Handler, cfg consumer.Config) *running {
	s.t.Helper()
	c, err := consumer.New(source, h, cfg)
	require.NoError(s.t, err)
	return s.begin(c)
}

// begin starts a consumer and stops it with the test.
func (s *stage) begin(c *consumer.Consumer) *running {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: s.t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = c.Run(ctx)
	}()
	s.t.Cleanup(func() { r.stop(); <-r.done })
	select {
	case <-c.Ready():
	case <-r.done:
		require.NoError(s.t, r.err, "the consumer ended before it was ready")
	}
	return r
}

// wait returns what Run returned.
func (r *running) wait(within time.Duration) error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(within):
		require.FailNow(r.t, "the consumer does not stop", "within %s", within)
	}
	return r.err
}

// tally counts deliveries by the messages' data.
type tally struct {
	mu      sync.Mutex
	seen    map[string]int
	total   int
	changed chan struct{}
}

func newTally() *tally { return &tally{seen: map[string]int{}, changed: make(chan struct{}, 1)} }

func (c *tally) add(key string) (times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[key]++
	c.total++
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return c.seen[key]
}

func (c *tally) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[key]
}

func (c *tally) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

func (c *tally) deliveries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// reach waits until n different messages were seen.
func (c *tally) reach(t testing.TB, n int, within time.Duration) {
	t.Helper()
	timeout := time.After(within)
	for c.distinct() < n {
		select {
		case <-c.changed:
		case <-timeout:
			require.FailNow(t, "messages are missing", "%d of %d after %s", c.distinct(), n, within)
		}
	}
}

// get receives, or fails the test.
func get[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		require.FailNow(t, "nothing came", "within %s", patience)
	}
	return v
}
