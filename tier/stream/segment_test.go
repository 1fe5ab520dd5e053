package stream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

var archived = stream.Retention{Settled: true, Exact: true, Archive: "file:///archive"}

// TestArchiveHolds (CONFORMANCE 78): from the moment that a policy has an archive nothing goes that it does not have; what goes is
// what is below the mark, which other programs read; without an archive the mark is no more, and with another store it begins
// anew.
func TestArchiveHolds(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.logged(10)
		right := f.sweeps(archived)
		mark := func() string { return f.text("GET", f.addr().ArchivedKey()) }
		require.Empty(t, mark())
		require.Zero(t, f.trim(right, archived, allOfThat))
		h, err := stream.HoldingsOf(f.ctx, f.client, f.address)
		require.NoError(t, err)
		floor, held := h.Floor()
		require.True(t, held)
		require.Equal(t, "unarchived", floor.Why)

		for _, last := range []int{3, 5, 4, 5} { // and it does not go back
			_, err = right.Mark(f.ctx, "orders", archived, ids[last], codec.MaxEntryID)
			require.NoError(t, err)
		}
		require.Equal(t, ids[5].String(), mark())
		require.EqualValues(t, 6, f.trim(right, archived, allOfThat))

		shorter := archived
		shorter.MaxAge = time.Hour
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, shorter))
		require.Equal(t, ids[5].String(), mark())
		other := archived
		other.Archive = "file:///other"
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, other))
		require.Empty(t, mark())
		require.Equal(t, ids[5].Next().String(), f.text("HGET", f.addr().RetentionKey(), "lost"), "the other store does not have what went")
		c, err := right.Choose(f.ctx, "orders", other, codec.EntryID{}, codec.EntryID{}, 0)
		require.NoError(t, err)
		require.Equal(t, stream.Chosen{Top: ids[9]}, c)
		require.Zero(t, f.trim(right, other, allOfThat))
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, settled))
		require.Empty(t, f.text("HGET", f.addr().RetentionKey(), "mark"))
	})
}

// TestChoose: a segment that is chosen stays so, for whoever comes, until the mark has passed it; entries that are not old enough
// are left; who does not hold the right chooses and marks nothing.
func TestChoose(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.logged(10)
		right := f.sweeps(archived)
		choose := func(mark codec.EntryID, to int, settle time.Duration) stream.Chosen {
			t.Helper()
			c, err := right.Choose(f.ctx, "orders", archived, mark, ids[to], settle)
			require.NoError(t, err)
			require.Equal(t, ids[9], c.Top)
			c.Top = codec.EntryID{}
			return c
		}
		require.Zero(t, choose(codec.EntryID{}, 4, time.Minute), "too young")
		require.Zero(t, choose(ids[0], 4, -time.Minute), "another mark")
		first := stream.Chosen{From: ids[0], To: ids[4]}
		require.Equal(t, first, choose(codec.EntryID{}, 4, -time.Minute))
		require.Equal(t, first, choose(codec.EntryID{}, 7, -time.Minute))
		last, n, err := stream.Upto(f.ctx, f.client, f.address, codec.EntryID{}, codec.MaxEntryID, 5, 10)
		require.NoError(t, err)
		require.Equal(t, ids[4], last)
		require.EqualValues(t, 5, n)

		strange, err := stream.NewSweep(f.client, f.addr().Scope, 0)
		require.NoError(t, err)
		_, err = strange.Mark(f.ctx, "orders", archived, ids[4], codec.MaxEntryID)
		require.ErrorIs(t, err, stream.ErrSweepLost)
		_, err = strange.Choose(f.ctx, "orders", archived, codec.EntryID{}, ids[4], 0)
		require.ErrorIs(t, err, stream.ErrSweepLost)
		_, err = right.Mark(f.ctx, "orders", settled, ids[4], codec.MaxEntryID)
		require.ErrorIs(t, err, stream.ErrPolicyChanged)

		_, err = right.Mark(f.ctx, "orders", archived, ids[2], codec.MaxEntryID)
		require.NoError(t, err)
		next := stream.Chosen{From: ids[3], To: ids[7], Mark: ids[2]}
		require.Equal(t, next, choose(ids[2], 7, -time.Minute), "one that begins below the mark is none any more")
		_, err = right.Mark(f.ctx, "orders", archived, ids[1], codec.MaxEntryID)
		require.NoError(t, err)
		require.Equal(t, next, choose(ids[2], 9, -time.Minute), "it is not done")
		_, err = right.Mark(f.ctx, "orders", archived, ids[7], codec.MaxEntryID)
		require.NoError(t, err)
		require.Equal(t, stream.Chosen{From: ids[8], To: ids[9], Mark: ids[7]}, choose(ids[7], 9, -time.Minute))
		var got []codec.EntryID
		r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.address})
		require.NoError(t, err)
		for e, err := range r.Entries(f.ctx, ids[5], ids[7]) {
			require.NoError(t, err)
			require.Equal(t, "m", e.Fields[0])
			got = append(got, e.ID)
		}
		require.Equal(t, ids[5:8], got)
	})
}

// TestLostTail: where the log has lost its end, or all, no new id is below the mark.
func TestLostTail(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.logged(3)
		right := f.sweeps(archived)
		direct := f.writer(stream.WriterConfig{Pack: directPack})
		f.append(direct, 1)
		for _, lost := range []bool{false, true} {
			last := codec.EntryID{Ms: uint64(f.now().UnixMilli()) + 60_000, Seq: 7}
			if lost {
				f.do("DEL", f.log())
				last.Ms += 60_000
			}
			seen, err := right.Choose(f.ctx, "orders", archived, codec.EntryID{}, codec.EntryID{}, 0)
			require.NoError(t, err)
			f.logged(1) // comes after it was looked what is there
			_, err = right.Mark(f.ctx, "orders", archived, last, seen.Top)
			require.ErrorIs(t, err, stream.ErrLogMoved)
			require.NotEqual(t, last.String(), f.text("GET", f.addr().ArchivedKey()))
			if lost {
				f.do("DEL", f.log())
			}
			seen, err = right.Choose(f.ctx, "orders", archived, codec.EntryID{}, codec.EntryID{}, 0)
			require.NoError(t, err)
			moved, err := right.Mark(f.ctx, "orders", archived, last, seen.Top)
			require.NoError(t, err)
			require.Equal(t, !lost, moved)
			ids, err := direct.AppendBatch(f.ctx, large(120)) // a transaction sets the top, and may not set it back
			require.NoError(t, err)
			require.Positive(t, ids[0].ServerEntry().Compare(last))
			require.Positive(t, f.logged(1)[0].Compare(last))
			require.Equal(t, last.String(), f.text("GET", tier.Address{Scope: f.addr().Scope, Stream: "orders"}.ArchivedKey()))
		}
	})
}

// TestAnotherStore: what went while it was in one store is lost to another, from an entry on that is there, and so it stays; when nothing
// went, nothing is.
func TestAnotherStore(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.logged(10)
		right := f.sweeps(archived)
		lost := func() string { return f.text("HGET", f.addr().RetentionKey(), tier.LostField) }
		moves := func(store string) {
			t.Helper()
			other := archived
			other.Archive = store
			require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, other))
		}
		marks := func(store string, last int) {
			t.Helper()
			policy := archived
			policy.Archive = store
			_, err := right.Mark(f.ctx, "orders", policy, ids[last], codec.MaxEntryID)
			require.NoError(t, err)
		}
		marks(archived.Archive, 5)
		moves("file:///b")
		require.Empty(t, lost(), "nothing went")
		marks("file:///b", 5)
		f.do("XTRIM", f.log(), "MINID", ids[4].String())
		moves("file:///c")
		require.Equal(t, ids[4].String(), lost())
		moves("file:///d")
		require.Equal(t, ids[4].String(), lost(), "nothing was archived")
		marks("file:///d", 4)
		moves("file:///e")
		require.Equal(t, ids[4].String(), lost(), "the last that is archived is there")
		marks("file:///e", 9)
		f.do("XTRIM", f.log(), "MAXLEN", "0")
		moves("file:///f")
		require.Equal(t, ids[9].Next().String(), lost())
	})
}
