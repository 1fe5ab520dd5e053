package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// flowScenarios are those of flows of the original EchoMQ, by number. What lies in an outbox is delivered at once here, and by
// sweeps when that fails: so a worker that dies between stands in for "until the sweep".
var flowScenarios = []struct {
	name string
	run  func(f *fixture)
}{
	{"47 flow_add", func(f *fixture) {
		id := f.flow(flowOf("parent", flowOf("a"), flowOf("b")))
		require.Equal(f.t, queue.Waiting, f.state(id))
		require.Equal(f.t, 2, f.open(id))
		f.counts(queue.Counts{Waiting: 1, Scheduled: 2})
		m := f.join(f.workers)
		f.takeNamed(m, "a", "b")
		f.none(m)
	}},
	{"48 flow_fanin", func(f *fixture) {
		flow := flowOf("parent", flowOf("a"), flowOf("b"))
		id := f.flow(flow)
		m := f.join(f.workers)
		leased := f.takeNamed(m, "a", "b")
		f.settle(m, leased[0])
		require.Equal(f.t, 1, f.open(id))
		n, err := m.Settle(f.ctx, entriesOf(leased[:1]))
		require.NoError(f.t, err)
		require.Zero(f.t, n, "it is gone")
		require.Equal(f.t, 1, f.open(id))
		require.Equal(f.t, queue.Waiting, f.state(id))
		f.settle(m, leased[1])
		require.Equal(f.t, "completed completed", f.outcomes(flow))
		f.settle(m, f.takeNamed(m, "parent")...)
		f.gone(id)
	}},
	{"49 flow_children_values", func(f *fixture) {
		flow := flowOf("parent", flowOf("a"), flowOf("b"))
		id := f.flow(flow)
		m := f.join(f.workers)
		leased := f.takeNamed(m, "a", "b")
		want := map[codec.ID][]byte{}
		for i, value := range []string{"1", "2"} {
			require.Equal(f.t, 2-i, f.open(id))
			f.commit(m, result(leased[i], value))
			want[flow.Children[i].ID] = []byte(value)
			for range 2 { // reads change nothing
				got, err := f.jobs.ChildrenValues(f.ctx, id)
				require.NoError(f.t, err)
				require.Equal(f.t, want, got)
			}
		}
		parent := f.takeNamed(m, "parent")
		require.Zero(f.t, f.open(id), "its handler reads them")
		got, err := f.jobs.ChildrenValues(f.ctx, id)
		require.NoError(f.t, err)
		require.Equal(f.t, want, got)
		f.settle(m, parent...)
		_, err = f.jobs.ChildrenValues(f.ctx, id)
		require.ErrorIs(f.t, err, queue.ErrNoJob)
		require.Equal(f.t, "0", f.text("EXISTS", f.queue.ChildrenKey(id.String())))
	}},
	{"50 flow_cross_queue", func(f *fixture) {
		other := f.elsewhere()
		id := f.flow(flowOf("parent", in(other, flowOf("a"))))
		w := other.join(other.workers)
		child := other.takeNamed(w, "a")[0]
		other.undelivered(func() { other.commit(w, result(child, "1")) })
		require.Equal(f.t, 1, other.outbox())
		require.Equal(f.t, queue.Waiting, f.state(id))
		other.repeated(func() { other.forward() })
		require.Zero(f.t, f.open(id))
		require.Zero(f.t, other.outbox())
		m := f.join(f.workers)
		f.settle(m, f.takeNamed(m, "parent")...)
		f.none(m)
		f.gone(id)
	}},
	{"51 flow_fail_parent", func(f *fixture) {
		id := f.flow(flowOf("parent", flowOf("a"), flowOf("b")))
		m := f.join(f.workers)
		leased := f.takeNamed(m, "a", "b")
		f.commit(m, dead(leased[0], "boom"))
		info := f.get(id)
		require.Equal(f.t, queue.Dead, info.State)
		require.Equal(f.t, "child "+idOf(leased[0]).String()+" of "+string(f.queue)+" dead: boom", info.Reason)
		f.settle(m, leased[1])
		f.counts(queue.Counts{Dead: 2})

		other := f.elsewhere()
		id = f.flow(flowOf("parent", in(other, flowOf("a"))))
		w := other.join(other.workers)
		child := other.takeNamed(w, "a")[0]
		other.undelivered(func() { other.commit(w, dead(child, "boom")) })
		require.Equal(f.t, queue.Waiting, f.state(id))
		other.repeated(func() { other.forward() })
		require.Equal(f.t, queue.Dead, f.state(id))
		f.counts(queue.Counts{Dead: 3})
	}},
	{"52 flow_ignore_dep", func(f *fixture) {
		flow := flowOf("parent", flowOf("a"), flowOf("b"))
		flow.Children[0].Policy = queue.Everywhere(queue.Ignore)
		id := f.flow(flow)
		m := f.join(f.workers)
		leased := f.takeNamed(m, "a", "b")
		f.commit(m, dead(leased[0], "boom"))
		require.Equal(f.t, queue.Waiting, f.state(id))
		require.Equal(f.t, 1, f.open(id))
		f.commit(m, result(leased[1], "2"))
		f.takeNamed(m, "parent")
		require.Equal(f.t, "dead completed", f.outcomes(flow))
		values, err := f.jobs.ChildrenValues(f.ctx, id)
		require.NoError(f.t, err)
		require.Equal(f.t, map[codec.ID][]byte{flow.Children[1].ID: []byte("2")}, values)
	}},
	{"53 flow_add_bulk, and the poisoned one ends", func(f *fixture) {
		other := f.elsewhere()
		f.flow(flowOf("one", flowOf("a")))
		f.flow(flowOf("two", flowOf("b")))
		taken := other.enqueue("default")[0] // a child of its id cannot be enqueued
		poisoned := flowOf("three", flowOf("c"), in(other, flowOf("d")))
		poisoned.Children[1].ID = taken
		id := f.flow(poisoned)
		require.Equal(f.t, queue.Dead, f.state(id))
		require.Contains(f.t, f.get(id).Reason, "removed: there is a job")
		require.Equal(f.t, []byte("0"), other.get(taken).Message.Data, "that one stays")
		m := f.join(f.workers)
		f.settle(m, f.takeNamed(m, "a", "b", "c")...)
		f.settle(m, f.takeNamed(m, "one", "two")...)
	}},
	{"54 flow_grandchild", func(f *fixture) {
		id := f.flow(flowOf("top", flowOf("middle", flowOf("leaf"))))
		m := f.join(f.workers)
		for _, name := range []string{"leaf", "middle", "top"} {
			leased := f.takeNamed(m, name)
			f.none(m)
			f.settle(m, leased...)
		}
		f.gone(id)

		second, third := f.elsewhere(), f.elsewhere()
		id = f.flow(flowOf("top", in(second, flowOf("middle", in(third, flowOf("leaf"))))))
		for _, level := range []struct {
			f    *fixture
			name string
		}{{third, "leaf"}, {second, "middle"}, {f, "top"}} {
			m := level.f.join(level.f.workers)
			level.f.settle(m, level.f.takeNamed(m, level.name)...)
		}
		f.gone(id)
	}},
	{"55 flow_grandchild_fail", func(f *fixture) {
		flow := flowOf("1", flowOf("2", flowOf("3", flowOf("4"))))
		id := f.flow(flow)
		m := f.join(f.workers)
		child := f.takeNamed(m, "4")[0]
		f.undelivered(func() { f.commit(m, dead(child, "boom")) })
		f.forward() // climbs as far as it goes
		require.Contains(f.t, f.get(id).Reason, "boom")
		f.forward()
		f.counts(queue.Counts{Dead: 4})

		other := f.elsewhere()
		flow = flowOf("top", in(other, flowOf("middle", in(f, flowOf("leaf")))))
		flow.Children[0].Policy = queue.Policy{Dead: queue.Ignore}
		f.flow(flow)
		leaf := f.takeNamed(m, "leaf")[0]
		f.undelivered(func() { f.commit(m, dead(leaf, "boom")) })
		f.repeated(func() { f.forward() })
		require.Equal(f.t, queue.Dead, other.state(flow.Children[0].ID))
		other.counts(queue.Counts{Dead: 1})
		f.settle(m, f.takeNamed(m, "top")...)
	}},
}

// elsewhere is a queue of another slot, on the same server.
func (f *fixture) elsewhere() *fixture {
	f.t.Helper()
	for {
		if other := setUp(f.t, f.server); tier.Slot(other.queue.JobsKey()) != tier.Slot(f.queue.JobsKey()) {
			return other
		}
	}
}

// repeated delivers what the outbox holds as if the forwarder had died before it could delete that: everything twice.
func (f *fixture) repeated(deliver func()) {
	f.t.Helper()
	key := f.queue.OutboxKey()
	reply := f.do("XRANGE", key, "-", "+")
	entries, err := reply.AsXRange()
	require.NoError(f.t, err)
	require.NotEmpty(f.t, entries)
	deliver()
	for _, e := range entries {
		args := []string{key, "*"}
		for field, value := range e.FieldValues {
			args = append(args, field, value)
		}
		f.do("XADD", args...)
	}
	deliver()
}

func TestConformanceOfFlows(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, scenario := range flowScenarios {
			t.Run(scenario.name, func(t *testing.T) { scenario.run(setUp(t, s)) })
		}
	})
}
