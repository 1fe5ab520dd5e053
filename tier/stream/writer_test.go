package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestAppendThenRange(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, pack := range []int{1, 7, 100, 4096} {
			f := setUp(t, s)
			w := f.writer(stream.WriterConfig{Brand: "ORD", Pack: pack})
			var want []codec.ID
			for _, n := range []int{1, 500, 4096, 3, 4095} {
				want = append(want, f.append(w, n)...)
			}
			got := f.all()
			require.Equal(t, want, idsOf(got), "pack %d", pack)
			require.Equal(t, []byte{0x0f, 0xfe}, got[len(got)-1].Data)
			requireAscending(t, got)
		}
	})
}

// requireAscending: id order = position order, all unique, sequences in 12 bits.
func requireAscending(t testing.TB, records []codec.Record) {
	t.Helper()
	for i := range records {
		require.Less(t, records[i].Addr.Seq, uint64(4096))
		if i > 0 {
			require.Less(t, records[i-1].ID.String(), records[i].ID.String())
			require.Negative(t, records[i-1].Position.Compare(records[i].Position))
		}
	}
}
