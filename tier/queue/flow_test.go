package queue_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// jobOf is a job whose type is its name.
func jobOf(name string) queue.Job { return queue.Job{Message: codec.Message{Type: name}} }

// flowOf is a flow whose jobs' types are their names.
func flowOf(name string, children ...*queue.Flow) *queue.Flow {
	return &queue.Flow{Job: jobOf(name), Children: children}
}

// in puts a flow into another queue.
func in(f *fixture, flow *queue.Flow) *queue.Flow {
	flow.Queue = string(f.queue)
	return flow
}

func (f *fixture) flow(flow *queue.Flow) codec.ID {
	f.t.Helper()
	id, err := f.jobs.EnqueueFlow(f.ctx, flow)
	require.NoError(f.t, err)
	require.Equal(f.t, flow.ID, id)
	return id
}

// take claims n jobs, as soon as they are there, and not more.
func (f *fixture) take(m *queue.Member, n int) (leased []tier.Leased) {
	f.t.Helper()
	for len(leased) < n {
		more, err := m.Read(f.ctx, n+1-len(leased), 5*time.Second)
		require.NoError(f.t, err)
		require.NotEmpty(f.t, more, "%d of %d jobs", len(leased), n)
		leased = append(leased, more...)
	}
	require.Len(f.t, leased, n)
	return leased
}

// takeNamed claims jobs of these types.
func (f *fixture) takeNamed(m *queue.Member, names ...string) (leased []tier.Leased) {
	f.t.Helper()
	leased = f.take(m, len(names))
	slices.SortFunc(leased, func(a, b tier.Leased) int {
		return slices.Index(names, a.Records[0].Type) - slices.Index(names, b.Records[0].Type)
	})
	for i, l := range leased {
		require.Equal(f.t, names[i], l.Records[0].Type)
	}
	return leased
}

// result ends a job with one.
func result(l tier.Leased, value string) tier.Ending {
	return tier.Ending{Entry: l.Entry, Deliveries: l.Deliveries, Outputs: []tier.Output{tier.Outcome(value)}}
}

func (f *fixture) state(id codec.ID) queue.State {
	f.t.Helper()
	return f.get(id).State
}

func (f *fixture) open(parent codec.ID) int {
	f.t.Helper()
	n, err := f.jobs.OpenChildren(f.ctx, parent)
	require.NoError(f.t, err)
	return n
}

// outcomes are what became of a job's children, in the order of the flow.
func (f *fixture) outcomes(flow *queue.Flow) string {
	f.t.Helper()
	list, err := f.jobs.Children(f.ctx, flow.ID)
	require.NoError(f.t, err)
	require.Len(f.t, list, len(flow.Children))
	words := make([]string, len(list))
	for _, c := range list {
		i := slices.IndexFunc(flow.Children, func(f *queue.Flow) bool { return f.ID == c.ID })
		words[i] = string(c.Outcome)
	}
	return strings.Join(words, " ")
}

// undelivered ends jobs as a worker does that dies before it has delivered what the outbox was told.
func (f *fixture) undelivered(end func()) {
	f.t.Helper()
	key := f.queue.OutboxKey()
	if f.text("EXISTS", key) == "0" {
		f.do("XGROUP", "CREATE", key, "w", "0", "MKSTREAM")
	}
	f.do("XGROUP", "DESTROY", key, "w")
	end()
	f.do("XGROUP", "CREATE", key, "w", "0")
}

// strand lets what others have read in the outbox, and not delivered, be so for long.
func (f *fixture) strand() {
	f.t.Helper()
	key := f.queue.OutboxKey()
	rows, err := f.raw().Do(f.ctx, f.raw().B().Xpending().Key(key).Group("w").Start("-").End("+").Count(1000).Build()).ToArray()
	if err != nil {
		require.ErrorContains(f.t, err, "NOGROUP")
		return
	}
	for _, r := range rows {
		row, err := r.ToArray()
		require.NoError(f.t, err)
		id, _ := row[0].ToString()
		f.do("XCLAIM", key, "w", "w", "0", id, "IDLE", "60000", "JUSTID")
	}
}

func (f *fixture) forward() {
	f.t.Helper()
	require.NoError(f.t, f.jobs.Forward(f.ctx))
}

// outbox is how much is not delivered.
func (f *fixture) outbox() int {
	f.t.Helper()
	n, err := strconv.Atoi(f.text("XLEN", f.queue.OutboxKey()))
	require.NoError(f.t, err)
	return n
}

// TestOutcomes: what becomes of a parent, by how its child ends and what that is to it.
func TestOutcomes(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.workers)
	ends := map[queue.ChildOutcome]func(id codec.ID, l tier.Leased){
		queue.ChildCompleted: func(_ codec.ID, l tier.Leased) { f.commit(m, result(l, "1")) },
		queue.ChildDead:      func(_ codec.ID, l tier.Leased) { f.commit(m, dead(l, "boom")) },
		queue.ChildExpired:   func(_ codec.ID, l tier.Leased) { f.commit(m, dead(l, "boom")) },
		queue.ChildCancelled: func(id codec.ID, l tier.Leased) {
			running, err := f.jobs.Cancel(f.ctx, id, "boom")
			require.NoError(t, err)
			require.True(t, running)
			f.commit(m, dead(l, "boom"))
		},
	}
	for outcome, end := range ends {
		for _, effect := range []queue.Effect{"", queue.Fail, queue.Ignore, queue.Continue} {
			t.Run(string(outcome+" "+queue.ChildOutcome(effect)), func(t *testing.T) {
				flow := flowOf("parent", flowOf("child"), flowOf("other"))
				flow.Children[0].Policy = queue.Everywhere(effect)
				if outcome == queue.ChildExpired {
					flow.Children[0].Terms.Deadline = time.UnixMilli(1)
				}
				id := f.flow(flow)
				leased := f.takeNamed(m, "child", "other")
				end(flow.Children[0].ID, leased[0])
				require.Equal(t, string(outcome)+" open", f.outcomes(flow))
				want := map[queue.Effect]queue.State{"": queue.Dead, queue.Fail: queue.Dead, queue.Ignore: queue.Waiting, queue.Continue: queue.Scheduled}[effect]
				if outcome == queue.ChildCompleted {
					want = queue.Waiting
				}
				require.Equal(t, want, f.state(id))
				if want == queue.Dead {
					require.Contains(t, f.get(id).Reason, string(outcome)+": boom")
				}
				f.settle(m, leased[1])
				require.Equal(t, string(outcome)+" completed", f.outcomes(flow))
				if want != queue.Dead {
					f.settle(m, f.takeNamed(m, "parent")...)
				}
			})
		}
	}
}

// TestRemoved: a child that an operator removes, cancels or drains before it runs tells its parent; a parent that is removed
// leaves its children alone, and what they come to is nobody's.
func TestRemoved(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.workers)
	for what, act := range map[string]func(id codec.ID){
		"removed: ": func(id codec.ID) { require.NoError(t, f.jobs.Remove(f.ctx, id)) },
		"cancelled: no need": func(id codec.ID) {
			running, err := f.jobs.Cancel(f.ctx, id, "no need")
			require.NoError(t, err)
			require.False(t, running)
		},
		"removed: drained": func(codec.ID) {
			_, err := m.Due(f.ctx, 10)
			require.NoError(t, err)
			n, err := f.jobs.Drain(f.ctx)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
	} {
		flow := flowOf("parent", flowOf("child"))
		id := f.flow(flow)
		act(flow.Children[0].ID)
		f.gone(flow.Children[0].ID)
		require.Contains(t, f.get(id).Reason, what)
		require.NoError(t, f.jobs.Remove(f.ctx, id))
	}
	flow := flowOf("top", flowOf("middle", flowOf("leaf")))
	id := f.flow(flow)
	leaf := f.takeNamed(m, "leaf")
	require.NoError(t, f.jobs.Remove(f.ctx, flow.Children[0].ID))
	require.Equal(t, queue.Dead, f.state(id))
	f.settle(m, leaf...)
	f.counts(queue.Counts{Dead: 1})
	require.Equal(t, "0", f.text("EXISTS", f.queue.ChildrenKey(flow.Children[0].ID.String())))

	waits := f.flow(flowOf("parent", flowOf("child"))) // moving it changes where it will go
	require.NoError(t, f.jobs.Move(f.ctx, waits, "other"))
	require.Equal(t, queue.Waiting, f.state(waits))
	f.settle(m, f.takeNamed(m, "child")...)
	f.takeNamed(m, "parent")
	require.Equal(t, "other", f.get(waits).Lane)
	_, err := f.jobs.Cancel(f.ctx, waits, "enough")
	require.NoError(t, err)

	retried, err := f.jobs.Retry(f.ctx, id) // it runs with what there is
	require.NoError(t, err)
	require.Len(t, retried, 1)
	top := f.takeNamed(m, "top")
	require.Equal(t, "removed", f.outcomes(flow))
	f.settle(m, top...)
	f.counts(queue.Counts{Active: 1})
}

// TestFlowTimes: a parent's time has to have passed as well, and a child may have one.
func TestFlowTimes(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	flow := flowOf("parent", flowOf("child"))
	flow.Delay, flow.Children[0].Delay = time.Hour, 30*time.Millisecond
	id := f.flow(flow)
	m := f.join(f.workers)
	f.none(m)
	f.settle(m, f.takeNamed(m, "child")...)
	info := f.get(id)
	require.Equal(t, queue.Scheduled, info.State)
	require.WithinDuration(t, time.Now().Add(time.Hour), info.At, time.Minute)
}

// TestHelpers: a chain runs in its order, and what fans in after all of them.
func TestHelpers(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	require.Nil(t, queue.Chain())
	f.flow(queue.Chain(jobOf("1"), jobOf("2"), jobOf("3")))
	m := f.join(f.workers)
	for _, name := range []string{"1", "2", "3"} {
		f.settle(m, f.takeNamed(m, name)...)
	}
	f.flow(queue.FanIn(jobOf("last"), jobOf("a"), jobOf("b")))
	f.settle(m, f.takeNamed(m, "a", "b")...)
	f.settle(m, f.takeNamed(m, "last")...)
	f.flow(flowOf("alone")) // zero children
	f.settle(m, f.takeNamed(m, "alone")...)
	f.counts(queue.Counts{})
}

// TestFlowLimits: what is no flow is refused, and nothing is sent.
func TestFlowLimits(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	deep := flowOf("0")
	for i := range 100 {
		deep = flowOf(strconv.Itoa(i+1), deep)
	}
	wide := flowOf("parent")
	for range 4096 {
		wide.Children = append(wide.Children, flowOf("child"))
	}
	heavy := flowOf("parent")
	for range 3 {
		child := flowOf("child")
		child.Data = make([]byte, 3<<20)
		heavy.Children = append(heavy.Children, child)
	}
	circle := flowOf("a", flowOf("b"))
	circle.Children[0].Children = []*queue.Flow{circle}
	shared := flowOf("shared")
	twice := flowOf("a", flowOf("b"), flowOf("c"))
	twice.ID = f.minted()
	twice.Children[1].ID = twice.ID
	unique := flowOf("a")
	unique.Unique.Key = "k"
	odd := flowOf("a", flowOf("b"))
	odd.Children[0].Policy.Dead = "x"
	elsewhere := flowOf("a")
	elsewhere.Queue = "other"
	for _, tc := range []struct {
		name string
		flow *queue.Flow
		want any
	}{
		{"101 levels", deep, new(*queue.FlowDepthError)},
		{"4097 jobs", wide, new(*queue.FlowSizeError)},
		{"9 MiB", heavy, new(*queue.TooLargeError)},
		{"a job that waits for itself", circle, new(*queue.FlowCycleError)},
		{"a job with two parents", flowOf("top", flowOf("a", shared), flowOf("b", shared)), new(*queue.FlowCycleError)},
		{"two jobs of one id", twice, new(*queue.FlowCycleError)},
		{"a unique key", unique, queue.ErrBadCall},
		{"an effect that is none", odd, queue.ErrBadCall},
		{"of another queue than the client", elsewhere, queue.ErrBadCall},
		{"a queue that has no name", flowOf("a", &queue.Flow{Queue: "{}"}), new(*tier.NameError)},
		{"no flow", nil, queue.ErrBadCall},
		{"no child", flowOf("a", nil), queue.ErrBadCall},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := f.jobs.EnqueueFlow(f.ctx, tc.flow)
			if sentinel, ok := tc.want.(error); ok {
				require.ErrorIs(t, err, sentinel)
			} else {
				require.ErrorAs(t, err, tc.want)
			}
			f.counts(queue.Counts{})
		})
	}
	deep = deep.Children[0] // 100 levels
	f.flow(deep)
	wide.Children = wide.Children[1:] // 4096 jobs
	f.flow(wide)
	f.counts(queue.Counts{Waiting: 100, Scheduled: 4096})
}
