package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestDeadlineIsTheServers (B124, B125): whether a deadline has passed says the server's clock, also where that of the worker is five
// minutes ahead of it, or behind.
func TestDeadlineIsTheServers(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		for _, lag := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
			deadline := time.Now().Add(-lag).Add(time.Minute) // of the server: in a minute
			_, err := f.jobs.Enqueue(f.ctx, queue.Job{Terms: tier.Terms{Deadline: deadline}})
			require.NoError(t, err)
			f.read(f.join(f.workers), 1)
			f.age(queue.DefaultLane)
			m := f.join(f.workers)
			m.Lags(lag)
			taken, _ := f.takeOver(m, 1, 1) // a claim would set the clock right
			require.Len(t, taken, 1)
			require.WithinDuration(t, time.Now().Add(time.Minute), taken[0].Terms.Deadline, 30*time.Second)
			f.settle(m, taken...)
			f.enqueue("none")
			l := f.read(m, 1)[0]
			require.True(t, l.Terms == nil || l.Terms.Deadline.IsZero())
			f.settle(m, l)
		}
	})
}

// TestClockOfClaims: each claim reads the server's clock anew, which may have been set meanwhile, as after a failover.
func TestClockOfClaims(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.workers)
		m.Lags(time.Hour)
		_, err := f.jobs.Enqueue(f.ctx, queue.Job{Terms: tier.Terms{Deadline: time.Now().Add(time.Minute)}})
		require.NoError(t, err)
		l := f.read(m, 1)[0]
		require.WithinDuration(t, time.Now().Add(time.Minute), l.Terms.Deadline, 30*time.Second)
	})
}
