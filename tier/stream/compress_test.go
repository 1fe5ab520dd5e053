package stream_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestCompressedPacks: records, addresses, lookups and positions of a named producer are those of packs without compression, in a fraction of the memory.
func TestCompressedPacks(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ms := messages(250)
		for i := range ms {
			ms[i].Data = []byte(strings.Repeat(`{"customer":"ann","total":3}`, 7) + string(ms[i].Data))
		}
		place := func(name string, c codec.Compression) (*fixture, []codec.ID) {
			f := f.at(name)
			cfg := stream.WriterConfig{Producer: "p", Pack: 100, Compression: c}
			ids, err := f.writer(cfg).AppendAt(f.ctx, 1, ms)
			require.NoError(t, err)
			cfg.Compression = codec.Zstd - c
			again, err := f.writer(cfg).AppendAt(f.ctx, 1, ms)
			require.NoError(t, err)
			require.Equal(t, ids, again, "what was appended is known, whoever compresses now")
			return f, ids
		}
		plain, _ := place("plain", codec.NoCompression)
		small, ids := place("small", codec.Zstd)

		want, got := plain.all(), small.all()
		require.Equal(t, ids, idsOf(got))
		require.Len(t, want, len(got))
		for i := range got {
			require.Equal(t, ms[i], got[i].Message)
			require.Equal(t, want[i].Position.Index, got[i].Position.Index)
		}
		one, err := small.reader().Get(f.ctx, ids[157])
		require.NoError(t, err)
		require.Equal(t, got[157], one)
		rest, err := collected(small.reader().Range(f.ctx, one.Addr, codec.MaxEntryID))
		require.NoError(t, err)
		require.Equal(t, got[157:], rest)
		memory := func(f *fixture) int64 {
			n, err := f.raw().Do(f.ctx, f.raw().B().MemoryUsage().Key(f.log()).Samples(0).Build()).AsInt64()
			require.NoError(t, err)
			return n
		}
		require.Less(t, memory(small), memory(plain)/5)
	})
}
