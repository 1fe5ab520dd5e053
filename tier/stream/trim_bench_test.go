package stream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkTrim is one call with ten groups, which have settled so many entries of 200 bytes, and hold 4,000 more. It is what
// the caller waits, the questions for groups and cursors included.
func BenchmarkTrim(b *testing.B) {
	for _, goes := range []int{100, 1000, 8000} {
		b.Run(fmt.Sprintf("entries=%d", goes), func(b *testing.B) {
			f := setUp(b, tiertest.Private(b, tiertest.Valkey))
			w := f.writer(stream.WriterConfig{})
			ms := make([]codec.Message, 4000)
			for i := range ms {
				ms[i] = codec.Message{Type: "t", Key: "k", Data: make([]byte, 200)}
			}
			grow := func(n int) (last codec.EntryID) {
				for ; n > 0; n -= len(ms) {
					ids, err := w.AppendBatch(f.ctx, ms[:min(n, len(ms))])
					require.NoError(b, err)
					last = ids[len(ids)-1].ServerEntry()
				}
				return last
			}
			stand := func(at codec.EntryID, verb string) {
				for i := range 10 {
					f.do("XGROUP", verb, f.log(), fmt.Sprint("g", i), at.String())
				}
			}
			stand(grow(goes), "CREATE")
			policy := stream.Retention{Settled: true, Exact: true}
			sweep := f.sweeps(policy)
			grow(4000)
			f.trim(sweep, policy, allOfThat)
			for b.Loop() {
				b.StopTimer()
				next := grow(goes) // the new ones go, and as many as before stay
				f.do("XTRIM", f.log(), "MAXLEN", fmt.Sprint(goes))
				stand(next, "SETID")
				grow(4000)
				b.StartTimer()
				got, err := sweep.Trim(f.ctx, "orders", policy, allOfThat)
				require.NoError(b, err)
				require.EqualValues(b, goes, got.Entries)
			}
		})
	}
}
