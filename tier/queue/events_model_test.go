package queue_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// folded is what events say of a job that is not done.
type folded struct {
	state queue.State
	lane  string
	by    string // the worker of an active one
}

// fold is the state of all jobs, made of events only.
type fold map[codec.ID]folded

func (f fold) apply(t require.TestingT, e *queue.Event) {
	if e.Job.IsZero() {
		clear(f)
		return
	}
	was, there := f[e.Job]
	if !there {
		was.state = queue.Absent
	}
	require.Equal(t, was.state, e.From, "%s is told to have been what it was not", e.Job)
	now := folded{state: e.To, lane: e.Lane}
	switch e.To {
	case queue.Done, queue.Gone:
		delete(f, e.Job)
		return
	case queue.Active:
		now.by = e.By
	}
	f[e.Job] = now
}

// eventsModel does what comes, to a queue with two workers.
type eventsModel struct {
	t       *rapid.T
	f       *fixture
	members []*queue.Member
	held    []map[codec.EntryID]tier.Leased
	ids     []codec.ID
	at      codec.EntryID
	fold    fold
}

// TestEventsFold: whatever happens to jobs in a queue, the events folded say of each where it is, in which lane and with which
// worker, as the server does; and no event tells of a job what the one before it does not lead to.
func TestEventsFold(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	at := codec.EntryID{}
	rapid.Check(t, func(t *rapid.T) {
		f.purge(t)
		m := &eventsModel{t: t, f: f, at: at, fold: fold{}}
		defer func() { at = m.at }()
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 1_000_000))
		m.skip()
		for range 2 {
			m.join()
		}
		t.Repeat(map[string]func(*rapid.T){
			"enqueue":  func(*rapid.T) { m.enqueue() },
			"unique":   func(*rapid.T) { m.unique() },
			"flow":     func(*rapid.T) { m.flow() },
			"claim":    func(*rapid.T) { m.claim(m.who()) },
			"settle":   func(*rapid.T) { m.settle(m.who()) },
			"commit":   func(*rapid.T) { m.commit(m.who()) },
			"release":  func(*rapid.T) { m.release(m.who()) },
			"takeover": func(*rapid.T) { m.takeOver(m.who()) },
			"promote":  func(*rapid.T) { _, err := m.members[0].Due(f.ctx, 10); m.fine(err) },
			"retry":    func(*rapid.T) { _, err := f.jobs.Retry(f.ctx, m.job()); m.fine(err) },
			"remove":   func(*rapid.T) { m.fine(f.jobs.Remove(f.ctx, m.job())) },
			"cancel":   func(*rapid.T) { _, err := f.jobs.Cancel(f.ctx, m.job(), "why"); m.fine(err) },
			"move":     func(*rapid.T) { m.fine(f.jobs.Move(f.ctx, m.job(), m.lane())) },
			"update":   func(*rapid.T) { m.fine(f.jobs.Update(f.ctx, m.job(), codec.Message{Type: "new"})) },
			"drain":    func(*rapid.T) { _, err := f.jobs.DrainLane(f.ctx, m.lane()); m.fine(err) },
			"forward":  func(*rapid.T) { m.fine(f.jobs.Forward(f.ctx)) },
		})
		m.compare()
	})
}

// skip passes over what was told before.
func (m *eventsModel) skip() {
	if records := m.f.messages(m.at); len(records) > 0 {
		m.at = records[len(records)-1].Position.Entry
	}
}

func (m *eventsModel) join() {
	member, err := m.f.workers.Join(m.f.ctx, "w")
	require.NoError(m.t, err)
	m.members, m.held = append(m.members, member), append(m.held, map[codec.EntryID]tier.Leased{})
}

func (m *eventsModel) who() int     { return rapid.IntRange(0, 1).Draw(m.t, "who") }
func (m *eventsModel) lane() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(m.t, "lane") }

func (m *eventsModel) delay() time.Duration {
	return rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(m.t, "delay")
}

func (m *eventsModel) job() codec.ID {
	if len(m.ids) == 0 {
		m.t.Skip("none")
	}
	return rapid.SampledFrom(m.ids).Draw(m.t, "job")
}

// fine: what is refused for where the job is has no effect, and is told by none.
func (m *eventsModel) fine(err error) {
	if !errors.Is(err, queue.ErrNoJob) && !errors.Is(err, queue.ErrActive) {
		require.NoError(m.t, err)
	}
}

func (m *eventsModel) enqueue() {
	jobs := make([]queue.Job, rapid.IntRange(1, 3).Draw(m.t, "jobs"))
	for i := range jobs {
		jobs[i] = queue.Job{Lane: m.lane(), Delay: m.delay()}
	}
	m.enqueued(jobs...)
}

func (m *eventsModel) unique() {
	u := queue.Unique{Key: "k", Conflict: rapid.SampledFrom([]queue.Conflict{queue.Keep, queue.Replace}).Draw(m.t, "conflict")}
	m.enqueued(queue.Job{Lane: m.lane(), Delay: m.delay(), Unique: u}, queue.Job{Lane: m.lane(), Delay: m.delay(), Unique: u})
}

func (m *eventsModel) enqueued(jobs ...queue.Job) {
	receipts, err := m.f.jobs.EnqueueMany(m.f.ctx, jobs)
	require.NoError(m.t, err)
	for _, r := range receipts {
		if !slices.Contains(m.ids, r.ID) {
			m.ids = append(m.ids, r.ID)
		}
	}
}

func (m *eventsModel) flow() {
	child := &queue.Flow{Job: queue.Job{Lane: m.lane()}, Policy: queue.Policy{Dead: rapid.SampledFrom([]queue.Effect{queue.Fail, queue.Ignore}).Draw(m.t, "dead")}}
	flow := &queue.Flow{Job: queue.Job{Lane: m.lane()}, Children: []*queue.Flow{child}}
	_, err := m.f.jobs.EnqueueFlow(m.f.ctx, flow)
	require.NoError(m.t, err)
	m.ids = append(m.ids, flow.ID, child.ID)
}

func (m *eventsModel) claim(who int) {
	leased, err := m.members[who].Read(m.f.ctx, rapid.IntRange(1, 4).Draw(m.t, "n"), 0)
	m.keep(who, leased, err)
}

// keep notes what a worker was given. One that is fenced asks what is left.
func (m *eventsModel) keep(who int, leased []tier.Leased, err error) {
	if errors.Is(err, tier.ErrFenced) {
		m.sync(who)
		return
	}
	require.NoError(m.t, err)
	for _, l := range leased {
		m.held[who][l.Entry] = l
	}
}

func (m *eventsModel) sync(who int) {
	held, err := m.members[who].Sync(m.f.ctx)
	require.NoError(m.t, err)
	maps.DeleteFunc(m.held[who], func(e codec.EntryID, _ tier.Leased) bool {
		return !slices.ContainsFunc(held, func(h tier.Held) bool { return h.Entry == e })
	})
}

// some are jobs that a worker has.
func (m *eventsModel) some(who int) (list []tier.Leased) {
	if len(m.held[who]) == 0 {
		m.t.Skip("none")
	}
	entries := slices.SortedFunc(maps.Keys(m.held[who]), codec.EntryID.Compare)
	for _, e := range entries[:rapid.IntRange(1, len(entries)).Draw(m.t, "n")] {
		list = append(list, m.held[who][e])
	}
	return list
}

func (m *eventsModel) ended(who int, list []tier.Leased, err error) {
	if errors.Is(err, tier.ErrFenced) {
		m.sync(who)
		return
	}
	require.NoError(m.t, err)
	for _, l := range list {
		delete(m.held[who], l.Entry)
	}
}

func (m *eventsModel) settle(who int) {
	list := m.some(who)
	_, err := m.members[who].Settle(m.f.ctx, entriesOf(list))
	m.ended(who, list, err)
}

func (m *eventsModel) commit(who int) {
	list := m.some(who)
	endings := make([]tier.Ending, len(list))
	for i, l := range list {
		endings[i] = rapid.SampledFrom([]tier.Ending{again(l, 0), again(l, time.Hour), dead(l, "no"), result(l, "1")}).Draw(m.t, "ending")
	}
	m.ended(who, list, m.members[who].Commit(m.f.ctx, endings))
}

func (m *eventsModel) release(who int) {
	list := m.some(who)
	returned := make([]tier.Returned, len(list))
	for i, l := range list {
		returned[i] = entryOf(l, l.Deliveries)[0]
	}
	m.ended(who, list, m.members[who].Release(m.f.ctx, returned, 0))
}

// takeOver lets a worker that has just come take over what there is.
func (m *eventsModel) takeOver(who int) {
	for _, lane := range []string{"a", "b"} {
		if m.f.text("EXISTS", m.f.queue.LaneKey(lane)) == "1" {
			m.f.age(lane)
		}
	}
	m.join()
	m.members[who], m.held[who] = m.members[2], m.held[2]
	m.members, m.held = m.members[:2], m.held[:2]
	for taken := (tier.Taken{}); !taken.Done; {
		var err error
		taken, err = m.members[who].TakeOver(m.f.ctx, 100, 100)
		m.keep(who, taken.Leased, err)
	}
}

// compare folds all that was told and looks at each job.
func (m *eventsModel) compare() {
	for _, e := range m.f.told(m.f.messages(m.at)) {
		m.fold.apply(m.t, &e)
	}
	m.skip()
	there := 0
	for _, id := range m.ids {
		info, err := m.f.jobs.Get(m.f.ctx, id)
		want, known := m.fold[id]
		if errors.Is(err, queue.ErrNoJob) {
			require.False(m.t, known, "%s is done, and told to be %s", id, want.state)
			continue
		}
		require.NoError(m.t, err)
		there++
		require.Equal(m.t, folded{info.State, info.Lane, info.Worker}, want, "%s", id)
	}
	require.Len(m.t, m.fold, there)
}
