package queue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// twinJob is a job of a dumb flow.
type twinJob struct {
	flow   *queue.Flow
	queue  int
	parent *twinJob
	state  string // absent, waiting, there (in a lane, or due), dead, gone
	open   int    // children
	noted  queue.ChildOutcome
}

// twinEntry is one of an outbox: a job to be enqueued, or how one ended.
type twinEntry struct {
	job     *twinJob
	outcome queue.ChildOutcome // empty: to be enqueued
}

// flowModel runs the same on flows in two queues and on their twin.
type flowModel struct {
	t       *rapid.T
	queues  [2]*fixture
	members [2]*queue.Member
	jobs    []*twinJob // parents first
	outbox  [2][]twinEntry
}

// TestFlowModel (B141): random trees over two queues, whose jobs are done, given up, tried again, removed, cancelled and
// retried, by workers that die before they settle, or before they have delivered what the outbox was told, with every
// delivery repeated: against a dumb twin. Answers agree after each step, and in the end every parent has ended and nothing
// is left of it.
func TestFlowModel(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Redis))
	queues := [2]*fixture{f, f.elsewhere()}
	rapid.Check(t, func(t *rapid.T) {
		m := &flowModel{t: t, queues: queues}
		for q := range m.queues {
			m.queues[q].purge(t)
			m.joins(q)
		}
		m.enqueue()
		t.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { m.check() },
			"enqueue": func(*rapid.T) { m.enqueue() },
			"work":    func(t *rapid.T) { m.work(m.aQueue(), rapid.SampledFrom(m.ends()).Draw(t, "end")) },
			"die":     func(*rapid.T) { m.die(m.aQueue()) },
			"forward": func(*rapid.T) { m.forward(m.aQueue()) },
			"repeat":  func(*rapid.T) { m.repeat(m.aQueue()) },
			"remove":  func(*rapid.T) { m.remove(m.aJob("there", "waiting", "dead"), "") },
			"cancel":  func(*rapid.T) { m.remove(m.aJob("there", "waiting", "dead"), "why") },
			"retry":   func(*rapid.T) { m.retry(m.aJob("dead")) },
		})
		m.end()
	})
}

// purge deletes the queue with all that it has, as one that failed leaves it.
func (f *fixture) purge(t require.TestingT) {
	keys, err := f.client.KeysBelow(f.ctx, strings.TrimSuffix(f.queue.QueueKey(), ":queue"))
	require.NoError(t, err)
	for _, key := range keys {
		f.do("DEL", key)
	}
}

func (m *flowModel) aQueue() int { return rapid.IntRange(0, 1).Draw(m.t, "queue") }

func (m *flowModel) aJob(states ...string) *twinJob {
	jobs := slices.DeleteFunc(slices.Clone(m.jobs), func(j *twinJob) bool { return !slices.Contains(states, j.state) })
	if len(jobs) == 0 {
		m.t.Skip("none")
	}
	return rapid.SampledFrom(jobs).Draw(m.t, "job")
}

func (m *flowModel) joins(q int) {
	f := m.queues[q]
	member, err := f.workers.Join(f.ctx, "w")
	require.NoError(m.t, err)
	m.members[q] = member
}

// enqueue enqueues a tree of up to three levels.
func (m *flowModel) enqueue() {
	if len(m.jobs) > 12 {
		m.t.Skip("enough")
	}
	q, before := m.aQueue(), len(m.jobs)
	top := m.tree(q, nil, 0)
	_, err := m.queues[q].jobs.EnqueueFlow(m.queues[q].ctx, top.flow)
	require.NoError(m.t, err)
	m.plant(top)
	if slices.ContainsFunc(m.jobs[before:], func(j *twinJob) bool { return j.queue != q }) {
		m.deliver(q)
	}
}

func (m *flowModel) tree(q int, parent *twinJob, level int) *twinJob {
	effect := rapid.SampledFrom([]queue.Effect{queue.Fail, queue.Ignore, queue.Continue})
	j := &twinJob{queue: q, parent: parent, state: "absent", noted: queue.ChildOpen, flow: &queue.Flow{
		Queue: string(m.queues[q].queue), Policy: queue.Policy{Dead: effect.Draw(m.t, "dead"), Cancelled: effect.Draw(m.t, "cancelled"), Removed: effect.Draw(m.t, "removed")},
	}}
	m.jobs = append(m.jobs, j)
	if level < 2 {
		for range rapid.IntRange(0, 2-level).Draw(m.t, "children") {
			j.flow.Children = append(j.flow.Children, m.tree(m.aQueue(), j, level+1).flow)
			j.open++
		}
	}
	return j
}

// plant enqueues a twin, with what is of the same queue below it.
func (m *flowModel) plant(j *twinJob) {
	if j.state = "there"; j.open > 0 {
		j.state = "waiting"
	}
	for _, child := range m.jobs {
		if child.parent == j && child.queue == j.queue {
			m.plant(child)
		} else if child.parent == j {
			m.outbox[j.queue] = append(m.outbox[j.queue], twinEntry{job: child})
		}
	}
}

// deliver is what forwarding an outbox comes to.
func (m *flowModel) deliver(q int) {
	for open := []int{q}; len(open) > 0; open = open[1:] {
		entries := m.outbox[open[0]]
		m.outbox[open[0]] = nil
		for _, e := range entries {
			if e.outcome == "" {
				m.plant(e.job)
				open = append(open, e.job.queue)
			} else if p := e.job.parent; p != nil && p.state != "gone" && m.note(e.job, e.outcome) {
				open = append(open, p.queue)
			}
		}
	}
}

// note says whether the parent fails.
func (m *flowModel) note(j *twinJob, outcome queue.ChildOutcome) bool {
	p := j.parent
	if j.noted != queue.ChildOpen {
		return false
	}
	j.noted = outcome
	p.open--
	effect := map[queue.ChildOutcome]queue.Effect{
		queue.ChildCompleted: queue.Ignore, queue.ChildDead: j.flow.Policy.Dead, queue.ChildCancelled: j.flow.Policy.Cancelled, queue.ChildRemoved: j.flow.Policy.Removed,
	}[outcome]
	switch {
	case p.state != "waiting":
	case effect == queue.Fail:
		m.ended(p, "dead", queue.ChildDead)
		return true
	case effect == queue.Continue || p.open == 0:
		p.state = "there"
	}
	return false
}

func (m *flowModel) ended(j *twinJob, state string, outcome queue.ChildOutcome) {
	if j.state = state; !j.kin() {
		return
	}
	m.outbox[j.queue] = append(m.outbox[j.queue], twinEntry{j, outcome})
}

// kin: it is of a flow of more jobs than itself.
func (j *twinJob) kin() bool { return j.parent != nil || len(j.flow.Children) > 0 }

// ends are ways in which a worker may end a job; "!": it dies before it has delivered that.
func (m *flowModel) ends() []string {
	return []string{"done", "done", "done!", "dead", "dead!", "again", "cancelled", "nothing"}
}

func (m *flowModel) work(q int, how string) {
	f, member := m.queues[q], m.members[q]
	_, err := member.Due(f.ctx, 100)
	require.NoError(m.t, err)
	leased, err := member.Read(f.ctx, 1, 0)
	require.NoError(m.t, err)
	if len(leased) == 0 {
		m.t.Skip("nothing to do")
	}
	l := leased[0]
	j := m.jobs[slices.IndexFunc(m.jobs, func(j *twinJob) bool { return j.flow.ID == idOf(l) })]
	require.Equal(m.t, "there", j.state, "a job runs that waits, or has ended")
	act := func(e tier.Ending) func() {
		return func() { require.NoError(m.t, member.Commit(f.ctx, []tier.Ending{e})) }
	}
	switch how {
	case "done":
		act(result(l, "1"))()
		m.ended(j, "gone", queue.ChildCompleted)
	case "done!":
		f.undelivered(act(result(l, "1")))
		m.ended(j, "gone", queue.ChildCompleted)
	case "dead":
		act(dead(l, "boom"))()
		m.ended(j, "dead", queue.ChildDead)
	case "dead!":
		f.undelivered(act(dead(l, "boom")))
		m.ended(j, "dead", queue.ChildDead)
	case "again":
		act(again(l, 0))()
	case "cancelled":
		_, err := f.jobs.Cancel(f.ctx, j.flow.ID, "why")
		require.NoError(m.t, err)
		act(again(l, 0))()
		m.ended(j, "dead", queue.ChildCancelled)
	}
	if j.kin() && !strings.HasSuffix(how, "!") && how != "nothing" {
		m.deliver(q)
	}
}

// die lets another take over what the worker has.
func (m *flowModel) die(q int) {
	f := m.queues[q]
	m.joins(q)
	if f.text("EXISTS", f.queue.LaneKey(queue.DefaultLane)) == "0" {
		return
	}
	f.age(queue.DefaultLane)
	for taken := (tier.Taken{}); !taken.Done; {
		var err error
		taken, err = m.members[q].TakeOver(f.ctx, 100, 100)
		require.NoError(m.t, err)
		if len(taken.Leased) > 0 {
			require.NoError(m.t, m.members[q].Commit(f.ctx, endings(taken.Leased)))
		}
	}
	m.deliver(q)
}

// endings puts jobs off.
func endings(leased []tier.Leased) (list []tier.Ending) {
	for _, l := range leased {
		list = append(list, again(l, 0))
	}
	return list
}

func (m *flowModel) forward(q int) {
	require.NoError(m.t, m.queues[q].jobs.Forward(m.queues[q].ctx))
	m.deliver(q)
}

// repeat lets everything that the outbox holds be delivered twice.
func (m *flowModel) repeat(q int) {
	f := m.queues[q]
	if len(m.outbox[q]) == 0 {
		m.t.Skip("nothing is told")
	}
	f.repeated(func() { require.NoError(m.t, f.jobs.Forward(f.ctx)) })
	m.deliver(q)
}

func (m *flowModel) remove(j *twinJob, reason string) {
	f := m.queues[j.queue]
	outcome := queue.ChildRemoved
	err := error(nil)
	if reason == "" {
		err = f.jobs.Remove(f.ctx, j.flow.ID)
	} else if f.get(j.flow.ID).State != queue.Active {
		outcome = queue.ChildCancelled
		_, err = f.jobs.Cancel(f.ctx, j.flow.ID, reason)
	} else {
		m.t.Skip("somebody has it")
	}
	if errors.Is(err, queue.ErrActive) {
		return
	}
	require.NoError(m.t, err)
	m.ended(j, "gone", outcome)
	m.deliver(j.queue)
}

func (m *flowModel) retry(j *twinJob) {
	f := m.queues[j.queue]
	retried, err := f.jobs.Retry(f.ctx, j.flow.ID)
	require.NoError(m.t, err)
	require.Len(m.t, retried, 1)
	j.state = "there"
}

func (m *flowModel) check() {
	for i, j := range m.jobs {
		f := m.queues[j.queue]
		info, err := f.jobs.Get(f.ctx, j.flow.ID)
		state := map[queue.State]string{queue.Waiting: "waiting", queue.Dead: "dead", queue.Ready: "there", queue.Active: "there", queue.Scheduled: "there", queue.Retry: "there"}[info.State]
		if errors.Is(err, queue.ErrNoJob) {
			require.Contains(m.t, []string{"absent", "gone"}, j.state, "job %d", i)
			continue
		}
		require.NoError(m.t, err)
		require.Equal(m.t, j.state, state, "job %d", i)
		list, err := f.jobs.Children(f.ctx, j.flow.ID)
		require.NoError(m.t, err)
		got, want := map[codec.ID]queue.ChildOutcome{}, map[codec.ID]queue.ChildOutcome{}
		for _, c := range list {
			got[c.ID] = c.Outcome
		}
		for _, child := range m.jobs {
			if child.parent == j {
				want[child.flow.ID] = child.noted
			}
		}
		require.Equal(m.t, want, got, "children of job %d", i)
	}
}

// end does what there is to do. Every parent ends, and nothing is left.
func (m *flowModel) end() {
	for busy := true; busy; busy = slices.ContainsFunc(m.jobs, func(j *twinJob) bool { return j.state == "there" }) {
		for q, f := range m.queues {
			m.die(q)
			m.forward(q)
			_, err := m.members[q].Due(f.ctx, 100)
			require.NoError(m.t, err)
			leased, err := m.members[q].Read(f.ctx, 100, 0)
			require.NoError(m.t, err)
			for _, l := range leased {
				require.NoError(m.t, m.members[q].Commit(f.ctx, []tier.Ending{result(l, "1")}))
				m.ended(m.jobs[slices.IndexFunc(m.jobs, func(j *twinJob) bool { return j.flow.ID == idOf(l) })], "gone", queue.ChildCompleted)
				m.deliver(q)
			}
			m.check()
		}
	}
	for _, j := range m.jobs {
		require.Contains(m.t, []string{"dead", "gone"}, j.state, "it has not ended")
		if j.state == "dead" {
			m.remove(j, "")
		}
	}
	for q, f := range m.queues {
		m.forward(q)
		require.Zero(m.t, f.outbox())
		require.NoError(m.t, queue.Check(f.ctx, f.client, string(f.queue)))
		counts, err := f.jobs.Counts(f.ctx)
		require.NoError(m.t, err)
		require.Equal(m.t, queue.Counts{}, counts)
		kept, err := f.client.KeysBelow(f.ctx, f.queue.ChildrenKey("")[:len(f.queue.ChildrenKey(""))-1])
		require.NoError(m.t, err)
		require.Empty(m.t, kept)
	}
}
