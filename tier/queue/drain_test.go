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
