package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestIdleWorker (B10, B138): a worker without work sends at most a command a second, and so one of a paused queue with jobs, and
// one whose lanes, or whose queue, are at their ceilings.
func TestIdleWorker(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"empty", "paused", "full", "ceiling"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			server := tiertest.Private(t, tiertest.Valkey)
			proxy := tiertest.NewProxy(t, server)
			name := tiertest.AuditedScope(t, server)
			jobs, err := queue.NewClient(tiertest.Dial(t, server), queue.Config{Queue: name})
			require.NoError(t, err)
			workers, err := queue.NewWorkers(tiertest.Dial(t, proxy), queue.WorkersConfig{Queue: name})
			require.NoError(t, err)
			enqueue := func(n int) {
				_, err := jobs.EnqueueMany(t.Context(), make([]queue.Job, n))
				require.NoError(t, err)
			}
			switch state {
			case "paused":
				require.NoError(t, jobs.Pause(t.Context()))
				enqueue(1000)
			case "full", "ceiling":
				enqueue(1000)
				if state == "full" {
					_, err = jobs.SetLane(t.Context(), queue.DefaultLane, 0, 1)
				} else {
					err = jobs.SetCeiling(t.Context(), 1)
				}
				require.NoError(t, err)
				other, err := queue.NewWorkers(tiertest.Dial(t, server), queue.WorkersConfig{Queue: name})
				require.NoError(t, err)
				m, err := other.Join(t.Context(), "other")
				require.NoError(t, err)
				leased, err := m.Read(t.Context(), 1, 0)
				require.NoError(t, err)
				require.Len(t, leased, 1)
			}
			c, err := consumer.New(consumer.Jobs(workers), func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			count := func() (n int) {
				for _, k := range proxy.Commands() {
					n += k
				}
				return n
			}
			<-c.Ready()
			<-time.After(2 * time.Second) // the first look
			before, span := count(), 10*time.Second
			<-time.After(span)
			require.LessOrEqual(t, float64(count()-before)/span.Seconds(), 1.0, "%v", proxy.Commands())
			stop()
			require.NoError(t, <-ended)
			require.NoError(t, jobs.Close(context.WithoutCancel(t.Context())))
		})
	}
}
