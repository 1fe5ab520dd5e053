package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestPauseHolds (B137): what becomes due, is tried again, is taken up again or lapses while a queue is paused is given to nobody,
// an old worker or a new one, until the queue is resumed; then all of it is.
func TestPauseHolds(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.workers)
		ids := f.enqueue("a", "b", "c")
		leased := f.read(m, 3)
		require.NoError(t, f.jobs.Pause(f.ctx))
		_, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Millisecond})
		require.NoError(t, err)
		f.commit(m, again(leased[0], 0))
		f.commit(m, dead(leased[1], "no"))
		_, err = f.jobs.Retry(f.ctx, ids...)
		require.NoError(t, err)
		f.age(f.get(idOf(leased[2])).Lane)
		f.enqueue("d")
		for _, worker := range []*queue.Member{m, f.join(f.workers)} {
			got, err := worker.Read(f.ctx, 10, 100*time.Millisecond)
			require.NoError(t, err)
			require.Empty(t, got)
			_, err = worker.Due(f.ctx, 10)
			require.NoError(t, err)
			taken, err := worker.TakeOver(f.ctx, 10, 10)
			require.NoError(t, err)
			require.True(t, taken.Paused)
			require.Empty(t, taken.Leased)
		}
		require.NoError(t, f.jobs.Resume(f.ctx))
		other := f.join(f.workers)
		taken, _ := f.takeOver(other, 10, 10)
		require.Len(t, taken, 1)
		for n := 0; n < 4; {
			got, err := other.Read(f.ctx, 10, time.Second)
			require.NoError(t, err)
			require.NotEmpty(t, got)
			n += len(got)
		}
		f.counts(queue.Counts{Active: 5})
	})
}

// TestClosedLanesLeaveTheRing: lanes that are paused or at their ceilings, more than a claim looks at, do not stand before another.
func TestClosedLanesLeaveTheRing(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		var lanes []string
		for i := range 100 {
			lanes = append(lanes, fmt.Sprintf("a%02d", i))
		}
		f.enqueue(lanes...)
		for _, lane := range lanes {
			require.NoError(t, f.jobs.PauseLane(f.ctx, lane))
		}
		ids := f.enqueue("b")
		m := f.join(f.workers)
		require.Equal(t, ids, idsOf(f.read(m, 1)))
		f.none(m)
		require.Equal(t, "0", f.text("ZCARD", f.queue.RingKey()))
		require.NoError(t, f.jobs.ResumeLane(f.ctx, lanes[50]))
		f.read(m, 1)
	})
}
