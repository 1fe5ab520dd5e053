package queue_test

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// endSome ends jobs that a worker holds, in one call.
func (m *model) endSome() {
	w := m.aWorker()
	jobs := m.some(w)
	endings := make([]tier.Ending, len(jobs))
	settles := rapid.Bool().Draw(m.t, "settles")
	for i, j := range jobs {
		endings[i] = tier.Ending{Entry: j.id.HostEntry(), Deliveries: j.attempts + j.deliveries}
		if !settles {
			m.drawEnd(j, &endings[i])
		}
	}
	settled := 0
	again := 0
	dies, err := m.attempt(w, func() (err error) {
		again++
		if settles {
			settled, err = w.Settle(m.f.ctx, append(entriesOfTasks(jobs), codec.EntryID{Ms: 1}))
			return err
		}
		return w.Commit(m.f.ctx, endings)
	})
	if w.fenced {
		require.True(m.t, dies || err == tier.ErrFenced)
		return
	}
	require.NoError(m.t, err)
	if settles && again == 1 && !dies {
		require.Equal(m.t, len(jobs), settled)
	}
	m.learnEnded(w, jobs, endings, settles, dies)
}

// drawEnd draws how a job ends.
func (m *model) drawEnd(j *twinTask, e *tier.Ending) {
	delay := rapid.SampledFrom([]time.Duration{0, 0, far}).Draw(m.t, "delay")
	switch rapid.SampledFrom([]string{"done", "fails", "snoozes", "dies"}).Draw(m.t, "end") {
	case "done":
		if j.keep {
			e.Outputs = []tier.Output{tier.Outcome("result of " + j.data)}
		}
	case "fails":
		e.Open = []tier.Open{{Attempt: e.Deliveries, Delay: delay, Reason: "failed"}}
	case "snoozes":
		e.Open = []tier.Open{{Attempt: max(0, e.Deliveries-1), Delay: delay}}
	case "dies":
		e.Dead = []tier.Letter{{Index: -1, Reason: "boom", Attempts: e.Deliveries}}
	}
}

// learnEnded: a worker that died may have ended none, or all that one script ends.
func (m *model) learnEnded(w *twinWorker, jobs []*twinTask, endings []tier.Ending, settles, dies bool) {
	s, _ := m.look()
	ended := map[bool][]bool{} // of those that settle.lua ends, and of those that commit.lua does
	for i, j := range jobs {
		plain := settles && j.unique == "" && !j.keep
		is := s.jobs[j.id].state != queue.Active
		ended[plain] = append(ended[plain], is)
		if is || !dies {
			m.twin.ended(j, &endings[i])
			delete(w.holds, endings[i].Entry)
		}
	}
	for _, list := range ended {
		require.Len(m.t, slices.Compact(list), 1, "half of it")
	}
}

// lapse lets the leases of a worker end, or of all of them.
func (m *model) lapse() {
	active := m.twin.inState(queue.Active)
	if len(active) == 0 {
		m.t.Skip("nothing is active")
	}
	owner := rapid.SampledFrom(active).Draw(m.t, "whose").owner
	all := rapid.Bool().Draw(m.t, "all")
	m.lapseOf(func(j *twinTask) bool { return all || j.owner == owner })
}

func (m *model) lapseOf(is func(*twinTask) bool) {
	f := m.f
	for _, j := range m.twin.inState(queue.Active) {
		key := f.queue.LaneKey(j.lane)
		if is(j) {
			row := m.text("HGET", f.queue.JobsKey(), j.id.String())
			entry := row[:len(row)-len(j.lane)-1]
			f.do("XCLAIM", key, "w", j.owner, "0", entry, "IDLE", strconv.FormatInt(lease.Milliseconds(), 10), "RETRYCOUNT", strconv.Itoa(j.deliveries), "JUSTID")
			j.lapsed = true
		}
		if j.lapsed {
			f.do("ZADD", f.queue.LeasedKey(), "XX", "1", j.lane)
			m.twin.lanes[j.lane].look = true
		}
	}
}

func (m *model) text(cmd string, args ...string) string { return m.f.text(cmd, args...) }

// jump lets the clock of a worker run ahead.
func (m *model) jump() {
	m.aWorker().Jump(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 1000 * time.Hour}).Draw(m.t, "by"))
}

// leave lets a worker leave, unless it holds jobs.
func (m *model) leave() {
	w := m.aWorker()
	dies, err := m.attempt(w, func() error { return w.Leave(m.f.ctx) })
	require.NoError(m.t, err)
	if !dies && len(w.holds) == 0 {
		m.without(w)
	}
}

// retire lets a worker, dead or frozen, be silent for so long that another one retires it.
func (m *model) retire() {
	by := m.aWorker()
	names := slices.Clone(m.dead)
	for _, w := range m.twin.workers {
		if w != by {
			names = append(names, w.Name())
		}
	}
	if len(names) == 0 {
		m.t.Skip("nobody")
	}
	name := rapid.SampledFrom(names).Draw(m.t, "name")
	m.lapseOf(func(j *twinTask) bool { return j.owner == name })
	if m.text("HEXISTS", m.f.queue.WorkersKey(), name) == "1" {
		m.f.do("HSET", m.f.queue.WorkersKey(), tier.BeatField(name), "1000")
	}
	_, err := m.repeated(func() error { return by.Retire(m.f.ctx) })
	require.NoError(m.t, err)
	require.Equal(m.t, "0", m.text("HEXISTS", m.f.queue.WorkersKey(), name))
	m.dead = slices.DeleteFunc(m.dead, func(other string) bool { return other == name })
	for _, w := range m.twin.workers {
		w.fenced = w.fenced || w.Name() == name
	}
}

func (m *model) remove() { m.removes("") }

func (m *model) cancel() { m.removes(fmt.Sprint("reason ", m.steps)) }

func (m *model) removes(reason string) {
	j := m.aJob(queue.Ready, queue.Active, queue.Scheduled, queue.Retry, queue.Dead)
	running := false
	again, err := m.repeated(func() (err error) {
		if reason == "" {
			return m.f.jobs.Remove(m.f.ctx, j.id)
		}
		running, err = m.f.jobs.Cancel(m.f.ctx, j.id, reason)
		return err
	})
	switch {
	case j.state == queue.Active && reason == "":
		require.ErrorIs(m.t, err, queue.ErrActive)
	case j.state == queue.Active:
		require.NoError(m.t, err)
		require.True(m.t, running)
		j.cancelled = reason
	default:
		require.True(m.t, err == nil || again, "%v", err)
		require.False(m.t, running)
		m.twin.removed(j)
		require.ErrorIs(m.t, m.f.jobs.Remove(m.f.ctx, j.id), queue.ErrNoJob)
		_, err := m.f.jobs.Result(m.f.ctx, j.id)
		require.ErrorIs(m.t, err, queue.ErrNoResult)
	}
}

func (m *model) move() {
	j, lane := m.aJob(queue.Ready, queue.Active, queue.Scheduled, queue.Retry, queue.Dead), m.aLane()
	_, err := m.repeated(func() error { return m.f.jobs.Move(m.f.ctx, j.id, lane) })
	if j.state == queue.Active && j.lane != lane {
		require.ErrorIs(m.t, err, queue.ErrActive)
		return
	}
	require.NoError(m.t, err)
	if j.state == queue.Ready && j.lane != lane {
		m.twin.leaves(j)
		j.lane = lane
		m.twin.ready(j)
	}
	j.lane = lane
}

func (m *model) retry() {
	j, other := m.aJob(queue.Dead), m.aJob(queue.Ready, queue.Active, queue.Scheduled, queue.Retry, queue.Dead)
	var retried []codec.ID
	again, err := m.repeated(func() (err error) {
		retried, err = m.f.jobs.Retry(m.f.ctx, j.id, other.id)
		return err
	})
	require.NoError(m.t, err)
	want := []codec.ID{j.id}
	for _, task := range []*twinTask{j, other} {
		if task.state == queue.Dead {
			if task != j {
				want = append(want, task.id)
			}
			task.attempts = 0
			task.outside(queue.Retry, 0, task.reason)
			delete(m.twin.results, task.id)
		}
	}
	if !again {
		require.Equal(m.t, want, retried)
	}
}

// drain empties a lane, or all of them.
func (m *model) drain() {
	lanes := rapid.SampledFrom([][]string{{"a"}, {"b"}, {"c"}, modelLanes}).Draw(m.t, "lanes")
	n := 0
	again, err := m.repeated(func() (err error) {
		if len(lanes) > 1 {
			n, err = m.f.jobs.Drain(m.f.ctx)
			return err
		}
		n, err = m.f.jobs.DrainLane(m.f.ctx, lanes[0])
		return err
	})
	require.NoError(m.t, err)
	for _, lane := range lanes {
		for _, j := range slices.Clone(m.twin.lanes[lane].ready) {
			m.twin.removed(j)
			n--
		}
	}
	if !again {
		require.Zero(m.t, n)
	}
}

func (m *model) pause() {
	if !m.twin.paused && rapid.IntRange(0, 3).Draw(m.t, "pause") != 0 {
		m.t.Skip("it goes on")
	}
	m.twin.paused = !m.twin.paused
	_, err := m.repeated(func() error {
		if m.twin.paused {
			return m.f.jobs.Pause(m.f.ctx)
		}
		return m.f.jobs.Resume(m.f.ctx)
	})
	require.NoError(m.t, err)
}

// terms changes those of a lane, or of the queue.
func (m *model) terms() {
	name := m.aLane()
	lane := m.twin.lanes[name]
	what := rapid.SampledFrom([]string{"weight", "ceiling", "pause", "ceiling of all"}).Draw(m.t, "what")
	weight := rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(m.t, "weight")
	ceiling := rapid.IntRange(0, 3).Draw(m.t, "ceiling")
	_, err := m.repeated(func() (err error) {
		switch {
		case what == "ceiling of all":
			err = m.f.jobs.SetCeiling(m.f.ctx, 2*ceiling)
		case what == "weight":
			_, err = m.f.jobs.SetLane(m.f.ctx, name, weight, 0)
		case what == "ceiling" && ceiling == 0:
			_, err = m.f.jobs.SetLane(m.f.ctx, name, 0, -1)
		case what == "ceiling":
			_, err = m.f.jobs.SetLane(m.f.ctx, name, 0, ceiling)
		case lane.paused:
			err = m.f.jobs.ResumeLane(m.f.ctx, name)
		default:
			err = m.f.jobs.PauseLane(m.f.ctx, name)
		}
		return err
	})
	require.NoError(m.t, err)
	switch what {
	case "ceiling":
		lane.ceiling = ceiling
	case "ceiling of all":
		m.twin.ceiling = 2 * ceiling
	case "pause":
		lane.paused = !lane.paused
	}
}
