package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestJobs (B13, B18, B22): of three consumers of a queue one dies: each of the jobs in a hundred lanes is handled, what failed
// comes again, and each is done once.
func TestJobs(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const jobs, lanes = 10_000, 100
		name := tiertest.AuditedScope(t, server)
		client := tiertest.Dial(t, server)
		enqueuer, err := queue.NewClient(client, queue.Config{Queue: name})
		require.NoError(t, err)
		list := make([]queue.Job, jobs)
		for i := range list {
			list[i] = queue.Job{Lane: fmt.Sprint("lane-", i%lanes), Message: codec.Message{Type: "count", Key: strconv.Itoa(i)}}
		}
		receipts, err := enqueuer.EnqueueMany(t.Context(), list)
		require.NoError(t, err)
		for _, r := range receipts {
			require.NoError(t, r.Err)
		}

		var mu sync.Mutex
		handled := map[string]int{}
		half := make(chan struct{})
		handler := func(_ context.Context, d *consumer.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if handled[d.Key]++; len(handled) == jobs/2 && half != nil {
				close(half)
				half = nil
			}
			if handled[d.Key] == 1 && d.Key[len(d.Key)-1] == '7' {
				return consumer.RetryAfter(fmt.Errorf("not yet"), time.Millisecond)
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		ended, dies := make(chan error, 3), half
		for i := range 3 {
			client := tiertest.Dial(t, server)
			w, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name, Lease: queue.MinLease})
			require.NoError(t, err)
			c, err := consumer.New(consumer.Jobs(w), handler, consumer.Config{MaxInFlight: 64, DrainTimeout: time.Second})
			require.NoError(t, err)
			go func() { ended <- c.Run(ctx) }()
			if i == 2 {
				<-dies
				client.Close() // with what it holds
				require.ErrorIs(t, <-ended, tier.ErrClosed)
			}
		}
		tiertest.Eventually(t, time.Minute, func() (bool, string) {
			counts, err := enqueuer.Counts(t.Context())
			require.NoError(t, err)
			return counts == queue.Counts{}, fmt.Sprintf("%+v", counts)
		})
		stop()
		for range 2 {
			require.NoError(t, <-ended)
		}
		require.Len(t, handled, jobs)
		require.NoError(t, enqueuer.Close(t.Context()))
	})
}

// TestCancel: the handler of a job that is cancelled elsewhere is told, and why; if it fails then, the job is dead; if not, it is
// done. One that nobody has is gone at once.
func TestCancel(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		name := tiertest.AuditedScope(t, server)
		client := tiertest.Dial(t, server)
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		require.NoError(t, err)
		workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name, Lease: queue.MinLease})
		require.NoError(t, err)
		ids := map[string]codec.ID{}
		for _, kind := range []string{"heeds", "finishes", "waits"} {
			job := queue.Job{Message: codec.Message{Type: kind}, Terms: tier.Terms{Keep: time.Hour}}
			if kind == "waits" {
				job.Delay = time.Hour
			}
			ids[kind], err = jobs.Enqueue(t.Context(), job)
			require.NoError(t, err)
		}
		entered, causes := make(chan string, 2), make(chan error, 2)
		c, err := consumer.New(consumer.Jobs(workers), func(ctx context.Context, d *consumer.Delivery) error {
			entered <- d.Type
			<-ctx.Done()
			causes <- context.Cause(ctx)
			if d.Type == "finishes" {
				return nil
			}
			return ctx.Err()
		}, consumer.Config{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		get(t, entered)
		get(t, entered)
		for kind, id := range ids {
			running, err := jobs.Cancel(t.Context(), id, "not wanted")
			require.NoError(t, err)
			require.Equal(t, kind != "waits", running)
		}
		for range 2 {
			require.Equal(t, &consumer.CancelledError{Reason: "not wanted"}, get(t, causes))
		}
		o, err := jobs.Wait(t.Context(), ids["heeds"])
		require.NoError(t, err)
		require.Equal(t, queue.Outcome{Reason: "cancelled: not wanted"}, o)
		o, err = jobs.Wait(t.Context(), ids["finishes"])
		require.NoError(t, err)
		require.True(t, o.Done)
		_, err = jobs.Get(t.Context(), ids["waits"])
		require.ErrorIs(t, err, queue.ErrNoJob)
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, jobs.Close(context.WithoutCancel(t.Context())))
	})
}

// TestJobsHeal (B28): a lane whose group the server has lost is worked on all the same.
func TestJobsHeal(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		name := tiertest.AuditedScope(t, server)
		client := tiertest.Dial(t, server)
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		require.NoError(t, err)
		workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name})
		require.NoError(t, err)
		_, err = jobs.EnqueueMany(t.Context(), []queue.Job{{Lane: "a"}, {Lane: "b"}, {Lane: "b"}})
		require.NoError(t, err)
		server.Command(t, "XGROUP", "DESTROY", tier.Queue(name).LaneKey("b"), "w")
		c, err := consumer.New(consumer.Jobs(workers), func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		tiertest.Eventually(t, patience, func() (bool, string) {
			counts, err := jobs.Counts(t.Context())
			return err == nil && counts == queue.Counts{}, fmt.Sprintf("%+v %v", counts, err)
		})
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, jobs.Close(context.WithoutCancel(t.Context())))
	})
}
