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

// TestPurge: the entries go; brand, groups, leases, dead letters and receipts stay; ids go on above the old ones. A member
// at work is refused once and goes on with what comes next; the plan says the same and changes nothing.
func TestPurge(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := furnished(f)
		named := f.writer(stream.WriterConfig{Producer: "importer"})
		receipt, err := named.AppendAt(f.ctx, 8, messages(2))
		require.NoError(t, err)
		m := f.join(f.group("mailer", stream.Head(), 0))
		held := f.read(m, 1)
		top := f.all()[8].ID
		before := f.scopeState()
		kept := f.below()

		plan, err := stream.PlanPurge(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Equal(t, before, f.scopeState())
		gone, err := stream.Purge(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.EqualValues(t, 9, plan.Entries)
		require.Equal(t, plan.Entries, gone.Entries)
		require.Equal(t, "0", f.length())
		for _, key := range kept { // owners come back with their members
			if key != f.addr().OwnersKey("mailer") {
				require.Equal(t, "1", f.text("EXISTS", key), key)
			}
		}
		requireSettled := func(lag int64) {
			t.Helper()
			groups, err := stream.Groups(f.ctx, f.client, f.address)
			require.NoError(t, err)
			require.Len(t, groups, 2)
			for _, g := range groups {
				require.Equal(t, lag, g.Lag)
				require.True(t, g.LagExact)
				require.Zero(t, g.Pending)
				require.Equal(t, top.ServerEntry(), g.LastDelivered)
			}
			require.Equal(t, stream.DefaultLease, groups[0].Lease)
			require.EqualValues(t, 1, groups[0].Dead)
		}
		requireSettled(0)
		hash := f.addr().GroupKey("mailer")
		require.Equal(t, top.ServerEntry().String(), f.text("HGET", hash, "floor"))
		require.Equal(t, "9", f.text("HGET", hash, "added"))
		require.Equal(t, "0-0", f.text("HGET", hash, "start"))
		infos, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
		require.NoError(t, err)
		require.Equal(t, []stream.Info{{Address: f.addr(), Brand: "ORD", Added: 9, Last: top.ServerEntry(), Groups: 2}}, infos)

		dup, err := named.AppendAt(f.ctx, 8, messages(2))
		require.NoError(t, err)
		require.Equal(t, receipt, dup)
		ids := f.append(w, 3)
		require.Equal(t, 1, ids[0].Compare(top))
		require.EqualValues(t, "ORD", ids[0].Brand())
		requireSettled(3)
		_, err = m.Settle(f.ctx, entriesOf(held))
		require.ErrorIs(t, err, tier.ErrFenced)
		mine, err := m.Sync(f.ctx)
		require.NoError(t, err)
		require.Empty(t, mine)
		next := f.read(m, 3)
		n, err := m.Settle(f.ctx, entriesOf(next))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.Equal(t, idsOf(f.all()), []codec.ID{next[0].Records[0].ID, next[1].Records[0].ID, next[2].Records[0].ID})
	})
}

// TestPurgeUnderReaders: a reader that has read everything goes on; one that was behind is told what is gone; a group
// that begins in the future still does.
func TestPurgeUnderReaders(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		f.append(w, 3)
		future := codec.FloorEntry(f.now().Add(55 * time.Second))
		require.NoError(t, f.group("later", stream.FromEntry(future), 0).Create(f.ctx))
		purge := func() {
			_, err := stream.Purge(f.ctx, f.client, f.address)
			require.NoError(t, err)
		}
		seen, err2 := 0, error(nil)
		for _, err := range f.reader().Tail(f.ctx, codec.EntryID{}) {
			require.NoError(t, err)
			if seen++; seen == 3 {
				purge()
				f.append(w, 2)
			}
			if seen == 5 {
				break
			}
		}
		require.Equal(t, 5, seen)
		f.append(w, 40)
		seen = 0
		for _, err := range f.reader().Tail(f.ctx, codec.EntryID{}) {
			if seen++; seen == 1 {
				purge()
			}
			err2 = err
		}
		require.ErrorIs(t, err2, stream.ErrTrimmed)
		groups, err := stream.Groups(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Equal(t, future.Prev(), groups[0].LastDelivered)
	})
}

// TestPurgeNothing: of an empty stream nothing goes, also of one that has no log yet.
func TestPurgeNothing(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		_, err := f.writer(stream.WriterConfig{}).Declare(f.ctx)
		require.NoError(t, err)
		for range 2 {
			gone, err := stream.Purge(f.ctx, f.client, f.address)
			require.NoError(t, err)
			require.Zero(t, gone.Entries)
			f.append(f.writer(stream.WriterConfig{}), 1)
			_, err = stream.Purge(f.ctx, f.client, f.address)
			require.NoError(t, err)
		}
	})
}
