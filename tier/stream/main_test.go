package stream_test

import (
	"context"
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

func TestMain(m *testing.M) { tiertest.Main(m) }

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

func setUp(t testing.TB, s *tiertest.Server) *fixture {
	f := &fixture{t: t, ctx: testContext(t), server: s, client: tiertest.Dial(t, s)}
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
	if len(args) > 0 {
		b = b.Keys(args[0]).Args(args[1:]...)
	}
	return b.Build()
}

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

func (f *fixture) log() string {
	a, err := tier.ParseAddress(f.address)
	require.NoError(f.t, err)
	return a.LogKey()
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
