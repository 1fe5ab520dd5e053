package queue_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// bells are acts that give a worker something to do, and some that do not, and how often they ring: of a queue with two workers, one of
// which has two jobs of the lane x and one of y, whose ceiling that is, and where another is ready; as in z, which is paused. The next
// scheduled job is due in an hour.
var bells = map[string]struct {
	act  func(f *fixture, m *queue.Member, held []tier.Leased) error
	ring int
}{
	"one is ready": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error { f.enqueue("x"); return nil }, 1},
	"more than workers are": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error {
		f.enqueue("x", "x", "x", "x")
		return nil
	}, 2},
	"in a lane that is paused": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error { f.enqueue("z"); return nil }, 0},
	"due before all others":    {func(f *fixture, _ *queue.Member, _ []tier.Leased) error { return f.later(time.Minute) }, 1},
	"due after another":        {func(f *fixture, _ *queue.Member, _ []tier.Leased) error { return f.later(2 * time.Hour) }, 0},
	"settled": {func(f *fixture, m *queue.Member, held []tier.Leased) error {
		f.settle(m, inLane(f, held, "y"))
		return nil
	}, 1},
	"settled beside": {func(f *fixture, m *queue.Member, held []tier.Leased) error {
		f.settle(m, inLane(f, held, "x"))
		return nil
	}, 0},
	"dead": {func(f *fixture, m *queue.Member, held []tier.Leased) error {
		f.commit(m, dead(inLane(f, held, "y"), ""))
		return nil
	}, 1},
	"dead beside": {func(f *fixture, m *queue.Member, held []tier.Leased) error {
		f.commit(m, dead(inLane(f, held, "x"), ""))
		return nil
	}, 0},
	"again soon": {func(f *fixture, m *queue.Member, held []tier.Leased) error {
		f.commit(m, again(inLane(f, held, "x"), time.Minute))
		return nil
	}, 1},
	"again late": {func(f *fixture, m *queue.Member, held []tier.Leased) error {
		f.commit(m, again(inLane(f, held, "x"), 2*time.Hour))
		return nil
	}, 0},
	"moved": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error {
		return f.jobs.Move(f.ctx, f.readyIn("z"), "other")
	}, 1},
	"moved to a lane that is paused": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error {
		return f.jobs.Move(f.ctx, f.readyIn("y"), "z")
	}, 0},
	"resumed": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error { return f.jobs.ResumeLane(f.ctx, "z") }, 1},
	"a higher limit": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error {
		_, err := f.jobs.SetLane(f.ctx, "y", 0, 2)
		return err
	}, 1},
	"the queue is resumed": {func(f *fixture, _ *queue.Member, _ []tier.Leased) error {
		require.NoError(f.t, f.jobs.Pause(f.ctx))
		return f.jobs.Resume(f.ctx)
	}, 2},
}

// later enqueues a job that is due after a while.
func (f *fixture) later(delay time.Duration) error {
	_, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: delay})
	return err
}

// TestBells (B134): whatever there is to do anew rings the bell, once for each job and worker at most, and nothing else does.
func TestBells(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for name, bell := range bells {
			t.Run(name, func(t *testing.T) {
				f := setUp(t, s)
				_, err := f.jobs.SetLane(f.ctx, "y", 0, 1)
				require.NoError(t, err)
				require.NoError(t, f.jobs.PauseLane(f.ctx, "z"))
				f.enqueue("x", "x", "y", "y", "z")
				require.NoError(t, f.later(time.Hour))
				m, other := f.join(f.workers), f.join(f.workers)
				held := f.read(m, 3)
				f.none(other)
				f.do("DEL", f.queue.WakeKey())
				require.NoError(t, bell.act(f, m, held))
				require.Equal(t, strconv.Itoa(bell.ring), f.text("LLEN", f.queue.WakeKey()))
			})
		}
	})
}

// inLane is one of the jobs of a lane.
func inLane(f *fixture, held []tier.Leased, lane string) tier.Leased {
	f.t.Helper()
	for _, l := range held {
		if f.get(idOf(l)).Lane == lane {
			return l
		}
	}
	f.t.Fatal("none is in ", lane)
	return tier.Leased{}
}

// readyIn is a ready job of a lane.
func (f *fixture) readyIn(lane string) codec.ID {
	f.t.Helper()
	for info, err := range f.jobs.List(f.ctx, queue.Selection{States: []queue.State{queue.Ready}, Lane: lane}) {
		require.NoError(f.t, err)
		return info.ID
	}
	f.t.Fatal("none is ready in ", lane)
	return codec.ID{}
}
