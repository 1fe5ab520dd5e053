package archive

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// order is a message of 200 bytes, as orders are.
func order(i int, r *rand.Rand) codec.Message {
	data := fmt.Sprintf(`{"order":%d,"customer":%d,"total":%d.%02d,"currency":"EUR","items":[{"sku":"%06d","count":%d}],"city":"%s","token":"%08x"`,
		1_000_000+i, r.IntN(50_000), r.IntN(900), r.IntN(100), r.IntN(20_000), 1+r.IntN(5), []string{"Berlin", "Hamburg", "Leipzig", "Bremen"}[r.IntN(4)], r.Uint32())
	words := []string{"leave", "at", "the", "door", "ring", "twice", "please", "gift", "fragile", "call", "before", "noon"}
	for data += `,"note":"`; len(data) < 198; {
		data += words[r.IntN(len(words))] + " "
	}
	data = data[:198] + `"}`
	return codec.Message{Type: "order.placed", Key: strconv.Itoa(r.IntN(50_000)), Data: []byte(data)}
}

// rawJSON is how many bytes a message takes as a line of JSON.
func rawJSON(m *codec.Message, id codec.ID) int {
	line, _ := json.Marshal(map[string]any{"id": id.String(), "type": m.Type, "key": m.Key, "data": json.RawMessage(m.Data)})
	return len(line) + 1
}

// BenchmarkFold writes entries as a segment, on one core: messages/s, and how large a segment is beside the messages as lines of JSON.
func BenchmarkFold(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	entries, raw := make([]codec.Entry, 100_000), 0
	for i := range entries {
		m := order(i, r)
		body, err := codec.AppendMessage(nil, &m)
		require.NoError(b, err)
		entries[i] = codec.Entry{ID: codec.EntryID{Ms: ms0 + uint64(i/20), Seq: uint64(i % 20)}, Fields: []string{"m", string(body)}}
		id, _ := codec.ServerID("ORD", 7, entries[i].ID)
		raw += rawJSON(&m, id)
	}
	var out counter
	b.ReportAllocs()
	for b.Loop() {
		out = 0
		w := newSegmentWriter(&out, server)
		for i := range entries {
			require.NoError(b, w.add(entries[i]))
		}
		_, err := w.close()
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N*len(entries))/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(out)/float64(raw), "of-raw-JSON")
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// BenchmarkRead reads a segment: messages/s, decoded.
func BenchmarkRead(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	entries := make([]codec.Entry, 100_000)
	for i := range entries {
		m := order(i, r)
		body, err := codec.AppendMessage(nil, &m)
		require.NoError(b, err)
		entries[i] = codec.Entry{ID: codec.EntryID{Ms: ms0 + uint64(i/20), Seq: uint64(i % 20)}, Fields: []string{"m", string(body)}}
	}
	store := filled(b, server, entries)
	reader, err := NewReader(store, ReaderConfig{Address: orders.String()})
	require.NoError(b, err)
	n := 0
	for b.Loop() {
		for _, err := range reader.Range(b.Context(), codec.EntryID{}, codec.MaxEntryID) {
			require.NoError(b, err)
			n++
		}
	}
	require.Equal(b, b.N*len(entries), n)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkArchive archives from a server to a directory: reading, folding, and reading back; and what is resident above what was
// before.
func BenchmarkArchive(b *testing.B) {
	s := newStage(b, tiertest.Private(b, tiertest.Valkey))
	r := rand.New(rand.NewPCG(1, 2))
	const n = 400_000
	for i := 0; i < n; i += 1000 {
		ms := make([]codec.Message, 1000)
		for k := range ms {
			ms[k] = order(i+k, r)
		}
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
		require.NoError(b, err)
		_, err = w.AppendBatch(s.ctx, ms)
		require.NoError(b, err)
	}
	s.policy.SegmentBytes = stream.DefaultSegmentBytes
	require.NoError(b, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
	before := resident(b)
	var most atomic.Int64
	go func() {
		for tier.Pause(b.Context(), 5*time.Millisecond) {
			most.Store(max(most.Load(), resident(b)))
		}
	}()
	messages := int64(0)
	for b.Loop() {
		store, err := OpenDirectory("file://" + b.TempDir())
		require.NoError(b, err)
		s.policy.Archive += "x"
		require.NoError(b, stream.SetRetention(s.ctx, s.client, s.addr.String(), s.policy))
		messages += s.all(s.archiver(store)).Messages
	}
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(most.Load()-before)/(1<<20), "MiB-above")
}

// resident is what of this process is in memory, in bytes.
func resident(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("only Linux tells")
	}
	var size, pages int64
	_, err = fmt.Fscan(strings.NewReader(string(text)), &size, &pages)
	require.NoError(b, err)
	return pages * int64(os.Getpagesize())
}
