package stream_test

import (
	"context"
	"testing"
	"time"

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
}

func setUp(t testing.TB, s *tiertest.Server) *fixture {
	scope := tiertest.AuditedScope(t, s)
	return &fixture{t: t, ctx: testContext(t), server: s, client: tiertest.Dial(t, s), address: scope + "/orders"}
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
