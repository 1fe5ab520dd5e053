package consumer_test

import (
	"context"
	"errors"
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

type invoice struct{ Number int }

// TestMux: a job goes to the handler of its type, with its payload decoded; one of an unknown type is not lost, and says which;
// a payload that does not decode is dead with its bytes; terms are kept to; a result reaches who waits for it.
func TestMux(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		name := tiertest.AuditedScope(t, server)
		client := tiertest.Dial(t, server)
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		require.NoError(t, err)
		workers, err := queue.NewWorkers(client, queue.WorkersConfig{Queue: name})
		require.NoError(t, err)

		var mux consumer.Mux
		consumer.Handle(&mux, "invoice", codec.Msgpack[invoice](), func(_ context.Context, d *consumer.Delivery, v invoice) error {
			d.Emit(tier.Outcome(fmt.Sprint("sent ", v.Number)))
			return nil
		})
		mux.Handle("slow", func(ctx context.Context, _ *consumer.Delivery) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		mux.Handle("failing", func(context.Context, *consumer.Delivery) error { return errors.New("boom") })

		enqueue := func(m codec.Message, terms tier.Terms) codec.ID {
			terms.Keep = time.Hour
			id, err := jobs.Enqueue(t.Context(), queue.Job{Message: m, Terms: terms})
			require.NoError(t, err)
			return id
		}
		paid := codec.Message{Type: "invoice"}
		require.NoError(t, encode(codec.Msgpack[invoice](), &paid, invoice{7}))
		twice := tier.Terms{MaxAttempts: 2, Backoff: time.Millisecond}
		timed := twice
		timed.Timeout = time.Millisecond
		late := tier.Terms{Deadline: time.Now().Add(-time.Second)}
		wants := map[codec.ID]queue.Outcome{
			enqueue(paid, tier.Terms{}): {Done: true, Result: "sent 7"},
			enqueue(codec.Message{Type: "invoice", Data: []byte{0xc1}, Format: codec.FormatBytes}, tier.Terms{}): {Reason: "consumer: payload of type \"invoice\""},
			enqueue(codec.Message{Type: "failing"}, twice):                                                       {Reason: "attempt 2 of 2: boom"},
			enqueue(codec.Message{Type: "slow"}, timed):                                                          {Reason: "attempt 2 of 2: " + consumer.ErrTimeout.Error()},
			enqueue(codec.Message{Type: "slow"}, late):                                                           {Reason: consumer.ErrExpired.Error()},
			enqueue(codec.Message{Type: "unheard"}, twice):                                                       {Reason: "attempt 2 of 2: consumer: no handler for messages of type \"unheard\""},
		}
		unknown := enqueue(codec.Message{Type: "unheard"}, tier.Terms{Backoff: time.Hour, MaxBackoff: time.Hour})
		c, err := consumer.New(consumer.Jobs(workers), mux.Serve, consumer.Config{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		for id, want := range wants {
			got, err := jobs.Wait(t.Context(), id)
			require.NoError(t, err)
			if require.Equal(t, want.Done, got.Done, got.Reason); !want.Done {
				require.Contains(t, got.Reason, want.Reason)
				got.Reason = want.Reason
			}
			require.Equal(t, want, got)
		}
		tiertest.Eventually(t, patience, func() (bool, string) {
			info, err := jobs.Get(t.Context(), unknown)
			require.NoError(t, err)
			return info.State == queue.Retry && info.Attempts == 1 && info.Reason == "consumer: no handler for messages of type \"unheard\"", fmt.Sprintf("%+v", info)
		})
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, jobs.Close(context.WithoutCancel(t.Context())))
	})
}

func encode[T any](c codec.Codec[T], m *codec.Message, v T) error { return c.Encode(m, v) }
