package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestMetrics (B153): jobs by state, lanes and schedules as the server has them; what is done counts nowhere, and lanes that
// nobody configured have no series, however many there are.
func TestMetrics(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m, err := queue.NewMetrics(f.client, string(f.queue), string(f.queue)) // named twice it is there once
		require.NoError(t, err)
		reg := prometheus.NewRegistry()
		reg.MustRegister(m)

		f.enqueue("default", "done", "slow", "slow", "dead", "tenant-1")
		worker := f.join(f.workers)
		for _, l := range f.read(worker, 6) {
			switch lane := f.get(idOf(l)).Lane; lane {
			case "done":
				f.settle(worker, l)
			case "dead":
				f.commit(worker, dead(l, "no"))
			}
		}
		f.enqueue("slow", "tenant-2")
		_, err = f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Hour})
		require.NoError(t, err)
		f.flow(queue.Chain(queue.Job{Delay: time.Hour}, queue.Job{}))
		_, err = f.jobs.SetLane(f.ctx, "slow", 1, 3)
		require.NoError(t, err)
		require.NoError(t, f.jobs.PauseLane(f.ctx, "slow"))
		at := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
		require.NoError(t, queue.NewSchedules(f.jobs).Put(f.ctx, queue.Schedule{Name: "yearly", Every: at.Sub(time.Unix(0, 0)), Job: queue.Job{}}))

		want := strings.ReplaceAll(`
# HELP echomq_queue_jobs Jobs that are not done, by state; scheduled are those to be tried again, too. Use max over processes.
# TYPE echomq_queue_jobs gauge
echomq_queue_jobs{queue="Q",state="active"} 4
echomq_queue_jobs{queue="Q",state="dead"} 1
echomq_queue_jobs{queue="Q",state="ready"} 2
echomq_queue_jobs{queue="Q",state="scheduled"} 2
echomq_queue_jobs{queue="Q",state="waiting"} 1
# HELP echomq_queue_lane_ceiling_jobs How many jobs of the lane may be active at once; 0: any number.
# TYPE echomq_queue_lane_ceiling_jobs gauge
echomq_queue_lane_ceiling_jobs{lane="default",queue="Q"} 0
echomq_queue_lane_ceiling_jobs{lane="slow",queue="Q"} 3
# HELP echomq_queue_lane_jobs Jobs in a configured lane, by state. Use max over processes.
# TYPE echomq_queue_lane_jobs gauge
echomq_queue_lane_jobs{lane="default",queue="Q",state="active"} 1
echomq_queue_lane_jobs{lane="default",queue="Q",state="ready"} 0
echomq_queue_lane_jobs{lane="slow",queue="Q",state="active"} 2
echomq_queue_lane_jobs{lane="slow",queue="Q",state="ready"} 1
# HELP echomq_queue_lane_paused 1 when the lane is paused. Use max over processes.
# TYPE echomq_queue_lane_paused gauge
echomq_queue_lane_paused{lane="default",queue="Q"} 0
echomq_queue_lane_paused{lane="slow",queue="Q"} 1
# HELP echomq_queue_paused 1 when the queue is paused. Use max over processes.
# TYPE echomq_queue_paused gauge
echomq_queue_paused{queue="Q"} 0
# HELP echomq_queue_schedule_last_timestamp_seconds The last occurrence that a job was made for; 0: none yet.
# TYPE echomq_queue_schedule_last_timestamp_seconds gauge
echomq_queue_schedule_last_timestamp_seconds{queue="Q",schedule="yearly"} 0
# HELP echomq_queue_schedule_next_timestamp_seconds The first occurrence that nobody has fired for; in the past, nobody fires. 0: there is none.
# TYPE echomq_queue_schedule_next_timestamp_seconds gauge
echomq_queue_schedule_next_timestamp_seconds{queue="Q",schedule="yearly"} 4.1024448e+09
# HELP echomq_queue_workers Workers that the server knows, those that died lately too. Use max over processes.
# TYPE echomq_queue_workers gauge
echomq_queue_workers{queue="Q"} 1
`, "Q", string(f.queue))
		var names []string
		for _, line := range strings.Split(want, "\n") {
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				names = append(names, strings.Fields(name)[0])
			}
		}
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), names...))
		problems, err := testutil.GatherAndLint(reg)
		require.NoError(t, err)
		require.Empty(t, problems)

		for i := range 150 { // the bound
			_, err := f.jobs.SetLane(f.ctx, fmt.Sprint("x", i), 2, 0)
			require.NoError(t, err)
		}
		n, err := testutil.GatherAndCount(reg, "echomq_queue_lane_paused")
		require.NoError(t, err)
		require.Equal(t, 101, n)
	})
	_, err := queue.NewMetrics(nil, "no/queue")
	require.Error(t, err)
}
