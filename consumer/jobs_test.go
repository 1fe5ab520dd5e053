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
