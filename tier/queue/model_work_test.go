package queue_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func (m *model) joins() {
	if len(m.twin.workers) == 3 {
		m.t.Skip("enough")
	}
	var member *queue.Member
	_, err := m.repeated(func() (err error) {
		member, err = m.f.workers.Join(m.f.ctx, "w")
		return err
	})
	require.NoError(m.t, err)
	if rapid.SampledFrom([]bool{true, true, false}).Draw(m.t, "direct") {
		member.Direct(m.f.ctx)
	}
	m.twin.workers = append(m.twin.workers, &twinWorker{Member: member, holds: map[codec.EntryID]*twinTask{}})
}

func (m *model) aWorker() *twinWorker { return rapid.SampledFrom(m.twin.workers).Draw(m.t, "worker") }

// some are a few of the jobs that a worker knows to hold.
func (m *model) some(w *twinWorker) []*twinTask {
	list := slices.Collect(maps.Values(w.holds))
	if len(list) == 0 {
		m.t.Skip("it holds nothing")
	}
	slices.SortFunc(list, func(a, b *twinTask) int { return strings.Compare(a.id.String(), b.id.String()) })
	return rapid.SliceOfNDistinct(rapid.SampledFrom(list), 1, min(3, len(list)), rapid.ID[*twinTask]).Draw(m.t, "jobs")
}

func (m *model) claim() {
	w, n := m.aWorker(), rapid.IntRange(1, 4).Draw(m.t, "n")
	before := m.twin.rooms()
	m.perhaps()
	leased, err := w.Read(m.f.ctx, n, 0)
	m.fault.arm(noFault, 0)
	lost := tier.OutcomeUnknown(err)
	if w.fenced {
		require.True(m.t, lost || err == tier.ErrFenced, "%v", err)
		return
	}
	if !lost {
		require.NoError(m.t, err)
	}
	s, now := m.look()
	due := m.twin.due(now)
	promoted := m.promoted(&s, due, n)
	require.True(m.t, promoted == 0 || before == 0, "something could be claimed")
	got := m.learnClaimed(&s, w, n)
	if lost {
		m.afterLoss(w)
		return
	}
	require.ElementsMatch(m.t, got, idsOf(leased))
	for _, l := range leased {
		j := m.twin.jobs[idOf(l)]
		require.Equal(m.t, j.attempts+1, l.Deliveries)
		require.Equal(m.t, j.data, string(l.Records[0].Data))
	}
	if len(got) == 0 && !m.twin.paused {
		require.Zero(m.t, m.twin.rooms(), "there are jobs that nobody is given")
		require.Equal(m.t, min(n, len(due)), promoted)
	}
}

// learnClaimed finds what a worker was given: of each lane the first of the ready ones, and no more than it may hand out.
func (m *model) learnClaimed(s *seen, w *twinWorker, most int) (ids []codec.ID) {
	rooms := m.twin.rooms()
	if m.twin.paused {
		rooms = 0
	}
	for _, lane := range modelLanes {
		room := m.twin.room(lane)
		for _, j := range slices.Clone(m.twin.lanes[lane].ready) {
			if s.jobs[j.id].state != queue.Active {
				break // the check compares what is ready
			}
			require.Equal(m.t, w.Name(), s.jobs[j.id].owner)
			m.twin.claimed(j, w)
			ids = append(ids, j.id)
			room--
		}
		require.GreaterOrEqual(m.t, room, 0, "%s hands out too many", lane)
	}
	require.LessOrEqual(m.t, len(ids), min(most, rooms))
	return ids
}

// afterLoss is what a worker does whose call was not answered: it asks what it has, or is dead.
func (m *model) afterLoss(w *twinWorker) {
	if rapid.Bool().Draw(m.t, "dies") {
		m.dies(w)
		return
	}
	m.syncOf(w)
}

func (m *model) syncs() { m.syncOf(m.aWorker()) }

func (m *model) syncOf(w *twinWorker) {
	var held []tier.Held
	dies, err := m.attempt(w, func() (err error) {
		held, err = w.Sync(m.f.ctx)
		return err
	})
	require.NoError(m.t, err)
	if dies {
		return
	}
	w.fenced, w.holds = false, map[codec.EntryID]*twinTask{}
	var want []tier.Held
	for _, j := range m.twin.selected(func(j *twinTask) bool { return j.owner == w.Name() }) {
		w.holds[j.id.HostEntry()] = j
		want = append(want, tier.Held{Entry: j.id.HostEntry(), Deliveries: j.attempts + j.deliveries})
	}
	require.ElementsMatch(m.t, want, held)
}

// promoted finds which jobs have become ready, the first due first.
func (m *model) promoted(s *seen, due []*twinTask, most int) (n int) {
	for _, j := range due {
		if state := s.jobs[j.id].state; state != queue.Ready && state != queue.Active {
			break
		}
		m.twin.ready(j)
		n++
	}
	require.LessOrEqual(m.t, n, most)
	return n
}

func (m *model) due() {
	w, n := m.aWorker(), rapid.IntRange(1, 4).Draw(m.t, "n")
	calls := 0
	dies, err := m.attempt(w, func() error {
		calls++
		_, err := w.Due(m.f.ctx, n)
		return err
	})
	require.NoError(m.t, err)
	s, now := m.look()
	due := m.twin.due(now)
	promoted := m.promoted(&s, due, n*calls)
	if m.twin.paused {
		require.Zero(m.t, promoted)
	} else if !dies {
		require.GreaterOrEqual(m.t, promoted, min(n, len(due)))
	}
}

func (m *model) renew() {
	w := m.aWorker()
	jobs := m.some(w)
	var gone []codec.EntryID
	dies, err := m.attempt(w, func() (err error) {
		gone, err = w.Renew(m.f.ctx, entriesOfTasks(jobs))
		return err
	})
	if w.fenced {
		require.True(m.t, dies || err == tier.ErrFenced)
		return
	}
	require.NoError(m.t, err)
	require.Empty(m.t, gone)
	s, _ := m.look()
	told := map[codec.EntryID]string{}
	for _, j := range jobs {
		if j.cancelled != "" {
			told[j.id.HostEntry()] = j.cancelled
		}
		if !dies || !s.jobs[j.id].lapsed {
			j.lapsed = false
		}
	}
	if got := w.Cancelled(); !dies {
		require.Equal(m.t, len(told), len(got))
		for e, reason := range told {
			require.Equal(m.t, reason, got[e])
		}
	}
}

func (m *model) release() {
	w := m.aWorker()
	jobs := m.some(w)
	less := rapid.IntRange(0, 1).Draw(m.t, "attempts less")
	delay := rapid.SampledFrom([]time.Duration{0, lease}).Draw(m.t, "delay")
	var held []tier.Returned
	for _, j := range jobs {
		held = append(held, tier.Returned{Held: tier.Held{Entry: j.id.HostEntry(), Deliveries: j.attempts + j.deliveries - less}})
	}
	dies, err := m.attempt(w, func() error { return w.Release(m.f.ctx, held, delay) })
	if w.fenced {
		require.True(m.t, dies || err == tier.ErrFenced)
		return
	}
	require.NoError(m.t, err)
	if s, _ := m.look(); dies && !slices.ContainsFunc(jobs, func(j *twinTask) bool {
		return s.jobs[j.id].deliveries != j.deliveries || s.jobs[j.id].lapsed != j.lapsed
	}) {
		return // it was not done, or makes no difference
	}
	for _, j := range jobs {
		j.deliveries, j.lapsed = max(0, j.deliveries-less), delay == 0
		m.twin.lanes[j.lane].look = m.twin.lanes[j.lane].look || delay == 0
		delete(w.holds, j.id.HostEntry())
	}
}

// takeOver looks for jobs whose lease has ended, for a few calls.
func (m *model) takeOver() {
	w := m.aWorker()
	n, suspects := rapid.SampledFrom([]int{1, 2, 100}).Draw(m.t, "n"), rapid.SampledFrom([]int{0, 1, 100}).Draw(m.t, "suspects")
	if rapid.Bool().Draw(m.t, "after a while") {
		m.lapseOf(func(*twinTask) bool { return true })
	}
	if !w.within {
		w.Jump(time.Hour)
	}
	whole := !w.within
	if !whole { // what stands before the place where it goes on is not looked at now, and at its end the lane is put off
		m.looked()
	}
	for range rapid.IntRange(1, 9).Draw(m.t, "calls") {
		m.perhaps()
		taken, err := w.TakeOver(m.f.ctx, n, suspects)
		m.fault.arm(noFault, 0)
		lost := tier.OutcomeUnknown(err)
		if w.fenced || m.twin.paused {
			require.True(m.t, lost || err == nil || w.fenced && err == tier.ErrFenced, "%v", err)
			require.Empty(m.t, taken.Leased)
			return
		}
		if !lost {
			require.NoError(m.t, err)
		}
		got := m.learnTaken(w, n, suspects)
		if lost { // it may have put off lanes where suspects are left
			m.looked()
			m.afterLoss(w)
			return
		}
		require.ElementsMatch(m.t, got, idsOf(taken.Leased))
		for _, l := range taken.Leased {
			j := m.twin.jobs[idOf(l)]
			require.Equal(m.t, j.attempts+j.deliveries, l.Deliveries)
			require.Equal(m.t, j.data, string(l.Records[0].Data))
		}
		if w.within = !taken.Done; taken.Done {
			m.lookedThrough(whole, suspects)
			return
		}
	}
}

// lookedThrough: nothing is left that has lapsed, but for suspects.
func (m *model) lookedThrough(whole bool, suspects int) {
	for name, lane := range m.twin.lanes {
		for _, j := range m.twin.active(name) {
			require.False(m.t, whole && lane.look && j.lapsed && (suspects == 100 || j.deliveries < 2), "%s is not taken over", j.id)
		}
	}
	m.looked()
}

// looked: no lane is known to be due.
func (m *model) looked() {
	for _, lane := range m.twin.lanes {
		lane.look = false
	}
}

// learnTaken finds what a worker has taken over. Whoever lost it is fenced.
func (m *model) learnTaken(w *twinWorker, most, suspects int) (ids []codec.ID) {
	s, _ := m.look()
	for _, j := range m.twin.inState(queue.Active) {
		if s.jobs[j.id].deliveries == j.deliveries {
			continue
		}
		require.True(m.t, j.lapsed, "%s is taken from %s, whose lease has not ended", j.id, j.owner)
		if j.deliveries >= 2 {
			suspects--
		}
		for _, loser := range m.twin.workers {
			loser.fenced = loser.fenced || loser != w && loser.Name() == j.owner
		}
		j.deliveries, j.owner, j.lapsed = j.deliveries+1, w.Name(), false
		w.holds[j.id.HostEntry()] = j
		ids = append(ids, j.id)
	}
	require.LessOrEqual(m.t, len(ids), most)
	require.GreaterOrEqual(m.t, suspects, 0, "suspects are taken one by one")
	return ids
}
