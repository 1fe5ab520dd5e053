package queue_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestCountedOnce (B142): children that end at once under several workers, with others who deliver the same and all of it again,
// are counted once each, and their parent runs once.
func TestCountedOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		flow := flowOf("parent")
		for range 200 {
			flow.Children = append(flow.Children, flowOf("child"))
		}
		id := f.flow(flow)
		m := f.join(f.workers)
		leased := f.take(m, 200)
		f.undelivered(func() { f.settle(m, leased[:100]...) })
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 5 {
					if err := f.jobs.Forward(f.ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() { f.settle(m, leased[100:]...) })
		all.Wait()
		f.strand()
		f.forward()
		require.Zero(t, f.open(id))
		require.Zero(t, f.outbox())
		f.settle(m, f.takeNamed(m, "parent")...)
		f.none(m)
		f.counts(queue.Counts{})
	})
}

// TestStrandedIsDelivered: a worker that dies after its jobs have ended, or as it delivers, leaves nothing behind: another one
// delivers as it looks for what was left.
func TestStrandedIsDelivered(t *testing.T) {
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	for _, lost := range []string{"", "XREADGROUP", "XDEL"} {
		id := f.flow(flowOf("parent", flowOf("child")))
		m := f.join(f.workers)
		leased := f.takeNamed(m, "child")
		if lost == "" {
			f.undelivered(func() { f.settle(m, leased...) })
		} else {
			proxy.DropReplies(1, func(cmd []string) bool { return cmd[0] == lost })
			f.settle(m, leased...) // what it did not deliver is no error of its own
			f.strand()
		}
		other := f.join(f.workers)
		_, err := other.TakeOver(f.ctx, 1, 0)
		require.NoError(t, err)
		require.Equal(t, queue.Scheduled, f.state(id), lost)
		f.settle(other, f.takeNamed(other, "parent")...)
		require.Zero(t, f.outbox(), lost)
	}
}

// TestPartIsSentOnce (B142): a part of a flow that was sent to its queue, and whose entry is still in the outbox long after, is not
// enqueued again, even if it is done.
func TestPartIsSentOnce(t *testing.T) {
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	other := f.elsewhere()
	proxy.DropRequests(1, func(cmd []string) bool { return cmd[0] == "XDEL" })
	flow := flowOf("parent", in(other, flowOf("child")))
	f.flow(flow)
	require.Equal(t, 1, proxy.Dropped())
	require.Equal(t, 1, f.outbox())
	calls := other.queue.CallsKey(flow.Children[0].ID.String())
	ttl := func() time.Duration {
		n, err := f.raw().Do(f.ctx, f.raw().B().Pttl().Key(calls).Build()).AsInt64()
		require.NoError(t, err)
		return time.Duration(n) * time.Millisecond
	}
	require.Greater(t, ttl(), 24*time.Hour)
	w := other.join(other.workers)
	other.settle(w, other.takeNamed(w, "child")...)
	f.strand()
	f.forward()
	require.Zero(t, f.outbox())
	require.LessOrEqual(t, ttl(), 10*time.Minute)
	other.counts(queue.Counts{})
	m := f.join(f.workers)
	f.settle(m, f.takeNamed(m, "parent")...)
}

// TestQueueAway: a queue that cannot be told keeps nobody from ending jobs, nor others from being told.
func TestQueueAway(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	away, there := f.elsewhere(), f.elsewhere()
	first := away.flow(flowOf("away", in(f, flowOf("a"))))
	second := there.flow(flowOf("there", in(f, flowOf("b"))))
	m := f.join(f.workers)
	leased := f.takeNamed(m, "a", "b")
	row := away.text("HGET", away.queue.JobsKey(), first.String())
	away.do("RENAME", away.queue.JobsKey(), away.queue.JobsKey()+":away")
	away.do("SET", away.queue.JobsKey(), "of another type")
	f.settle(m, leased...)
	require.Equal(t, queue.Scheduled, there.state(second))
	require.Equal(t, 1, f.outbox())
	f.strand()
	require.ErrorContains(t, f.jobs.Forward(f.ctx), "WRONGTYPE")
	away.do("DEL", away.queue.JobsKey())
	away.do("HSET", away.queue.JobsKey(), first.String(), row)
	away.do("DEL", away.queue.JobsKey()+":away")
	f.strand()
	f.forward()
	require.Equal(t, queue.Scheduled, away.state(first))
	for _, q := range []*fixture{away, there} {
		w := q.join(q.workers)
		q.settle(w, q.take(w, 1)...)
	}
}

// TestFlowInALimitedLane (B140): children in a lane with a ceiling, which is paused and has its queue paused meanwhile, end one
// after another, and the parent runs.
func TestFlowInALimitedLane(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		_, err := f.jobs.SetLane(f.ctx, "narrow", 1, 1)
		require.NoError(t, err)
		flow := flowOf("parent")
		for range 5 {
			child := flowOf("child")
			child.Lane = "narrow"
			flow.Children = append(flow.Children, child)
		}
		f.flow(flow)
		m := f.join(f.workers)
		for i := range 5 {
			leased := f.take(m, 1)
			if i == 2 {
				require.NoError(t, f.jobs.PauseLane(f.ctx, "narrow"))
				require.NoError(t, f.jobs.Pause(f.ctx))
			}
			f.settle(m, leased...)
			if i == 2 {
				require.NoError(t, f.jobs.Resume(f.ctx))
				require.NoError(t, f.jobs.ResumeLane(f.ctx, "narrow"))
			}
		}
		f.settle(m, f.takeNamed(m, "parent")...)
		f.counts(queue.Counts{})
	})
}

// TestStrandedBehindOthers: what is stranded behind more than one look takes, none of which can be delivered, is delivered by the looks
// after that.
func TestStrandedBehindOthers(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	away, there := f.elsewhere(), f.elsewhere()
	flow := flowOf("away")
	for range 70 {
		flow.Children = append(flow.Children, in(f, flowOf("a")))
	}
	first, second := away.flow(flow), there.flow(flowOf("there", in(f, flowOf("b"))))
	m := f.join(f.workers)
	leased := f.take(m, 71)
	byType := map[string][]tier.Leased{}
	for _, l := range leased {
		byType[l.Records[0].Type] = append(byType[l.Records[0].Type], l)
	}
	f.undelivered(func() {
		f.settle(m, byType["a"]...)
		f.settle(m, byType["b"]...)
	})
	f.do("XREADGROUP", "GROUP", "w", "w", "STREAMS", f.queue.OutboxKey(), ">") // by who has died since
	f.strand()
	away.do("RENAME", away.queue.JobsKey(), away.queue.JobsKey()+":away")
	away.do("SET", away.queue.JobsKey(), "of another type")
	w := f.join(f.workers)
	for range 2 {
		_, err := w.TakeOver(f.ctx, 10, 0)
		require.NoError(t, err)
		f.strand()
		w.Jump(time.Hour)
	}
	require.Equal(t, queue.Scheduled, there.state(second))
	require.Equal(t, 70, f.outbox())
	away.do("RENAME", away.queue.JobsKey()+":away", away.queue.JobsKey())
	f.forward()
	require.Equal(t, queue.Scheduled, away.state(first))
	for _, q := range []*fixture{away, there} {
		w := q.join(q.workers)
		q.settle(w, q.take(w, 1)...)
	}
}
