package stream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkRange reads a whole log, one message an iteration, from a server without persistence. The ratio is to raw XRANGE of 1,000 entries a call,
// whose replies nobody looks at, of the same log just before.
func BenchmarkRange(b *testing.B) {
	for _, size := range []int{200, 1000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			f := setUp(b, tiertest.Private(b, tiertest.Valkey))
			w := f.writer(stream.WriterConfig{})
			ms := make([]codec.Message, 4000)
			for i := range ms {
				ms[i] = codec.Message{Type: "order.placed", Key: "c-1", Data: make([]byte, size)}
			}
			for left := b.N; left > 0; left -= len(ms) {
				_, err := w.AppendBatch(f.ctx, ms[:min(left, len(ms))])
				require.NoError(b, err)
			}
			raw := f.rawRange(b)
			b.ResetTimer()
			n := 0
			for _, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			rate := float64(n) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "msgs/s")
			b.ReportMetric(rate/raw, "of-raw")
		})
	}
}

// rawRange reads the log by XRANGE, and is the entries a second.
func (f *fixture) rawRange(b *testing.B) float64 {
	began, n, from := time.Now(), 0, "-"
	for {
		reply := f.do("XRANGE", f.log(), from, "+", "COUNT", "1000")
		entries, err := reply.ToArray()
		require.NoError(b, err)
		if len(entries) == 0 {
			return float64(n) / time.Since(began).Seconds()
		}
		n += len(entries)
		last, err := entries[len(entries)-1].ToArray()
		require.NoError(b, err)
		id, err := last[0].ToString()
		require.NoError(b, err)
		from = "(" + id
	}
}
