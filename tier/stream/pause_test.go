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
// What is held is settled, renewed, released and put aside as ever.
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
