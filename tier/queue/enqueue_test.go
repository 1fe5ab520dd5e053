package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
