package stream_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// holding is a way to need entries of a log of ten.
type holding struct {
	name   string
	hold   func(f *fixture, ids []codec.EntryID)
	want   int // place of the first entry that stays; 10: none does
	holder string
	why    string
}

func failed(e codec.EntryID) []tier.Ending {
	return []tier.Ending{{Entry: e, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}
}

var holdings = []holding{
	{name: "nobody", hold: func(*fixture, []codec.EntryID) {}, want: 0},
	{name: "slow", hold: func(f *fixture, _ []codec.EntryID) { f.reads("slow", 10, upTo(4)...) }, want: 4, holder: "slow", why: "pending"},
	{name: "out of order", hold: func(f *fixture, _ []codec.EntryID) { f.reads("slow", 10, 0, 1, 3, 9) }, want: 2, holder: "slow", why: "pending"},
	{name: "behind", hold: func(f *fixture, _ []codec.EntryID) { f.reads("slow", 3, upTo(3)...) }, want: 3, holder: "slow", why: "unread"},
	{name: "dead", hold: func(f *fixture, _ []codec.EntryID) {
		require.NoError(f.t, f.group("dead", stream.Head(), 0).Create(f.ctx))
		f.reads("fast", 10, upTo(10)...)
	}, want: 0, holder: "dead", why: "unread"},
	{name: "paused", hold: func(f *fixture, _ []codec.EntryID) {
		f.reads("paused", 5, upTo(5)...)
		require.NoError(f.t, f.group("paused", stream.Head(), time.Minute).Pause(f.ctx))
	}, want: 5, holder: "paused", why: "unread"},
	{name: "retrying", hold: func(f *fixture, _ []codec.EntryID) {
		m, leased := f.reads("flaky", 10, 0, 1, 3, 4, 5, 6, 7, 8, 9)
		require.NoError(f.t, m.Commit(f.ctx, failed(leased[2].Entry)))
	}, want: 2, holder: "flaky", why: "parked"},
	{name: "taken up again", hold: func(f *fixture, _ []codec.EntryID) {
		m, leased := f.reads("flaky", 10, 0, 1, 3, 4, 5, 6, 7, 8, 9)
		require.NoError(f.t, m.Commit(f.ctx, failed(leased[2].Entry)))
		f.takesDue(m, 1)
	}, want: 2, holder: "flaky", why: "pending"},
	{name: "at what is new", hold: func(f *fixture, _ []codec.EntryID) {
		require.NoError(f.t, f.group("new", stream.New(), 0).Create(f.ctx))
		f.reads("fast", 10, upTo(10)...)
	}, want: 10, holder: "fast", why: "unread"},
	{name: "two", hold: func(f *fixture, _ []codec.EntryID) {
		f.reads("b", 10, upTo(7)...)
		f.reads("a", 10, upTo(8)...)
	}, want: 7, holder: "b", why: "pending"},
	{name: "another program's", hold: func(f *fixture, ids []codec.EntryID) {
		f.do("XGROUP", "CREATE", f.log(), "its:own", ids[5].String())
	}, want: 6, holder: "its:own", why: "unread"},
	{name: "cursor", hold: func(f *fixture, ids []codec.EntryID) {
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		f.owned(o, 10)
		_, err := o.Settle(f.ctx, append(slices.Clone(ids[:6]), ids[8]))
		require.NoError(f.t, err)
	}, want: 6, holder: "c", why: "unread"},
	{name: "cursor that retries", hold: func(f *fixture, ids []codec.EntryID) {
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		f.owned(o, 10)
		require.NoError(f.t, o.Commit(f.ctx, failed(ids[1])))
		_, err := o.Settle(f.ctx, append([]codec.EntryID{ids[0]}, ids[2:]...))
		require.NoError(f.t, err)
	}, want: 1, holder: "c", why: "parked"},
	{name: "cursor that has taken up again", hold: func(f *fixture, ids []codec.EntryID) {
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		f.owned(o, 10)
		require.NoError(f.t, o.Commit(f.ctx, failed(ids[1])))
		_, err := o.Settle(f.ctx, append([]codec.EntryID{ids[0]}, ids[2:]...))
		require.NoError(f.t, err)
		taken, err := o.Due(f.ctx, 10)
		require.NoError(f.t, err)
		require.Len(f.t, taken.Leased, 1)
	}, want: 1, holder: "c", why: "parked"},
	{name: "cursor that was deleted", hold: func(f *fixture, ids []codec.EntryID) {
		c := f.cursor("c", stream.Head(), time.Minute)
		f.owned(f.own(c), 10)
		require.NoError(f.t, c.Delete(f.ctx))
		f.reads("fast", 10, upTo(9)...)
	}, want: 9, holder: "fast", why: "pending"},
	{name: "archive", hold: func(f *fixture, ids []codec.EntryID) {
		f.do("HSET", f.addr().RetentionKey(), tier.MarkField, ids[4].String())
		f.reads("fast", 10, upTo(10)...)
	}, want: 5, holder: "", why: "unarchived"},
}

// TestTrimHolds (B60): nothing goes that somebody needs, whatever the policy, and all below it does; who holds it is told before.
func TestTrimHolds(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, tt := range holdings {
			t.Run(tt.name, func(t *testing.T) {
				f := setUp(t, s)
				ids := f.logged(10)
				tt.hold(f, ids)
				h, err := stream.HoldingsOf(f.ctx, f.client, f.address)
				require.NoError(t, err)
				require.Equal(t, f.addr(), h.Address)
				require.EqualValues(t, 10, h.Length)
				require.Equal(t, ids[0], h.First)
				require.Equal(t, ids[9], h.Last)
				require.Positive(t, h.Bytes)
				floor, is := h.Floor()
				require.Equal(t, tt.why != "", is)
				require.Equal(t, tt.holder, floor.Name)
				require.Equal(t, tt.why, floor.Why)

				sweep := f.sweeps(settled)
				below, err := stream.CountBelow(f.ctx, f.client, f.address, 100, floor.First)
				require.NoError(t, err)
				require.Equal(t, []int64{int64(tt.want)}, below)
				require.EqualValues(t, tt.want, f.trim(sweep, settled, allOfThat))
				require.Equal(t, ids[tt.want:], append([]codec.EntryID{}, f.entries()...))
				if is { // and neither does another policy take what is held
					require.Zero(t, f.trim(sweep, settled, stream.Trim{Keep: 0, Age: time.Millisecond, Exact: true}))
				}
				h, err = stream.HoldingsOf(f.ctx, f.client, f.address)
				require.NoError(t, err)
				require.EqualValues(t, tt.want, h.Trimmed)
				require.Empty(t, h.Dropped)
			})
		}
	})
}

// TestCountBelow: entries are counted below each id in one walk, by pages, and no further than asked for.
func TestCountBelow(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	ids := f.logged(2500)
	n, err := stream.CountBelow(f.ctx, f.client, f.address, 2400, codec.EntryID{}, ids[0], ids[7], ids[7], ids[1007], ids[2300], ids[2499], codec.MaxEntryID)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0, 7, 7, 1007, 2300, 2400, 2400}, n)
	n, err = stream.CountBelow(f.ctx, f.client, f.address, 10_000, codec.MaxEntryID)
	require.NoError(t, err)
	require.Equal(t, []int64{2500}, n)
}
