package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestGetTells: what a job was enqueued with is told of it, in a lane and outside.
func TestGetTells(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		terms := tier.Terms{MaxAttempts: 3, Keep: time.Hour, Deadline: time.UnixMilli(4e12).UTC(), Tags: []string{"a", "b"}}
		for _, delay := range []time.Duration{0, time.Hour} {
			id, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: delay, Terms: terms, Unique: queue.Unique{Key: "k" + delay.String()}})
			require.NoError(t, err)
			info := f.get(id)
			require.Equal(t, &terms, info.Terms)
			require.Equal(t, "k"+delay.String(), info.Unique)
			require.False(t, info.Family)
		}
		flow := queue.FanIn(queue.Job{}, queue.Job{}, queue.Job{Delay: time.Hour})
		id := f.flow(flow)
		f.take(f.join(f.workers), 2) // one child is in its lane
		require.Equal(t, []any{true, "", true}, []any{f.get(id).Family, f.get(id).ParentQueue, f.get(id).Parent.IsZero()})
		var states []queue.State
		for _, child := range flow.Children {
			info := f.get(child.ID)
			states = append(states, info.State)
			require.Equal(t, []any{id, string(f.queue), true, (*tier.Terms)(nil)}, []any{info.Parent, info.ParentQueue, info.Family, info.Terms})
		}
		require.Equal(t, []queue.State{queue.Active, queue.Scheduled}, states)
		require.Equal(t, codec.ID{}, f.get(id).Parent)
	})
}
