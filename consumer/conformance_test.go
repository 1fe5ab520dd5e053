package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestConformance (17 backoff; B112): a job of three attempts dies at the third, with the last error.
func TestConformance(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		name := tiertest.AuditedScope(t, server)
		client := tiertest.Dial(t, server)
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		require.NoError(t, err)
		workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name})
		require.NoError(t, err)
		id, err := jobs.Enqueue(t.Context(), queue.Job{
			Message: codec.Message{Type: "t"}, Terms: tier.Terms{MaxAttempts: 3, Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond, Keep: time.Hour},
		})
		require.NoError(t, err)
		attempts := make(chan int, 10)
		c, err := consumer.New(consumer.Jobs(workers), func(_ context.Context, d *consumer.Delivery) error {
			attempts <- d.Attempt
			return fmt.Errorf("boom %d", d.Attempt)
		}, consumer.Config{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		outcome, err := jobs.Wait(t.Context(), id)
		require.NoError(t, err)
		stop()
		require.NoError(t, <-ended)
		require.Contains(t, outcome.Reason, "boom 3")
		require.Len(t, attempts, 3)
		var found []codec.ID
		for info, err := range jobs.List(t.Context(), queue.Selection{States: []queue.State{queue.Dead}}) {
			require.NoError(t, err)
			require.Equal(t, 3, info.Attempts)
			found = append(found, info.ID)
		}
		require.Equal(t, []codec.ID{id}, found, "it is browsable")
	})
}
