package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// appendSized appends n messages of about so many bytes.
func (f *fixture) appendSized(w *stream.Writer, n, bytes int) []codec.ID {
	f.t.Helper()
	var ids []codec.ID
	for len(ids) < n {
		ms := make([]codec.Message, min(n-len(ids), 4096, max(1, (7<<20)/bytes)))
		for i := range ms {
			ms[i].Data = make([]byte, bytes)
		}
		got, err := w.AppendBatch(f.ctx, ms)
		require.NoError(f.t, err)
		ids = append(ids, got...)
	}
	return ids
}

// TestPagesAreBounded: B70 for a reader. Pages follow the size of entries, and none is as long as the log; a page that bytes have
// ended is not taken for the end of the log.
func TestPagesAreBounded(t *testing.T) {
	const small, large = 3000, 1200
	const bytes = 30_000
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		first := f.appendSized(w, small, 100)[0].ServerEntry()
		begin := f.appendSized(w, large, bytes)[0].ServerEntry()
		f.appendSized(w, small, 100)

		// An address that has no entry: pages that begin there are read by the script.
		for name, from := range map[string]codec.EntryID{"whole": {}, "large ones": begin, "between": {Ms: first.Ms - 1}} {
			for _, follow := range []bool{false, true} {
				pages, err := f.reader().Pages(f.ctx, from, follow)
				require.NoError(t, err)
				total, over := 0, 0
				for _, p := range pages {
					total += p.Entries
					require.LessOrEqual(t, p.Entries, 512)
					if p.Bytes > 1<<20+17*bytes {
						over++
					}
				}
				want := small + large + small
				if name == "large ones" {
					want = large + small
				}
				require.Equal(t, want, total, name)
				require.LessOrEqual(t, over, 2, "%s %v: only where large entries begin: %v", name, follow, pages)
			}
		}
	})
}

// TestPageEndedByBytes: the script ends a page by bytes, and a reader goes on behind it.
func TestPageEndedByBytes(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		const n, bytes = 40, 200_000
		first := f.appendSized(w, n, bytes)[0].ServerEntry()
		for _, follow := range []bool{false, true} {
			pages, err := f.reader().Pages(f.ctx, codec.EntryID{Ms: first.Ms - 1}, follow)
			require.NoError(t, err)
			require.Less(t, pages[0].Entries, 16, "%v", pages) // of 17 that were asked for: ended by bytes, one kept back
			total := 0
			for _, p := range pages {
				total += p.Entries
			}
			require.Equal(t, n, total, "%v", pages)
		}
	})
}
