package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// stuck is what the watchdog says.
func (f *fixture) stuck() []queue.StuckParent {
	f.t.Helper()
	stuck, err := queue.Stuck(f.ctx, f.client, string(f.queue))
	require.NoError(f.t, err)
	return stuck
}

// TestStuck (B141): who waits for children that are there is not stuck, nor while something is on its way; a child that is
// nowhere is found, and so is what nobody delivers.
func TestStuck(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		other := f.elsewhere()
		flow := flowOf("parent", flowOf("a"), in(other, flowOf("b")), flowOf("c"))
		id := f.flow(flow)
		require.Empty(t, f.stuck())
		m, w := f.join(f.workers), other.join(other.workers)
		leased := f.takeNamed(m, "a", "c")
		require.Empty(t, f.stuck(), "active")
		f.undelivered(func() { f.settle(m, leased[0]) })
		other.undelivered(func() { other.settle(w, other.takeNamed(w, "b")...) })
		require.Empty(t, f.stuck(), "on their way")

		other.backdate()
		stuck := f.stuck()
		require.Len(t, stuck, 1)
		require.Equal(t, id, stuck[0].ID)
		require.Len(t, stuck[0].Children, 1)
		child := stuck[0].Children[0]
		require.Equal(t, flow.Children[1].ID, child.ID)
		require.False(t, child.Lost)
		require.Contains(t, child.Why, "it has ended, and its parent is not told: no worker of "+string(other.queue)+" delivers the outbox")
		require.NoError(t, queue.Check(f.ctx, f.client, string(f.queue)), "nothing is lost")
		other.forward()
		require.Empty(t, f.stuck())

		entry := f.do("XRANGE", f.queue.OutboxKey(), "-", "+")
		entries, err := entry.AsXRange()
		require.NoError(t, err)
		f.do("XDEL", f.queue.OutboxKey(), entries[0].ID) // another program
		stuck = f.stuck()
		require.Len(t, stuck, 1)
		require.Equal(t, []queue.StuckChild{{
			ID: flow.Children[0].ID, Queue: string(f.queue), Lost: true,
			Why: "it is not in its queue, and nothing of it is on its way: the server has lost it, or another program deleted it",
		}}, stuck[0].Children)
		require.ErrorContains(t, queue.Check(f.ctx, f.client, string(f.queue)), "waits for "+flow.Children[0].ID.String())

		f.do("DEL", f.queue.ChildrenKey(id.String()))
		require.Equal(t, "waits, and nothing is known of its children", f.stuck()[0].Why)
		f.do("HSET", f.queue.ChildrenKey(id.String()), "open", "3", flow.Children[2].ID.String(), string(f.queue)+" iiii open ")
		require.Equal(t, `counts "3" open children, and has 1`, f.stuck()[0].Why)
		f.do("HSET", f.queue.ChildrenKey(id.String()), "open", "1")
		require.Empty(t, f.stuck())
		f.settle(m, leased[1])
		f.settle(m, f.takeNamed(m, "parent")...)

		f.do("HSET", f.queue.ChildrenKey(id.String()), "open", "0")
		require.ErrorContains(t, queue.Check(f.ctx, f.client, string(f.queue)), "is kept of the children of a job that is no more")
		f.do("DEL", f.queue.ChildrenKey(id.String()))
	})
}

// backdate lets what the outbox holds have been there for two minutes.
func (f *fixture) backdate() {
	f.t.Helper()
	key := f.queue.OutboxKey()
	reply := f.do("XRANGE", key, "-", "+")
	entries, err := reply.AsXRange()
	require.NoError(f.t, err)
	f.do("DEL", key)
	for i, e := range entries {
		args := []string{key, fmt.Sprintf("%d-%d", time.Now().Add(-2*time.Minute).UnixMilli(), i)}
		for field, value := range e.FieldValues {
			args = append(args, field, value)
		}
		f.do("XADD", args...)
	}
	f.do("XGROUP", "CREATE", key, "w", "0")
}
