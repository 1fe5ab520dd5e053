package stream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// lossScene: of five messages a member was given four and has settled the first and the third, and has written that down.
type lossScene struct {
	*fixture
	g       *stream.Group
	m       *stream.Member
	w       *stream.Writer
	entries []codec.EntryID
	leased  []tier.Leased
}

func newLossScene(t *testing.T, s *tiertest.Server) *lossScene {
	f := setUp(t, s)
	l := &lossScene{fixture: f, g: f.group("g", stream.New(), lease), w: f.writer(stream.WriterConfig{Brand: "ORD"})}
	l.m = f.join(l.g)
	for _, id := range f.keyed(l.w, "a", "b", "c", "d", "e") {
		l.entries = append(l.entries, id.ServerEntry())
	}
	l.leased = f.read(l.m, 4)
	n, err := l.m.Settle(f.ctx, []codec.EntryID{l.entries[0], l.entries[2]})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.NoError(t, l.m.Checkpoint(f.ctx))
	return l
}

// flush deletes all that the scope has, as FLUSHALL does.
func (l *lossScene) flush() {
	for _, key := range []string{l.log(), tier.ScopeKey(l.addr().Scope), l.addr().GroupKey("g"), l.addr().OwnersKey("g")} {
		l.do("DEL", key)
	}
}

// TestLostGroup (B28, B29, B40): however the server has lost the group, it is made again where nothing that still exists is
// missed, once, and what an earlier delivery allowed is void.
func TestLostGroup(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(l *lossScene)
		how  tier.Rebuild
		want []string // delivered after it
	}{
		{"group destroyed", func(l *lossScene) { l.do("XGROUP", "DESTROY", l.log(), "g") }, tier.Resumed, []string{"b", "c", "d", "e"}},
		{"all settled, group destroyed", func(l *lossScene) {
			_, err := l.m.Settle(l.ctx, l.entries)
			require.NoError(l.t, err)
			require.NoError(l.t, l.m.Checkpoint(l.ctx))
			l.do("XGROUP", "DESTROY", l.log(), "g")
			l.keyed(l.w, "v")
		}, tier.Resumed, []string{"e", "v"}},
		{"log deleted, written before anybody noticed", func(l *lossScene) {
			l.do("DEL", l.log())
			l.keyed(l.w, "v", "w", "x", "y")
		}, tier.Restarted, []string{"v", "w", "x", "y"}},
		{"log deleted, more written than before", func(l *lossScene) {
			l.do("DEL", l.log())
			l.keyed(l.w, "u", "v", "w", "x", "y", "z")
		}, tier.Resumed, []string{"u", "v", "w", "x", "y", "z"}}, // the floor is below all of them
		{"log deleted, nothing written", func(l *lossScene) { l.do("DEL", l.log()) }, tier.Restarted, nil},
		{"everything flushed", func(l *lossScene) {
			l.flush()
			l.keyed(l.w, "v", "w")
		}, tier.Restarted, []string{"v", "w"}},
		{"everything flushed, nothing written", (*lossScene).flush, tier.Restarted, nil},
		{"log deleted, its ids were ahead of the clock", func(l *lossScene) {
			ahead := l.now().Add(time.Hour).UnixMilli()
			l.do("XADD", l.log(), codec.EntryID{Ms: uint64(ahead)}.String(), "k", "v")
			l.read(l.m, 2)
			_, err := l.m.Settle(l.ctx, append(l.entries, codec.EntryID{Ms: uint64(ahead)}))
			require.NoError(l.t, err)
			require.NoError(l.t, l.m.Checkpoint(l.ctx))
			l.do("DEL", l.log())
			l.keyed(l.w, "1", "2", "3", "4", "5", "6", "7")
		}, tier.Restarted, []string{"1", "2", "3", "4", "5", "6", "7"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				l := newLossScene(t, s)
				tc.lose(l)
				_, err := l.m.Sync(l.ctx)
				require.ErrorIs(t, err, tier.ErrNoGroup)

				was, err := l.m.Rebuild(l.ctx)
				require.NoError(t, err)
				require.Equal(t, tc.how, was.How)
				again, err := l.m.Rebuild(l.ctx)
				require.NoError(t, err)
				require.Equal(t, tier.Rebuilt{How: tier.Found}, again)

				_, err = l.m.Settle(l.ctx, l.entries)
				require.ErrorIs(t, err, tier.ErrFenced, "settled what the group that is lost had given out")
				held, err := l.m.Sync(l.ctx)
				require.NoError(t, err)
				require.Empty(t, held)
				require.Equal(t, tc.want, l.drain(l.m))
				require.Equal(t, lease, l.join(l.g).Lease())
			})
		})
	}
}

// TestLostGroupIsJoined (B29, B40): a group that was lost while nobody was there is joined where it was, not at its
// declared start.
func TestLostGroupIsJoined(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		l.do("DEL", l.log())
		l.keyed(l.w, "v", "w")
		require.Equal(t, []string{"v", "w"}, l.drain(l.join(l.g)), "created at what is new")
		l.do("XGROUP", "DESTROY", l.log(), "g")
		l.keyed(l.w, "x")
		require.Equal(t, []string{"v", "w", "x"}, l.drain(l.join(l.g)), "nothing was settled since")
	})
}

// TestStaleMemberOfALostGroup (B16): a member that has not noticed the loss cannot settle what the group, made again, gave
// to another.
func TestStaleMemberOfALostGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		l.do("XGROUP", "DESTROY", l.log(), "g")
		other := l.join(l.g)
		got := l.read(other, 4)
		require.Equal(t, l.entries[1], got[0].Entry)
		_, err := l.m.Settle(l.ctx, entriesOf(l.leased))
		require.ErrorIs(t, err, tier.ErrFenced)
		n, err := other.Settle(l.ctx, entriesOf(got))
		require.NoError(t, err)
		require.Equal(t, 4, n)
	})
}

// TestDeletedGroup: its members learn that it was meant to go, also after it would be made again by itself; who joins anew
// begins anew.
func TestDeletedGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		require.NoError(t, l.g.Delete(l.ctx))
		for range 2 {
			_, err := l.m.Rebuild(l.ctx)
			require.ErrorIs(t, err, stream.ErrGroupDeleted)
		}
		groups, err := stream.Groups(l.ctx, l.client, l.address)
		require.NoError(t, err)
		require.Empty(t, groups)
		require.NoError(t, stream.Check(l.ctx, l.client, l.addr().Scope))
		ttl := l.text("PTTL", l.addr().GroupKey("g"))
		require.NotEqual(t, "-1", ttl, "the mark stays for ever")

		fresh := l.join(l.g) // at what is new
		require.Empty(t, l.drain(fresh))
		require.Equal(t, "-1", l.text("PTTL", l.addr().GroupKey("g")), "the new group's hash would end with the mark")
		was, err := l.m.Rebuild(l.ctx)
		require.NoError(t, err)
		require.Equal(t, tier.Found, was.How)
	})
}

// TestCheckpoint: the floor is where a group can begin again without missing anything.
func TestCheckpoint(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		floor := func() string {
			require.NoError(t, l.m.Checkpoint(l.ctx))
			return l.text("HGET", l.addr().GroupKey("g"), "floor")
		}
		require.Equal(t, l.entries[1].Prev().String(), floor(), "before the oldest that is pending")
		_, err := l.m.Settle(l.ctx, l.entries[:4])
		require.NoError(t, err)
		require.Equal(t, l.entries[3].String(), floor(), "the last that was given out")
		_, err = l.g.Reset(l.ctx, stream.FromEntry(l.entries[2]))
		require.NoError(t, err)
		require.Equal(t, l.entries[2].Prev().String(), l.text("HGET", l.addr().GroupKey("g"), "floor"), "a reset moves it at once")
		_, err = l.g.Reset(l.ctx, stream.New())
		require.NoError(t, err)
		require.Equal(t, l.entries[4].String(), l.text("HGET", l.addr().GroupKey("g"), "floor"))

		for _, tc := range []struct{ oldest, floor string }{
			{"9000000000000-0", "8999999999999-18446744073709551615"},
			{"9000000000001-7", "9000000000001-6"},
			{"9000000000002-18446744073709551615", "9000000000002-0"}, // lower than it could be: such a number loses digits
		} {
			l.do("XADD", l.log(), tc.oldest, "k", "v")
			at, err := codec.ParseEntryID(tc.oldest)
			require.NoError(t, err)
			m := l.join(l.group("g"+tc.oldest, stream.FromEntry(at), lease))
			l.read(m, 1)
			require.NoError(t, m.Checkpoint(l.ctx))
			require.Equal(t, tc.floor, l.text("HGET", l.addr().GroupKey("g"+tc.oldest), "floor"))
		}
	})
}

// TestJoinBeforeTheRebuild (B29): the server lost everything, messages were written, and a member that knows of nothing joined at what is new before the
// members that were at work made the group again. They move it back: what was written in between is delivered.
func TestJoinBeforeTheRebuild(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		l.flush()
		l.keyed(l.w, "v", "w")
		fresh := l.join(l.g)
		require.Empty(t, l.drain(fresh))
		was, err := l.m.Rebuild(l.ctx)
		require.NoError(t, err)
		require.Equal(t, tier.Restarted, was.How)
		_, err = fresh.Settle(l.ctx, l.entries[:1])
		require.ErrorIs(t, err, tier.ErrFenced)
		_, err = l.m.Sync(l.ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"v", "w"}, l.drain(l.m))
		was, err = l.m.Rebuild(l.ctx)
		require.NoError(t, err)
		require.Equal(t, tier.Found, was.How, "only once")
	})
}

// TestHashOfALostGroup: what a beat has left of a hash that was deleted is enough; the lease is the members'.
func TestHashOfALostGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		l.do("DEL", l.addr().GroupKey("g"))
		require.NoError(t, l.m.Checkpoint(l.ctx))
		l.do("XGROUP", "DESTROY", l.log(), "g")
		was, err := l.m.Rebuild(l.ctx)
		require.NoError(t, err)
		require.Equal(t, tier.Resumed, was.How)
		require.Equal(t, fmt.Sprint(lease.Milliseconds()), l.text("HGET", l.addr().GroupKey("g"), "lease"))
		require.NoError(t, stream.Check(l.ctx, l.client, l.addr().Scope))
	})
}

// TestDeletedGroupOfAnotherProgram: one that was deleted and that a raw client has made again is no deleted one.
func TestDeletedGroupOfAnotherProgram(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		require.NoError(t, l.g.Delete(l.ctx))
		l.do("XGROUP", "CREATE", l.log(), "g", "0-0")
		l.join(l.g)
		require.Equal(t, "-1", l.text("PTTL", l.addr().GroupKey("g")))
		l.do("XGROUP", "DESTROY", l.log(), "g")
		_, err := l.m.Rebuild(l.ctx)
		require.NoError(t, err)
	})
}

// TestDeleteOfALostGroup: a group that the server has lost is deleted for its members, too.
func TestDeleteOfALostGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		l.flush()
		require.NoError(t, l.g.Delete(l.ctx))
		_, err := l.m.Rebuild(l.ctx)
		require.ErrorIs(t, err, stream.ErrGroupDeleted)
	})
}

// TestUndeclaredMessages: a scope that lost its hash does not turn messages into foreign entries: they wait for the declaration.
func TestUndeclaredMessages(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{Brand: "ORD"})
		f.keyed(w, "a")
		f.do("DEL", tier.ScopeKey(f.addr().Scope))
		m := f.join(f.group("g", stream.Head(), lease))
		_, err := m.Read(f.ctx, 10, 0)
		require.ErrorIs(t, err, tier.ErrUndeclared)
		held, err := m.Sync(f.ctx)
		require.NoError(t, err)
		require.Len(t, held, 1, "it is held, and comes again")
		f.keyed(w, "b")
		require.NoError(t, m.Release(f.ctx, []tier.Returned{{Held: tier.Held{Entry: held[0].Entry}}}, 0))
		taken, err := m.TakeOver(f.ctx, 10, allSuspects)
		require.NoError(t, err)
		require.Equal(t, "a", taken.Leased[0].Records[0].Key)
		require.False(t, taken.Leased[0].Records[0].ID.IsZero())

		f.do("DEL", f.log(), tier.ScopeKey(f.addr().Scope))
		f.do("XADD", f.log(), "*", "m", "not ours", "k", "v") // of a program that never declares anything
		other := f.join(f.group("h", stream.Head(), lease))
		require.True(t, f.read(other, 1)[0].Records[0].Foreign())
	})
}

// TestParkedInALostGroup: what is parked stays so when the group goes on where it was, and is forgotten with a log that is another one.
func TestParkedInALostGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		lose func(l *lossScene)
		want int
	}{
		"group destroyed": {func(l *lossScene) { l.do("XGROUP", "DESTROY", l.log(), "g") }, 1},
		"log deleted":     {func(l *lossScene) { l.do("DEL", l.log()) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				l := newLossScene(t, s)
				require.NoError(t, l.m.Commit(l.ctx, []tier.Ending{{Entry: l.entries[1], Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
				tc.lose(l)
				_, err := l.m.Rebuild(l.ctx)
				require.NoError(t, err)
				_, err = l.m.Sync(l.ctx)
				require.NoError(t, err)
				taken, err := l.m.Due(l.ctx, 10)
				require.NoError(t, err)
				require.Len(t, taken.Leased, tc.want)
				require.Empty(t, taken.Lost)
			})
		})
	}
}

// TestOpenInALostGroup: what is noted of entries that were pending goes with the group, since they come again whole; what is noted of
// parked ones stays.
func TestOpenInALostGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		l := newLossScene(t, s)
		require.NoError(t, l.m.Commit(l.ctx, []tier.Ending{{Entry: l.entries[1], Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}}}))
		back := tier.Returned{Held: tier.Held{Entry: l.entries[3], Deliveries: 1}, Open: []tier.Open{{Attempt: 2}}}
		require.NoError(t, l.m.Release(l.ctx, []tier.Returned{back}, 0))
		require.Equal(t, "2", l.text("HLEN", l.addr().OpenKey("g")))
		l.do("XGROUP", "DESTROY", l.log(), "g")
		_, err := l.m.Rebuild(l.ctx)
		require.NoError(t, err)
		require.Equal(t, "1", l.text("HLEN", l.addr().OpenKey("g")))
		require.Equal(t, "1", l.text("HEXISTS", l.addr().OpenKey("g"), l.entries[1].String()))
	})
}
