package stream_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
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

// A long range reads a page while the one before it is taken, and has asked for the one after it, on a connection that ends with it; a short
// one reads nothing ahead.
func TestARangeReadsAhead(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	ids := f.appendSized(f.writer(stream.WriterConfig{}), 4000, 100)
	reads := func() int { return proxy.Commands()["XRANGE"] }
	var got []codec.ID
	begin, connections := reads(), proxy.Connections()
	for record, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		got = append(got, record.ID)
		switch n := len(got); {
		case n <= 16:
			require.Equal(t, begin+1, reads())
		case n == 17, n == 1000:
			tiertest.Eventually(t, soon, func() (bool, string) {
				return reads()-begin == 2+(n-17)/512+2, strconv.Itoa(reads() - begin)
			})
			require.Equal(t, connections+1, proxy.Connections())
		}
	}
	require.Equal(t, ids, got)
	ended := func() {
		tiertest.Eventually(t, soon, func() (bool, string) { return proxy.Connections() == connections, "the connection stays" })
	}
	ended()

	n := 0
	for _, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		if n++; n == 1000 {
			break
		}
	}
	ended()

	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	n = 0
	var last error
	for _, err := range f.reader().Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		if n++; n == 1000 {
			cancel()
		}
		last = err
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Less(t, n, 3000)
	ended()
}

// What Range and Entries have given out stays as it is, though the pages of a long range are used again: foreign entries, and those that no
// rule could read, have the fields that they came with.
func TestWhatARangeGaveOutStays(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	const each = 1200
	old, foreign := make([]codec.Message, each), make([][]string, each)
	for i := range each {
		old[i], foreign[i] = codec.Message{Type: "old", Key: strconv.Itoa(i)}, []string{"foreign", strconv.Itoa(i)}
	}
	_, err := f.writer(stream.WriterConfig{}).AppendBatch(f.ctx, old)
	require.NoError(t, err)
	raw, err := stream.NewForeign(f.client, f.log())
	require.NoError(t, err)
	_, err = raw.Append(f.ctx, foreign, 0)
	require.NoError(t, err)
	rules := codec.Upcasts{"old": func(*codec.Message) error { return errors.New("no rule") }}
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.addr().String(), Upcasts: rules})
	require.NoError(t, err)

	var was []string
	var records []codec.Record
	for record, err := range r.Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		was, records = append(was, strings.Join(record.Fields, " ")), append(records, record)
	}
	require.Len(t, records, 2*each)
	for i := range records {
		require.Equal(t, was[i], strings.Join(records[i].Fields, " "))
	}
	var entries []codec.Entry
	for entry, err := range r.Entries(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		entries = append(entries, entry)
	}
	require.Len(t, entries, 2*each)
	for i := range entries {
		require.Equal(t, was[i], strings.Join(entries[i].Fields, " "))
	}
}
