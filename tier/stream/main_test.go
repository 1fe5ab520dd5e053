package stream_test

import (
	"context"
	"errors"
	"flag"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
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

// fixture is a client, and a stream in a scope of the test's own.
type fixture struct {
	t       testing.TB
	ctx     context.Context
	server  *tiertest.Server
	client  *tier.Client
	address string
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
	f.raw = sync.OnceValue(func() rueidis.Client { return raw(t, s) })
	f.address = tiertest.AuditedScope(t, s) + "/orders"
	return f
}

// raw is a connection past package tier, until the test ends.
func raw(t testing.TB, s interface{ URL() string }) rueidis.Client {
	t.Helper()
	c, err := tiertest.Raw(s)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// do sends a command past package tier. Its first argument, if any, is the key.
func (f *fixture) do(cmd string, args ...string) rueidis.RedisMessage {
	f.t.Helper()
	m, err := f.raw().Do(f.ctx, command(f.raw(), cmd, args...)).ToMessage()
	if !rueidis.IsRedisNil(err) {
		require.NoError(f.t, err, "%s %.80q", cmd, args)
	}
	return m
}

func command(c rueidis.Client, cmd string, args ...string) rueidis.Completed {
	b := c.B().Arbitrary(cmd)
	if len(args) == 0 || keyless[cmd] {
		return b.Args(args...).Build()
	}
	return b.Keys(args[0]).Args(args[1:]...).Build()
}

var keyless = map[string]bool{"SCRIPT": true, "CONFIG": true, "ACL": true, "CLIENT": true, "XINFO": true, "REPLICAOF": true, "FLUSHALL": true}

// now is the server's clock.
func (f *fixture) now() time.Time {
	f.t.Helper()
	now, err := f.client.Now(f.ctx, f.log())
	require.NoError(f.t, err)
	return now
}

func encoded(t testing.TB, key string) string {
	t.Helper()
	b, err := codec.AppendMessage(nil, &codec.Message{Type: "t", Key: key})
	require.NoError(t, err)
	return string(b)
}

func (f *fixture) writer(cfg stream.WriterConfig) *stream.Writer {
	f.t.Helper()
	cfg.Address = f.address
	w, err := stream.NewWriter(f.client, cfg)
	require.NoError(f.t, err)
	return w
}

func (f *fixture) reader() *stream.Reader {
	f.t.Helper()
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.address})
	require.NoError(f.t, err)
	return r
}

func (f *fixture) group(name string, start stream.Start, lease time.Duration) *stream.Group {
	f.t.Helper()
	g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.address, Name: name, Start: start, Lease: lease})
	require.NoError(f.t, err)
	return g
}

// append appends n messages whose data count from 0, in one call.
func (f *fixture) append(w *stream.Writer, n int) []codec.ID {
	f.t.Helper()
	ids, err := w.AppendBatch(f.ctx, messages(n))
	require.NoError(f.t, err)
	require.Len(f.t, ids, n)
	return ids
}

func (f *fixture) addr() tier.Address {
	a, err := tier.ParseAddress(f.address)
	require.NoError(f.t, err)
	return a
}

func (f *fixture) log() string { return f.addr().LogKey() }

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

// length is that of the log, in entries.
func (f *fixture) length() string { return f.text("XLEN", f.log()) }

// load makes the server know a script.
func (f *fixture) load(s source) { f.do("SCRIPT", "LOAD", s.Text) }

// fill makes a private server a full one, or ends that.
func (f *fixture) fill(full bool) {
	limit := "0"
	if full {
		limit = "1"
	}
	f.do("CONFIG", "SET", "maxmemory", limit)
}

func script(t testing.TB, name string) *tier.Script {
	t.Helper()
	return tier.NewScript(name, sources(t)[name].Text)
}

// all reads the whole stream.
func (f *fixture) all() []codec.Record {
	f.t.Helper()
	var out []codec.Record
	for record, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(f.t, err)
		out = append(out, record)
	}
	return out
}

func messages(n int) []codec.Message {
	ms := make([]codec.Message, n)
	for i := range ms {
		ms[i] = codec.Message{Type: "counted", Key: "k", Data: []byte{byte(i >> 8), byte(i)}}
	}
	return ms
}

func idsOf(records []codec.Record) []codec.ID {
	ids := make([]codec.ID, len(records))
	for i := range records {
		ids[i] = records[i].ID
	}
	return ids
}

// pend is a row of the pending list.
type pend struct {
	entry      codec.EntryID
	consumer   string
	idle       time.Duration
	deliveries int
}

// pending is the pending list of a group, ascending.
func (f *fixture) pending(group string) []pend {
	f.t.Helper()
	m := f.do("XPENDING", f.log(), group, "-", "+", "100000")
	rows, err := m.ToArray()
	require.NoError(f.t, err)
	list := make([]pend, len(rows))
	for i := range rows {
		row, err := rows[i].ToArray()
		require.NoError(f.t, err)
		id, err := row[0].ToString()
		require.NoError(f.t, err)
		list[i].entry, err = codec.ParseEntryID(id)
		require.NoError(f.t, err)
		list[i].consumer, err = row[1].ToString()
		require.NoError(f.t, err)
		idle, err := row[2].AsInt64()
		require.NoError(f.t, err)
		list[i].idle = time.Duration(idle) * time.Millisecond
		n, err := row[3].AsInt64()
		require.NoError(f.t, err)
		list[i].deliveries = int(n)
	}
	return list
}

func (f *fixture) join(g *stream.Group) *stream.Member {
	f.t.Helper()
	m, err := g.Join(f.ctx, "m")
	require.NoError(f.t, err)
	return m
}

// read reads n entries, which must be there.
func (f *fixture) read(m *stream.Member, n int) []tier.Leased {
	f.t.Helper()
	leased, err := m.Read(f.ctx, n, 0)
	require.NoError(f.t, err)
	require.Len(f.t, leased, n)
	return leased
}

func entriesOf(leased []tier.Leased) []codec.EntryID {
	ids := make([]codec.EntryID, len(leased))
	for i := range leased {
		ids[i] = leased[i].Entry
	}
	return ids
}

func heldOf(leased []tier.Leased) []tier.Held {
	held := make([]tier.Held, len(leased))
	for i := range leased {
		held[i] = tier.Held{Entry: leased[i].Entry, Deliveries: leased[i].Deliveries}
	}
	return held
}

// run runs a writer until stop is called, or the test ends.
func (f *fixture) run(w *stream.Writer) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-w.Ready()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(f.t, <-ended)
	})
	f.t.Cleanup(stop)
	return stop
}

// outcomes are what Publish called back with, in the order of the calls.
type outcomes struct {
	mu   sync.Mutex
	ids  []codec.ID
	errs []error
	n    []int // of the message that each call was for
}

func (o *outcomes) of(n int) func(codec.ID, error) {
	return func(id codec.ID, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ids, o.errs, o.n = append(o.ids, id), append(o.errs, err), append(o.n, n)
	}
}

func (o *outcomes) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.n)
}

// publish publishes n messages whose data count from 0.
func (f *fixture) publish(w *stream.Writer, n int) *outcomes {
	f.t.Helper()
	var o outcomes
	for i, m := range messages(n) {
		require.NoError(f.t, w.Publish(f.ctx, m, o.of(i)))
	}
	return &o
}

// requireCounted: the log holds the messages of messages(n), once each and in order, and these are their ids.
func requireCounted(t testing.TB, ids []codec.ID, records []codec.Record) {
	t.Helper()
	requireAscending(t, records)
	require.Len(t, records, len(ids))
	for i, m := range messages(len(ids)) {
		if !slices.Equal(m.Data, records[i].Data) || records[i].ID != ids[i] {
			t.Fatalf("record %d: %x with id %s; receipt %s", i, records[i].Data, records[i].ID, ids[i])
		}
	}
}

func errorsIsAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// requireSame is require.Equal for long lists: it says where they differ.
func requireSame[T comparable](t testing.TB, want, got []T) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("of %d and %d, number %d differs: want %v, got %v", len(want), len(got), i, want[i], got[i])
		}
	}
	if len(want) != len(got) {
		t.Fatalf("want %d, got %d, which are the same as far as they go", len(want), len(got))
	}
}

func errorsAs[T error](err error, target *T) bool { return errors.As(err, target) }

// collected is what a listing yields until it fails.
func collected[T any](seq iter.Seq2[T, error]) (list []T, err error) {
	for v, err := range seq {
		if err != nil {
			return list, err
		}
		list = append(list, v)
	}
	return list, nil
}
