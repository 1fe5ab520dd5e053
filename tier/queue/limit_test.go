package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRates (B134): a lane, or a queue, with a rate hands out so many jobs at once, and the others as time goes by, to a worker
// that only waits; other lanes are not held up; what was idle has all of its rate again.
func TestRates(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, whole := range []bool{false, true} {
			f := setUp(t, s)
			rate := queue.Rate{Jobs: 2, Per: time.Second}
			if whole {
				require.NoError(t, f.jobs.Limit(f.ctx, rate))
			} else {
				lane, err := f.jobs.LimitLane(f.ctx, "a", rate)
				require.NoError(t, err)
				require.Equal(t, queue.Lane{Weight: 1, Rate: rate}, lane)
			}
			f.enqueue(slices.Repeat([]string{"a"}, 4)...)
			m := f.join(f.workers)
			began := time.Now()
			f.read(m, 2)
			f.none(m)
			if !whole {
				f.enqueue("b")
				f.read(m, 1)
			}
			for range 2 {
				leased, err := m.Read(f.ctx, 10, 10*time.Second)
				require.NoError(t, err)
				require.Len(t, leased, 1)
			}
			took := time.Since(began)
			require.GreaterOrEqual(t, took, 900*time.Millisecond)
			require.Less(t, took, 5*time.Second)
			f.none(m)
			f.do("HSET", f.queue.BucketsKey(), map[bool]string{false: "a"}[whole], "0 1000") // long ago
			f.enqueue("a", "a", "a")
			if whole {
				f.read(m, 2)
				f.none(m)
				require.NoError(t, f.jobs.Limit(f.ctx, queue.Rate{}))
				f.read(m, 1)
			}
		}
	})
}

// TestRatesRefused: a rate is not rounded.
func TestRatesRefused(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	for _, r := range []queue.Rate{{Jobs: 1}, {Per: time.Second}, {Jobs: -1, Per: time.Second}, {Jobs: 1, Per: time.Millisecond - 1}, {Jobs: 1, Per: 1500 * time.Microsecond}} {
		require.ErrorIs(t, f.jobs.Limit(f.ctx, r), queue.ErrBadCall, r)
		_, err := f.jobs.LimitLane(f.ctx, "a", r)
		require.ErrorIs(t, err, queue.ErrBadCall, r)
	}
}
