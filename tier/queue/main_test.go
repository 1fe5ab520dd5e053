package queue_test

import (
	"context"
	"flag"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // these tests wait for servers more than they work
	tiertest.Main(m)
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// lease is long: nothing ends by itself.
const lease = time.Minute

// fixture is a client of a queue of the test's own.
type fixture struct {
	t       testing.TB
	ctx     context.Context
	server  *tiertest.Server
	client  *tier.Client
	queue   tier.Queue
	jobs    *queue.Client
	workers *queue.Workers
	raw     func() rueidis.Client // past package tier
}

func setUp(t testing.TB, s *tiertest.Server) *fixture { return setUpThrough(t, s, s) }

// setUpProxied is setUp with a proxy between the client and the server. What the fixture does past package tier goes to
// the server directly.
func setUpProxied(t testing.TB, s *tiertest.Server) (*fixture, *tiertest.Proxy) {
	p := tiertest.NewProxy(t, s)
	return setUpThrough(t, s, p), p
}

func setUpThrough(t testing.TB, s *tiertest.Server, via interface{ URL() string }) *fixture {
	return setUpWith(t, s, tiertest.Dial(t, via))
}

func setUpWith(t testing.TB, s *tiertest.Server, client *tier.Client) *fixture {
	f := &fixture{t: t, ctx: testContext(t), server: s, client: client}
	f.raw = sync.OnceValue(func() rueidis.Client {
		c, err := tiertest.Raw(s)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	})
	f.queue = tier.Queue(tiertest.AuditedScope(t, s))
	f.jobs = f.newClient(queue.Config{})
	f.workers = f.newWorkers(lease)
	return f
}

func (f *fixture) newClient(cfg queue.Config) *queue.Client {
	f.t.Helper()
	cfg.Queue = string(f.queue)
	c, err := queue.NewClient(f.client, cfg)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = c.Close(context.WithoutCancel(f.ctx)) })
	return c
}

func (f *fixture) newWorkers(lease time.Duration) *queue.Workers {
	f.t.Helper()
	w, err := queue.NewWorkers(f.client, queue.WorkersConfig{Queue: string(f.queue), Lease: lease})
	require.NoError(f.t, err)
	return w
}

func (f *fixture) join(w *queue.Workers) *queue.Member {
	f.t.Helper()
	m, err := w.Join(f.ctx, "w")
	require.NoError(f.t, err)
	return m
}

// do sends a command past package tier. Its first argument, if any, is the key.
func (f *fixture) do(cmd string, args ...string) rueidis.RedisMessage {
	f.t.Helper()
	b := f.raw().B().Arbitrary(cmd)
	built := b.Args(args...).Build()
	if len(args) > 0 && !keyless[cmd] {
		built = f.raw().B().Arbitrary(cmd).Keys(args[0]).Args(args[1:]...).Build()
	}
	m, err := f.raw().Do(f.ctx, built).ToMessage()
	if !rueidis.IsRedisNil(err) {
		require.NoError(f.t, err, "%s %.80q", cmd, args)
	}
	return m
}

var keyless = map[string]bool{"MEMORY": true, "INFO": true, "SCRIPT": true, "CONFIG": true, "XINFO": true, "FLUSHALL": true, "XGROUP": true, "CLIENT": true, "XREADGROUP": true}

// text is what a command answers, as text.
func (f *fixture) text(cmd string, args ...string) string {
	f.t.Helper()
	m := f.do(cmd, args...)
	if m.IsInt64() {
		n, _ := m.AsInt64()
		return strconv.FormatInt(n, 10)
	}
	text, _ := m.ToString()
	return text
}

// enqueue enqueues a job for each lane, whose data are their number from 0, in one call.
func (f *fixture) enqueue(lanes ...string) []codec.ID {
	f.t.Helper()
	jobs := make([]queue.Job, len(lanes))
	for i, lane := range lanes {
		jobs[i] = queue.Job{Lane: lane, Message: codec.Message{Type: "t", Data: []byte(strconv.Itoa(i))}}
	}
	receipts, err := f.jobs.EnqueueMany(f.ctx, jobs)
	require.NoError(f.t, err)
	ids := make([]codec.ID, len(receipts))
	for i, r := range receipts {
		require.NoError(f.t, r.Err)
		ids[i] = r.ID
	}
	return ids
}

// read claims n jobs, all that there are to be.
func (f *fixture) read(m *queue.Member, n int) []tier.Leased {
	f.t.Helper()
	leased, err := m.Read(f.ctx, n, 0)
	require.NoError(f.t, err)
	require.Len(f.t, leased, n)
	return leased
}

// none claims, and there is nothing.
func (f *fixture) none(m *queue.Member) {
	f.t.Helper()
	leased, err := m.Read(f.ctx, 10, 0)
	require.NoError(f.t, err)
	require.Empty(f.t, leased)
}

func (f *fixture) settle(m *queue.Member, leased ...tier.Leased) {
	f.t.Helper()
	n, err := m.Settle(f.ctx, entriesOf(leased))
	require.NoError(f.t, err)
	require.Equal(f.t, len(leased), n)
}

// commit ends the delivery of a job.
func (f *fixture) commit(m *queue.Member, e tier.Ending) {
	f.t.Helper()
	require.NoError(f.t, m.Commit(f.ctx, []tier.Ending{e}))
}

func again(l tier.Leased, delay time.Duration) tier.Ending {
	return tier.Ending{Entry: l.Entry, Deliveries: l.Deliveries, Open: []tier.Open{{Attempt: l.Deliveries, Delay: delay}}}
}

func dead(l tier.Leased, reason string) tier.Ending {
	return tier.Ending{Entry: l.Entry, Deliveries: l.Deliveries, Dead: []tier.Letter{{Index: -1, Reason: reason, Attempts: l.Deliveries}}}
}

func (f *fixture) get(id codec.ID) queue.Info {
	f.t.Helper()
	info, err := f.jobs.Get(f.ctx, id)
	require.NoError(f.t, err)
	return info
}

func (f *fixture) gone(ids ...codec.ID) {
	f.t.Helper()
	for _, id := range ids {
		_, err := f.jobs.Get(f.ctx, id)
		require.ErrorIs(f.t, err, queue.ErrNoJob)
	}
}

func (f *fixture) counts(want queue.Counts) {
	f.t.Helper()
	got, err := f.jobs.Counts(f.ctx)
	require.NoError(f.t, err)
	require.Equal(f.t, want, got)
}

func entriesOf(leased []tier.Leased) []codec.EntryID {
	entries := make([]codec.EntryID, len(leased))
	for i := range leased {
		entries[i] = leased[i].Entry
	}
	return entries
}

func idOf(l tier.Leased) codec.ID { return l.Records[0].ID }

func idsOf(leased []tier.Leased) []codec.ID {
	ids := make([]codec.ID, len(leased))
	for i := range leased {
		ids[i] = idOf(leased[i])
	}
	return ids
}

// age lets the leases of all active jobs of a lane end.
func (f *fixture) age(lane string) {
	f.t.Helper()
	key := f.queue.LaneKey(lane)
	m := f.do("XPENDING", key, "w", "-", "+", "10000")
	rows, err := m.ToArray()
	require.NoError(f.t, err)
	for _, r := range rows {
		row, err := r.ToArray()
		require.NoError(f.t, err)
		id, _ := row[0].ToString()
		owner, _ := row[1].ToString()
		n, _ := row[3].AsInt64()
		f.do("XCLAIM", key, "w", owner, "0", id, "IDLE", strconv.FormatInt(lease.Milliseconds(), 10), "RETRYCOUNT", strconv.FormatInt(n, 10), "JUSTID")
	}
	f.do("ZADD", f.queue.LeasedKey(), "1", lane)
}

// takeOver goes through all that there is to be looked at.
func (f *fixture) takeOver(m *queue.Member, n, suspects int) (leased []tier.Leased, last tier.Taken) {
	f.t.Helper()
	for {
		taken, err := m.TakeOver(f.ctx, n, suspects)
		require.NoError(f.t, err)
		if leased = append(leased, taken.Leased...); taken.Done {
			return leased, taken
		}
	}
}

// member is the one member of a sorted set.
func (f *fixture) member(key string) string {
	f.t.Helper()
	m := f.do("ZRANGE", key, "0", "-1")
	members, err := m.AsStrSlice()
	require.NoError(f.t, err)
	require.Len(f.t, members, 1)
	return members[0]
}
