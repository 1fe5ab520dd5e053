package queue_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestObliterateWhileFilled: of a job that is enqueued between two steps of an obliteration nothing is left, or all of it. Of one that
// is enqueued between any two of them, whoever obliterates is told to stop that.
func TestObliterateWhileFilled(t *testing.T) {
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	direct := setUpWith(t, f.server, tiertest.Dial(t, f.server))
	jobs, err := queue.NewClient(direct.client, queue.Config{Queue: string(f.queue)})
	require.NoError(t, err)
	defer func() { require.NoError(t, jobs.Close(f.ctx)) }()
	lanes := make([]string, 600)
	for i := range lanes {
		lanes[i] = fmt.Sprint("l", i)
	}
	f.enqueue(lanes...)
	require.NoError(t, f.jobs.Pause(f.ctx))
	steps, last := 0, 3 // the one that deletes the second page of keys
	runs := sources(t)["obliterate"].Runs()
	proxy.DropRequests(1, func(cmd []string) bool {
		if runs(cmd) {
			if steps++; steps > 1 && steps <= last {
				_, err := jobs.Enqueue(f.ctx, queue.Job{Lane: fmt.Sprint("l", 99+steps)}) // each time another key
				require.NoError(t, err)
			}
		}
		return false
	})
	_, err = f.jobs.Obliterate(f.ctx, string(f.queue))
	require.NoError(t, err)
	require.NoError(t, queue.Check(f.ctx, f.client, string(f.queue)))
	f.counts(queue.Counts{})

	f.enqueue("l1")
	require.NoError(t, f.jobs.Pause(f.ctx))
	last = 1000
	_, err = f.jobs.Obliterate(f.ctx, string(f.queue))
	require.ErrorContains(t, err, "is being filled while it is obliterated")
	last = 0
	_, err = f.jobs.Obliterate(f.ctx, string(f.queue))
	require.NoError(t, err)
	f.counts(queue.Counts{})
}
