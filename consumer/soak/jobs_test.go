package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/tier/tiertest"
)

const (
	jobsEnv     = "JOBS" // of TestJobsKilled
	jobsLanes   = 100
	jobsKeys    = 40 // unique ones
	jobsCeiling = 150
	jobsTick    = 300 * time.Millisecond
	jobsPage    = 200
)

// laneCeiling is that of a lane.
func laneCeiling(lane int) int { return 1 + lane%4 }

func laneName(lane int) string { return fmt.Sprintf("lane-%02d", lane) }

// drill is what is known of the jobs of TestJobsKilled.
type drill struct {
	t       testing.TB
	jobs    [2]*queue.Client // through a proxy that loses replies
	queues  [2]string
	dies    map[codec.ID]bool   // is to be dead in the end; else done
	keys    map[codec.ID]string // unique ones
	samples atomic.Int64
}

// TestJobsKilled (B22): workers are killed at random, and frozen past their leases, over JOBS jobs in 100 lanes, of which some fail at
// first, or always, some have unique keys, some are of flows in two queues, and schedules make more of them. By the events of the queues, no
// job is lost and none done twice, every parent ends after its children, of a unique key there is one job at a time, each occurrence of a schedule has
// one job, and no lane was ever above its ceiling, nor the queue; nor was any when it was looked at meanwhile.
func TestJobsKilled(t *testing.T) {
	n := setting(t, jobsEnv, 5000, strconv.Atoi)
	server := tiertest.Private(t, tiertest.Valkey)
	d := newDrill(t, server, n)
	began := time.Now()
	var crew []*undying
	for range 3 {
		crew = append(crew, keepAlive(t, fmt.Sprintf("%s=%s %s %s", jobsChildEnv, server.URL(), d.queues[0], d.queues[1])))
	}
	meanwhile, stop := context.WithCancel(t.Context())
	var others conc.WaitGroup
	defer others.Wait()
	defer stop()
	others.Go(func() { d.watch(meanwhile, tiertest.Dial(t, server)) })
	others.Go(func() { d.kill(meanwhile, crew) })
	operator, err := queue.NewClient(tiertest.Dial(t, server), queue.Config{Queue: d.queues[0]})
	require.NoError(t, err)
	schedules := queue.NewSchedules(operator)
	require.NoError(t, schedules.Put(t.Context(), queue.Schedule{
		Name: "tick", Every: jobsTick, CatchUp: schedule.All, Limit: 1000, Job: queue.Job{Lane: laneName(0), Message: codec.Message{Type: fineJob}},
	}))
	list, err := schedules.List(t.Context())
	require.NoError(t, err)
	first := list[0].Next
	for left := n; left > 0; left -= jobsPage {
		d.enqueue(min(left, jobsPage))
	}
	tiertest.Eventually(t, chaosWait, func() (bool, string) { return d.open() < 2*jobsLanes, "busy" })
	list, err = schedules.List(t.Context())
	require.NoError(t, err)
	require.NoError(t, schedules.Remove(t.Context(), "tick"))
	tiertest.Eventually(t, chaosWait, func() (bool, string) {
		open := d.open()
		return open == 0, fmt.Sprint(open, " jobs are left")
	})
	stop()
	others.Wait()
	deaths := 0
	for _, u := range crew {
		died, failed := u.end()
		require.Empty(t, failed)
		deaths += died
	}
	took := time.Since(began)
	fired := d.audit(tiertest.Dial(t, server))
	require.GreaterOrEqual(t, fired, 1+int(list[0].Last.Sub(first)/jobsTick), "occurrences")
	require.LessOrEqual(t, fired, 1+int(time.Since(first)/jobsTick))
	t.Logf("%d jobs and %d of a schedule in %s, %d workers killed, lanes looked at %d times", n, fired, took.Round(time.Second), deaths, d.samples.Load())
	require.Greater(t, deaths, 3)
	require.Greater(t, d.samples.Load(), int64(100))
}

func newDrill(t testing.TB, server *tiertest.Server, n int) *drill {
	d := &drill{t: t, dies: map[codec.ID]bool{}, keys: map[codec.ID]string{}}
	proxy := tiertest.NewProxy(t, server)
	proxy.DropReplies(n/jobsPage, func(cmd []string) bool { // not those of node numbers, which a caller hears of
		return cmd[0] == "EVALSHA" && cmd[3] != tier.NodesKey && rand.IntN(20) == 0
	})
	client := tiertest.Dial(t, proxy)
	for i := range d.queues {
		d.queues[i] = tiertest.AuditedScope(t, server)
		c, err := queue.NewClient(client, queue.Config{Queue: d.queues[i]})
		require.NoError(t, err)
		d.jobs[i] = c
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		require.NoError(t, again(func() error { return c.DeclareEvents(t.Context(), 10*n+100_000) }))
	}
	for lane := range jobsLanes {
		require.NoError(t, again(func() error {
			_, err := d.jobs[0].SetLane(t.Context(), laneName(lane), 0, laneCeiling(lane))
			return err
		}))
	}
	require.NoError(t, again(func() error { return d.jobs[0].SetCeiling(t.Context(), jobsCeiling) }))
	return d
}

// again makes a call until it is answered.
func again(call func() error) (err error) {
	for err = call(); tier.OutcomeUnknown(err); err = call() {
	}
	return err
}

// enqueue makes jobs, a tenth of them of flows.
func (d *drill) enqueue(n int) {
	var jobs []queue.Job
	for i := range n {
		if i%40 == 0 {
			d.enqueueFlow()
		}
		if i%10 == 0 {
			continue
		}
		job := queue.Job{Lane: laneName(rand.IntN(jobsLanes)), Message: codec.Message{Type: fineJob}}
		switch p := rand.IntN(100); {
		case p < 2:
			job.Type = poisonJob
		case p < 17:
			job.Type = failsJob
		case p < 30:
			job.Unique.Key = fmt.Sprint("key-", rand.IntN(jobsKeys))
		case p < 35:
			job.Delay = time.Duration(rand.IntN(3000)) * time.Millisecond
		}
		jobs = append(jobs, job)
	}
	receipts, err := d.jobs[0].EnqueueMany(d.t.Context(), jobs)
	require.NoError(d.t, err)
	for i, r := range receipts {
		require.NoError(d.t, r.Err)
		if !r.Existing {
			d.dies[r.ID], d.keys[r.ID] = jobs[i].Type == poisonJob, jobs[i].Unique.Key
		}
	}
}

// enqueueFlow makes a parent of three jobs, one of them in the other queue.
func (d *drill) enqueueFlow() {
	flow := &queue.Flow{Job: queue.Job{Lane: laneName(rand.IntN(jobsLanes)), Message: codec.Message{Type: parentJob}}}
	fails := false
	for i := range 3 {
		child := &queue.Flow{Job: queue.Job{Lane: laneName(rand.IntN(jobsLanes)), Message: codec.Message{Type: fineJob}}}
		if i == 0 {
			child.Queue = d.queues[1]
		}
		if rand.IntN(10) == 0 {
			child.Type = poisonJob
			if child.Policy.Dead = queue.Ignore; rand.IntN(2) == 0 {
				child.Policy.Dead, fails = queue.Fail, true
			}
		}
		flow.Children = append(flow.Children, child)
	}
	_, err := d.jobs[0].EnqueueFlow(d.t.Context(), flow)
	require.NoError(d.t, err)
	d.dies[flow.ID] = fails
	for _, child := range flow.Children {
		d.dies[child.ID] = child.Type == poisonJob
	}
}

// open is how many jobs have not ended.
func (d *drill) open() (n int64) {
	for _, jobs := range d.jobs {
		var counts queue.Counts
		require.NoError(d.t, again(func() (err error) {
			counts, err = jobs.Counts(d.t.Context())
			return err
		}))
		n += counts.Ready + counts.Active + counts.Scheduled + counts.Waiting
	}
	return n
}

// watch looks at the lanes again and again.
func (d *drill) watch(ctx context.Context, client *tier.Client) {
	jobs, err := queue.NewClient(client, queue.Config{Queue: d.queues[0]})
	if err != nil {
		d.t.Error(err)
		return
	}
	for tier.Pause(ctx, 5*time.Millisecond) {
		for lane, err := range jobs.Lanes(ctx) {
			if err == nil && int(lane.Active) > lane.Ceiling {
				d.t.Errorf("%s has %d active jobs, above its ceiling of %d", lane.Name, lane.Active, lane.Ceiling)
			}
		}
		d.samples.Add(1)
	}
}

// kill kills workers, or freezes them past their leases.
func (d *drill) kill(ctx context.Context, crew []*undying) {
	for tier.Pause(ctx, time.Duration(rand.IntN(1000))*time.Millisecond) {
		u := crew[rand.IntN(len(crew))]
		if rand.IntN(5) == 0 {
			u.freeze()
		} else {
			u.signal(9, false)
		}
	}
}
