package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestEnqueueTogether: callers on many goroutines, of whom those who find a slot free send for all, each have their own receipt.
func TestEnqueueTogether(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	const callers, each = 16, 500
	ids := make(chan string, callers*each)
	done := make(chan error, callers)
	for range callers {
		go func() {
			for range each {
				id, err := f.jobs.Enqueue(f.ctx, queue.Job{})
				if err != nil {
					done <- err
					return
				}
				ids <- id.String()
			}
			done <- nil
		}()
	}
	for range callers {
		require.NoError(t, <-done)
	}
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		seen[id] = true
	}
	require.Len(t, seen, callers*each)
	f.counts(queue.Counts{Ready: callers * each})
}

// TestEnqueueLeft: when the caller who would have sent for all stops waiting, another one sends.
func TestEnqueueLeft(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	goOn, waiting := f.jobs.Hold()
	ctx, leave := context.WithCancel(f.ctx)
	const others = 3
	left, done := make(chan error, 1), make(chan error, others)
	waits := func(n int) {
		tiertest.Eventually(t, time.Minute, func() (bool, string) { return waiting() == n, "callers who wait" })
	}
	enqueue := func(ctx context.Context, ended chan error) {
		_, err := f.jobs.Enqueue(ctx, queue.Job{})
		ended <- err
	}
	go enqueue(ctx, left)
	waits(1)
	for range others {
		go enqueue(f.ctx, done)
	}
	waits(1 + others)
	leave()
	require.ErrorIs(t, <-left, tier.ErrCancelled)
	goOn()
	for range others {
		require.NoError(t, <-done)
	}
	f.counts(queue.Counts{Ready: 1 + others})
}

// TestEnqueueRefusedWhole: where a key that is only needed at the end is of another type, nothing is enqueued.
func TestEnqueueRefusedWhole(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	for _, key := range []string{f.queue.WakeKey(), f.queue.WorkersKey(), f.queue.RingKey(), f.queue.LanesKey(), f.queue.LaneKey("a"), f.queue.JobsKey()} {
		f.do("SET", key, "of another program")
		jobs := f.newClient(queue.Config{})
		_, err := jobs.Enqueue(f.ctx, queue.Job{Lane: "a"})
		require.ErrorIs(t, err, tier.ErrWrongType, key)
		f.do("DEL", key)
		f.counts(queue.Counts{})
	}
	f.enqueue("a")
}
