package stream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkRange reads a whole log, one message an iteration, from a server without persistence.
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
			b.ResetTimer()
			n := 0
			for _, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}
