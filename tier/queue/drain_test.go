package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestDrainAll: what is counted as ready is drained, also of lanes that do not have their turn: paused ones, those at their
// ceiling, and of a queue that is paused.
func TestDrainAll(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.enqueue("paused", "paused", "full", "full", "full", "open")
		_, err := f.jobs.SetLane(f.ctx, "full", 1, 1)
		require.NoError(t, err)
		require.NoError(t, f.jobs.PauseLane(f.ctx, "paused"))
		m := f.join(f.workers)
		f.read(m, 2) // one of each lane that is not paused
		f.none(m)
		f.counts(queue.Counts{Ready: 4, Active: 2})
		require.NoError(t, f.jobs.Pause(f.ctx))
		n, err := f.jobs.Drain(f.ctx)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		f.counts(queue.Counts{Active: 2})
	})
}

// TestDrainBesideAnotherGroup: what is active, and what was ready first, is not told by a group of another program that looks on.
func TestDrainBesideAnotherGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.enqueue("a", "a", "a")
		m := f.join(f.workers)
		held := f.read(m, 2)
		f.do("XGROUP", "CREATE", f.queue.LaneKey("a"), "x", "0")
		f.do("XGROUP", "CREATE", f.queue.LaneKey("a"), "a", "$")
		info, err := f.jobs.LaneInfo(f.ctx, "a")
		require.NoError(t, err)
		require.False(t, info.Oldest.IsZero())
		n, err := f.jobs.DrainLane(f.ctx, "a")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		f.settle(m, held...)
	})
}
