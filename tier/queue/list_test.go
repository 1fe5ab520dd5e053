package queue_test

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// listing is the states of jobs as they are listed.
func listing(jobs iter.Seq2[queue.Info, error]) (string, error) {
	var states []string
	for info, err := range jobs {
		if err != nil {
			return "", err
		}
		states = append(states, string(info.State))
	}
	return strings.Join(states, " "), nil
}

// list lists all jobs of a selection.
func (f *fixture) list(s queue.Selection) (ids []codec.ID) {
	f.t.Helper()
	for info, err := range f.jobs.List(f.ctx, s) {
		require.NoError(f.t, err)
		require.Equal(f.t, f.get(info.ID).State, info.State)
		ids = append(ids, info.ID)
	}
	return ids
}

// TestList: each job comes once, in the one state that it has, from pages that end anywhere.
func TestList(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		const n = 250 // more than two pages
		ids := f.enqueue(slices.Repeat([]string{"b"}, n)...)
		other := f.enqueue("a")[0]
		m := f.join(f.workers)
		leased := f.read(m, 150)
		at := time.Now().Add(time.Hour)
		var later []queue.Job
		for i := range n {
			later = append(later, queue.Job{Lane: []string{"a", "b"}[i%2], At: at, Message: codec.Message{Data: []byte(strconv.Itoa(i))}})
		}
		receipts, err := f.jobs.EnqueueMany(f.ctx, append(later, queue.Job{At: at.Add(-time.Minute)}))
		require.NoError(t, err)
		f.commit(m, again(leased[0], 2*time.Hour))
		f.commit(m, dead(leased[1], "no"))
		f.commit(m, dead(leased[2], "no"))
		waits := f.flow(queue.Chain(queue.Job{Delay: 9 * time.Hour}, queue.Job{}))

		require.Len(t, f.list(queue.Selection{}), 2*n+2+2)
		active, ready := f.list(queue.Selection{States: []queue.State{queue.Active}}), f.list(queue.Selection{States: []queue.State{queue.Ready}})
		require.ElementsMatch(t, idsOf(leased[3:]), active)
		require.Len(t, ready, n+1-150)
		require.ElementsMatch(t, append([]codec.ID{other}, ids...), slices.Concat(active, ready, idsOf(leased[:3])))

		due := f.list(queue.Selection{States: []queue.State{queue.Scheduled}})
		require.Len(t, due, n+2, "one of them is the first job of the flow")
		require.Equal(t, receipts[n].ID, due[0], "the first due comes first")
		for i := range n {
			require.Equal(t, receipts[i].ID, due[i+1], "ids go up at one time")
		}
		require.Len(t, f.list(queue.Selection{States: []queue.State{queue.Scheduled}, Lane: "a"}), n/2)
		require.Equal(t, []codec.ID{idOf(leased[0])}, f.list(queue.Selection{States: []queue.State{queue.Retry}}))
		require.Equal(t, idsOf(leased[1:3]), f.list(queue.Selection{States: []queue.State{queue.Dead}}))
		require.Equal(t, []codec.ID{waits}, f.list(queue.Selection{States: []queue.State{queue.Waiting}}))
		for info, err := range f.jobs.List(f.ctx, queue.Selection{States: []queue.State{queue.Dead}}) {
			require.NoError(t, err)
			require.Equal(t, f.get(info.ID), info)
		}
		_, err = listing(f.jobs.List(f.ctx, queue.Selection{States: []queue.State{"done"}}))
		require.ErrorIs(t, err, queue.ErrBadCall)
		_, err = listing(f.jobs.List(f.ctx, queue.Selection{Lane: "a/b"}))
		require.ErrorIs(t, err, tier.ErrName)
	})
}

// TestListGoesOn: jobs that go while a list is read keep no other from being listed, at one time as at several; those that
// go behind the place that it has come to, and the one at the place, too.
func TestListGoesOn(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		var jobs []queue.Job
		at := time.Now().Add(time.Hour)
		for range 300 {
			jobs = append(jobs, queue.Job{At: at})
		}
		receipts, err := f.jobs.EnqueueMany(f.ctx, jobs)
		require.NoError(t, err)
		seen := 0
		for info, err := range f.jobs.List(f.ctx, queue.Selection{States: []queue.State{queue.Scheduled}}) {
			require.NoError(t, err)
			require.Equal(t, receipts[seen].ID, info.ID)
			require.NoError(t, f.jobs.Remove(f.ctx, info.ID))
			seen++
		}
		require.Equal(t, len(jobs), seen)
	})
}

func TestLanes(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		names := make([]string, 150) // more than a page
		for i := range names {
			names[i] = "l" + strconv.Itoa(1000+i)
		}
		f.enqueue(names...)
		f.enqueue("l1000", "l1001")
		f.read(f.join(f.workers), 10)
		_, err := f.jobs.SetLane(f.ctx, "set", 2.5, 7)
		require.NoError(t, err)
		require.NoError(t, f.jobs.PauseLane(f.ctx, "l1149"))
		_, err = f.jobs.LimitLane(f.ctx, "set", queue.Rate{Jobs: 3, Per: time.Second})
		require.NoError(t, err)
		var lanes []queue.LaneInfo
		ready, active := int64(0), int64(0)
		for l, err := range f.jobs.Lanes(f.ctx) {
			require.NoError(t, err)
			lanes = append(lanes, l)
			ready, active = ready+l.Ready, active+l.Active
			one, err := f.jobs.LaneInfo(f.ctx, l.Name)
			require.NoError(t, err)
			require.Equal(t, l, one)
		}
		require.Len(t, lanes, 151)
		require.True(t, slices.IsSortedFunc(lanes, func(a, b queue.LaneInfo) int { return strings.Compare(a.Name, b.Name) }))
		require.EqualValues(t, 10, active)
		require.EqualValues(t, 142, ready)
		for _, l := range lanes[:150] {
			require.Equal(t, l.Ready == 0, l.Oldest.IsZero(), l.Name)
		}
		require.WithinDuration(t, time.Now(), lanes[149].Oldest, time.Minute)
		require.Equal(t, queue.LaneInfo{Name: "set", Lane: queue.Lane{Weight: 2.5, Ceiling: 7, Rate: queue.Rate{Jobs: 3, Per: time.Second}}}, lanes[150])
		require.WithinDuration(t, time.Now(), lanes[149].Paused, time.Minute)
		for l, err := range f.jobs.Lanes(f.ctx) {
			require.NoError(t, err)
			require.Equal(t, "l1000", l.Name)
			break
		}
	})
}

func TestOverviewAndQueues(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		queues := func() (names []string) {
			for name, err := range queue.Queues(f.ctx, f.client) {
				require.NoError(t, err)
				names = append(names, name)
			}
			return names
		}
		require.NotContains(t, queues(), string(f.queue))
		o, err := f.jobs.Overview(f.ctx)
		require.NoError(t, err)
		require.Equal(t, queue.Overview{Name: string(f.queue)}, o)

		declareReport(&scene{fixture: f})
		require.Contains(t, queues(), string(f.queue))
		f.enqueue("a", "b", "b")
		f.read(f.join(f.workers), 1)
		require.NoError(t, f.jobs.Pause(f.ctx))
		o, err = f.jobs.Overview(f.ctx)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), o.Paused, time.Minute)
		o.Paused = time.Time{}
		require.Equal(t, queue.Overview{Name: string(f.queue), Counts: queue.Counts{Ready: 2, Active: 1}, Workers: 1, Schedules: 1, Lease: lease}, o)

		at := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
		_, err = f.jobs.Enqueue(f.ctx, queue.Job{At: at})
		require.NoError(t, err)
		require.NoError(t, f.jobs.Limit(f.ctx, queue.Rate{Jobs: 5, Per: time.Minute}))
		o, err = f.jobs.Overview(f.ctx)
		require.NoError(t, err)
		require.Equal(t, queue.Overview{
			Name: o.Name, Counts: queue.Counts{Ready: 2, Active: 1, Scheduled: 1}, Next: at, Workers: 1, Schedules: 1, Paused: o.Paused, Rate: queue.Rate{Jobs: 5, Per: time.Minute}, Lease: lease,
		}, o)
		_, err = f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Millisecond})
		require.NoError(t, err)
		parent := f.flow(queue.Chain(queue.Job{At: at}, queue.Job{At: at}))
		f.undelivered(func() { require.NoError(t, f.jobs.Remove(f.ctx, parent)) })
		tiertest.Eventually(t, time.Minute, func() (bool, string) {
			o, err = f.jobs.Overview(f.ctx)
			require.NoError(t, err)
			return o.Late > 0, "it is due, and the queue is paused"
		})
		require.True(t, o.Next.Before(at))
		require.EqualValues(t, 1, o.Outbox)
		once := slices.Sorted(slices.Values(queues()))
		require.Equal(t, slices.Compact(slices.Clone(once)), once)
	})
}
