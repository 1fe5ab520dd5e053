package stream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A pause refuses take-over and what is due at the server, so that a member that does not know of it yet gets none either.
// What is held is settled, renewed, released and parked as ever.
func TestPauseRefusesWhatIsOld(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		sc := newScene(f)
		require.NoError(t, sc.me.Commit(f.ctx, []tier.Ending{{Entry: sc.mine[1].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		sc.age()
		require.NoError(t, sc.g.Pause(f.ctx))
		before := sc.state()
		for range 2 {
			taken, err := sc.other.TakeOver(f.ctx, 10, allSuspects)
			require.NoError(t, err)
			require.Equal(t, tier.Taken{Paused: true, Next: -1}, taken)
			taken, err = sc.other.Due(f.ctx, 10)
			require.NoError(t, err)
			require.Equal(t, tier.Taken{Paused: true, Next: -1}, taken)
		}
		require.Equal(t, before, sc.state())
		gone, err := sc.me.Renew(f.ctx, entriesOf(sc.mine[:1]))
		require.NoError(t, err)
		require.Empty(t, gone)
		n, err := sc.me.Settle(f.ctx, entriesOf(sc.mine[:1]))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, sc.g.Resume(f.ctx))
		require.NoError(t, sc.g.Resume(f.ctx), "again")
		taken, err := sc.other.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Len(t, taken.Leased, 1)
		require.False(t, taken.Paused)
	})
}

// A pause outlives the group's loss and its reset; it ends with the group.
func TestAPauseStays(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		sc := newScene(f)
		paused := func() bool {
			groups, err := stream.Groups(f.ctx, f.client, f.address)
			require.NoError(t, err)
			require.Len(t, groups, 1)
			return groups[0].Paused
		}
		require.NoError(t, sc.g.Pause(f.ctx))
		groups, err := stream.GroupDetails(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Equal(t, stream.Paused, groups[0].State)
		require.WithinDuration(t, f.now(), groups[0].PausedSince, time.Minute)
		_, err = sc.g.Reset(f.ctx, stream.Head())
		require.NoError(t, err)
		require.True(t, paused(), "after a reset")
		f.do("XGROUP", "DESTROY", f.log(), "g")
		_, err = sc.me.Rebuild(f.ctx)
		require.NoError(t, err)
		require.True(t, paused(), "after the group was lost")
		f.do("DEL", f.log())
		_, err = sc.me.Rebuild(f.ctx)
		require.NoError(t, err)
		require.True(t, paused(), "after the log was lost")
		require.NoError(t, sc.g.Create(f.ctx))
		require.True(t, paused(), "after somebody came to it")
		require.NoError(t, sc.g.Delete(f.ctx))
		require.NoError(t, sc.g.Create(f.ctx))
		require.False(t, paused(), "a new group of that name")
	})
}

func TestPauseOfNoGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), lease)
		require.ErrorIs(t, g.Pause(f.ctx), tier.ErrNoGroup)
		require.ErrorIs(t, g.Resume(f.ctx), tier.ErrNoGroup)
		f.append(f.writer(stream.WriterConfig{}), 1)
		require.ErrorIs(t, g.Pause(f.ctx), tier.ErrNoGroup)
		require.ErrorIs(t, g.Resume(f.ctx), tier.ErrNoGroup)
		require.Equal(t, "0", f.text("EXISTS", f.addr().GroupKey("g")), "nothing is left behind")
	})
}

// Of another program's group, which never was one of ours, the pause is all that its hash says.
func TestPauseOfAnotherProgramsGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 1)
		f.do("XGROUP", "CREATE", f.log(), "g", "0")
		g := f.group("g", stream.Head(), lease)
		require.NoError(t, g.Pause(f.ctx))
		require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
		m := f.join(g)
		taken, err := m.TakeOver(f.ctx, 1, allSuspects)
		require.NoError(t, err)
		require.True(t, taken.Paused)
		require.NoError(t, g.Resume(f.ctx))
		require.Len(t, f.read(m, 1), 1)
	})
}

// A paused cursor's owner gets nothing more, not by a read that was under way either, and settles what it holds; nor does the
// next owner get anything. The pause outlives a reset, and ends with the cursor.
func TestPauseOfACursor(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 4)
		c := f.cursor("c", stream.Head(), time.Minute)
		require.ErrorIs(t, c.Pause(f.ctx), stream.ErrNoCursor)
		require.ErrorIs(t, c.Resume(f.ctx), stream.ErrNoCursor)
		o := f.own(c)
		held := entriesOf(f.owned(o, 3))
		require.NoError(t, o.Commit(f.ctx, []tier.Ending{{Entry: held[0], Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		require.NoError(t, o.Release(f.ctx, handedBack(held[2]), 0))
		require.NoError(t, c.Pause(f.ctx))
		require.NoError(t, c.Pause(f.ctx), "again")
		all, err := stream.Cursors(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.True(t, all[0].Paused)
		require.WithinDuration(t, f.now(), all[0].PausedSince, time.Minute)

		none := tier.Taken{Paused: true, Next: -1}
		taken, err := o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Equal(t, none, taken)
		none.Done = true
		taken, err = o.TakeOver(f.ctx, 10, 1)
		require.NoError(t, err)
		require.Equal(t, none, taken)
		reads := func(o *stream.Owner) int {
			leased, err := o.Read(f.ctx, 10, 0)
			require.NoError(t, err)
			return len(leased)
		}
		require.Zero(t, reads(o))
		n, err := o.Settle(f.ctx, held[1:2])
		require.NoError(t, err)
		require.Equal(t, 1, n)

		require.NoError(t, c.Resume(f.ctx))
		_, err = o.Renew(f.ctx, nil)
		require.NoError(t, err)
		require.NoError(t, c.Pause(f.ctx))
		_, err = o.Renew(f.ctx, nil) // a beat says so, too
		require.NoError(t, err)
		require.Zero(t, reads(o))
		require.NoError(t, o.Leave(f.ctx))
		next := f.own(c)
		require.True(t, next.Owns())
		require.Zero(t, reads(next), "whoever comes to own it")
		require.NoError(t, c.Reset(f.ctx, stream.Head()))
		_, err = next.Sync(f.ctx)
		require.NoError(t, err)
		require.Zero(t, reads(next), "after a reset")
		require.NoError(t, c.Resume(f.ctx))
		_, err = next.Renew(f.ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 4, reads(next))
		require.NoError(t, c.Pause(f.ctx))
		require.NoError(t, c.Delete(f.ctx))
		require.Equal(t, 4, reads(f.own(c)), "a new cursor of that name")
	})
}
