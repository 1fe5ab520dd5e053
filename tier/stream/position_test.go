package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestPosition: where a named producer has got, whoever it was, in plain entries, packs and keyed streams; a refused call moves nothing.
func TestPosition(t *testing.T) {
	for name, cfg := range map[string]stream.WriterConfig{"plain": {Producer: "p"}, "packs": {Producer: "p", Pack: 3}, "keyed": {Producer: "p", Keyed: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				is := func(want uint64) {
					t.Helper()
					got, err := f.writer(cfg).Position(f.ctx)
					require.NoError(t, err)
					require.Equal(t, want, got)
				}
				is(0)
				w := f.writer(cfg)
				for _, position := range []uint64{1, 7, 1<<53 - 1} {
					_, err := w.AppendAt(f.ctx, position, keyedMessages("a", "b"))
					require.NoError(t, err)
					is(position)
				}
				_, err := w.AppendAt(f.ctx, 8, keyedMessages("a"))
				require.ErrorIs(t, err, stream.ErrAlreadyAppended)
				is(1<<53 - 1)
				_, err = f.writer(stream.WriterConfig{Keyed: cfg.Keyed}).AppendBatch(f.ctx, []codec.Message{{Key: "c"}})
				require.NoError(t, err)
				is(1<<53 - 1)
				_, err = f.writer(stream.WriterConfig{}).Position(f.ctx)
				require.ErrorIs(t, err, stream.ErrBadCall)
			})
		})
	}
}
