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
			requireSame(t, want, idsOf(got))
			require.Equal(t, []byte{0x0f, 0xfe}, got[len(got)-1].Data)
			requireAscending(t, got)
		}
	})
}
