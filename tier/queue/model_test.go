package queue_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// model does the same to a queue and to its twin.
type model struct {
	t     *rapid.T
	f     *fixture // through the proxy
	twin  *twin
	fault *fault
	made  int
	dead  []string // workers that nobody will hear of
	now   int64    // the server's clock, when the last step was compared
	steps int
	lanes int // of modelLanes that there are
}

var modelLanes = []string{"a", "b", "c"}

// modelSteps is how many steps a run has.
const modelSteps = 50

// TestModel (B16, B18, B22, B24, B25, B26, B74, B114, B124): everything that can be done to a queue, in any order, with requests and
// replies lost at any script, by members that are frozen, retired or dead at any point, whose clocks run ahead of the
// server's, or behind it, and ids of any time: after each step the queue holds what a dumb twin says, and each answer is
// the twin's; after each run the audit finds nothing, the queue can be emptied, and nothing is left of it.
func TestModel(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
			steps := 0
			fault := newFault(proxy)
			rapid.Check(t, func(t *rapid.T) {
				m := &model{t: t, f: f, fault: fault, twin: newTwin(modelLanes...), lanes: rapid.SampledFrom([]int{1, len(modelLanes)}).Draw(t, "lanes")}
				f.purge(t)
				f.jobs = f.newClient(queue.Config{}) // the server has lost what it knew of the calls of the one before
				m.joins()
				for m.steps < modelSteps {
					t.Repeat(m.actions())
				}
				m.end()
				steps += m.steps
			})
			require.GreaterOrEqual(t, steps, 100*modelSteps)
			require.Greater(t, proxy.Commands()["EXEC"], 20, "the short way is taken, too")
			t.Logf("%d steps, %d faults, %d transactions", steps, proxy.Dropped(), proxy.Commands()["EXEC"])
		})
	}
}

// actions are what is done to the queue, one a step. They are drawn by a hash: a draw prefers the first ones.
func (m *model) actions() map[string]func(*rapid.T) {
	list := []func(){
		m.enqueue, m.enqueue, m.pass, m.claim, m.claim, m.claim, m.endSome, m.endSome, m.renew, m.release, m.due, m.takeOver, m.takeOver, m.lapse,
		m.syncs, m.joins, m.leave, m.retire, m.jump, m.remove, m.cancel, m.move, m.retry, m.drain, m.pause, m.terms, m.terms,
	}
	if m.lanes == 1 {
		list = append(list, m.enqueue, m.enqueue, m.claim, m.claim, m.claim, m.endSome, m.endSome, m.endSome)
	}
	unlessOver := func(do func()) func(*rapid.T) {
		return func(t *rapid.T) {
			if m.t = t; m.steps < modelSteps {
				do()
			}
		}
	}
	return map[string]func(*rapid.T){
		"":   unlessOver(func() { m.steps++; m.check() }),
		"do": unlessOver(func() { list[rapid.Uint32().Draw(m.t, "action")*2654435761>>8%uint32(len(list))]() }),
	}
}

func (m *model) aLane() string { return rapid.SampledFrom(modelLanes[:m.lanes]).Draw(m.t, "lane") }

func (m *model) aJob(states ...queue.State) *twinTask {
	list := m.twin.inState(states...)
	if len(list) == 0 {
		m.t.Skip("none")
	}
	return rapid.SampledFrom(list).Draw(m.t, "job")
}

// holding is what the server holds, as far as a twin knows of such a thing.
type seen struct {
	jobs   map[codec.ID]twinTask
	ready  map[string][]codec.ID
	unique map[string]twinKey
	looks  map[string]int64
}

// look reads the keys of the queue, past the proxy, at one time.
func (m *model) look() (s seen, now int64) {
	q, b := m.f.queue, m.f.raw().B()
	cmds := rueidis.Commands{
		b.Time().Build(), b.Hgetall().Key(q.JobsKey()).Build(), b.Hgetall().Key(q.BodiesKey()).Build(), b.Hgetall().Key(q.UniqueKey()).Build(),
		b.Hgetall().Key(q.CancelledKey()).Build(), b.Zrange().Key(q.LeasedKey()).Min("0").Max("-1").Withscores().Build(),
	}
	for _, lane := range modelLanes {
		key := q.LaneKey(lane)
		cmds = append(cmds, b.Xrange().Key(key).Start("-").End("+").Build(), b.Xpending().Key(key).Group("w").Start("-").End("+").Count(1000).Build())
	}
	replies := m.f.raw().DoMulti(m.f.ctx, cmds...)
	clock, err := replies[0].AsIntSlice()
	require.NoError(m.t, err)
	now = clock[0]*1000 + clock[1]/1000
	var maps [4]map[string]string
	for i := range maps {
		maps[i], err = replies[i+1].AsStrMap()
		require.NoError(m.t, err)
	}
	s = seen{jobs: map[codec.ID]twinTask{}, ready: map[string][]codec.ID{}, unique: map[string]twinKey{}, looks: map[string]int64{}}
	leased, err := replies[5].AsZScores()
	require.NoError(m.t, err)
	for _, l := range leased {
		s.looks[l.Member] = int64(l.Score)
	}
	for i, lane := range modelLanes {
		m.lookInto(&s, lane, replies[6+2*i], replies[7+2*i])
	}
	for id, row := range maps[0] {
		words := strings.Split(row, " ")
		if len(words) == 2 {
			require.Equal(m.t, words[1], s.jobs[m.id(id)].lane)
			continue
		}
		s.jobs[m.id(id)] = m.outside(id, words, maps[1][id])
	}
	require.Len(m.t, maps[0], len(s.jobs), "rows and jobs")
	for key, row := range maps[2] {
		words := strings.Split(row, " ")
		id := m.id(words[0])
		if _, there := s.jobs[id]; words[1] == "p" && words[2] > strconv.FormatInt(now, 10) || words[1] != "p" && there {
			s.unique[key] = twinKey{id, words[1]}
		} else {
			require.Equal(m.t, "p", words[1], "%s is kept for a job that is no more: %s", key, row)
		}
	}
	for id, reason := range maps[3] {
		j := s.jobs[m.id(id)]
		j.cancelled = reason
		s.jobs[m.id(id)] = j
	}
	return s, now
}

// lookInto reads a lane.
func (m *model) lookInto(s *seen, lane string, log, pending rueidis.RedisResult) {
	entries, err := log.AsXRangeSlices()
	require.NoError(m.t, err)
	rows := map[string][]rueidis.RedisMessage{}
	if list, err := pending.ToArray(); err == nil { // else there is no lane
		for _, r := range list {
			row, err := r.ToArray()
			require.NoError(m.t, err)
			id, _ := row[0].ToString()
			rows[id] = row
		}
	}
	for _, e := range entries {
		fields := map[string]string{}
		for _, f := range e.FieldValues {
			fields[f.Field] = f.Value
		}
		j := twinTask{id: m.id(fields["j"]), lane: lane, state: queue.Ready, data: m.dataOf(fields["m"]), unique: fields["u"], keep: fields["o"] != ""}
		j.attempts, _ = strconv.Atoi(fields["a"])
		if row := rows[e.ID]; row != nil {
			j.state = queue.Active
			j.owner, _ = row[1].ToString()
			idle, _ := row[2].AsInt64()
			n, _ := row[3].AsInt64()
			j.deliveries, j.lapsed = int(n), idle >= lease.Milliseconds()
		} else {
			s.ready[lane] = append(s.ready[lane], j.id)
		}
		s.jobs[j.id] = j
	}
}

func (m *model) outside(id string, row []string, body string) twinTask {
	at, err := strconv.ParseInt(row[1], 10, 64)
	require.NoError(m.t, err)
	attempts, err := strconv.Atoi(row[2])
	require.NoError(m.t, err)
	held := bodyOf(m.t, body)
	state := map[string]queue.State{"s": queue.Scheduled, "r": queue.Retry, "d": queue.Dead}[row[0]]
	return twinTask{
		id: m.id(id), lane: row[3], state: state, attempts: attempts, at: at,
		data: m.dataOf(held[0]), keep: held[1] != "", unique: held[2], reason: held[4],
	}
}

func (m *model) id(text string) codec.ID {
	id, err := codec.Parse(text)
	require.NoError(m.t, err)
	return id
}

func (m *model) dataOf(message string) string {
	var msg codec.Message
	_, err := codec.DecodeMessage([]byte(message), &msg)
	require.NoError(m.t, err)
	return string(msg.Data)
}

// check compares all that there is. When jobs are due is learnt here, and has to lie inside the step.
func (m *model) check() {
	s, now := m.look()
	w := m.twin
	for id, j := range w.jobs {
		got, there := s.jobs[id]
		require.True(m.t, there, "%s %s is no more", j.state, id)
		if j.at < 0 {
			delay := -1 - j.at
			require.GreaterOrEqual(m.t, got.at, m.now+delay)
			require.LessOrEqual(m.t, got.at, now+delay)
			j.at = got.at
		}
		require.Equal(m.t, *j, got, "%s", id)
	}
	require.Len(m.t, s.jobs, len(w.jobs))
	for name, lane := range w.lanes {
		var ids []codec.ID
		for _, j := range lane.ready {
			ids = append(ids, j.id)
		}
		require.Equal(m.t, ids, s.ready[name], "ready in %s", name)
		if active := w.active(name); len(active) > 0 {
			require.Contains(m.t, s.looks, name)
			require.LessOrEqual(m.t, s.looks[name], now+lease.Milliseconds(), "nobody looks at %s in time", name)
		}
	}
	require.Equal(m.t, w.unique, s.unique)
	m.now = now
}

// end empties the queue: every job that is left can be done.
func (m *model) end() {
	m.fault.arm(noFault, 0)
	f, w := m.f, m.twin
	require.NoError(m.t, queue.Check(f.ctx, f.client, string(f.queue)))
	require.NoError(m.t, f.jobs.Resume(f.ctx))
	w.paused = false
	for _, name := range modelLanes {
		require.NoError(m.t, f.jobs.ResumeLane(f.ctx, name))
		_, err := f.jobs.SetLane(f.ctx, name, 1, -1)
		require.NoError(m.t, err)
		w.lanes[name].paused, w.lanes[name].ceiling = false, 0
	}
	require.NoError(m.t, f.jobs.SetCeiling(f.ctx, 0))
	for id, want := range w.results {
		got, err := f.jobs.Result(f.ctx, id)
		require.NoError(m.t, err)
		require.Equal(m.t, want, got)
	}
	for _, j := range w.jobs {
		if _, kept := w.results[j.id]; !kept {
			_, err := f.jobs.Result(f.ctx, j.id)
			require.ErrorIs(m.t, err, queue.ErrPending)
		}
	}
	for _, j := range w.inState(queue.Dead) {
		retried, err := f.jobs.Retry(f.ctx, j.id)
		require.NoError(m.t, err)
		require.Len(m.t, retried, 1)
	}
	for _, j := range w.inState(queue.Scheduled, queue.Retry) {
		require.NoError(m.t, f.jobs.Remove(f.ctx, j.id))
		w.removed(j)
	}
	last, err := f.workers.Join(f.ctx, "w")
	require.NoError(m.t, err)
	m.lapseOf(func(*twinTask) bool { return true })
	done := map[codec.ID]bool{}
	for len(done) < len(w.jobs) {
		taken, err := last.TakeOver(f.ctx, 100, 100)
		require.NoError(m.t, err)
		leased, err := last.Read(f.ctx, 100, 0)
		require.NoError(m.t, err)
		leased = append(leased, taken.Leased...)
		require.True(m.t, len(leased) > 0 || !taken.Done, "%d jobs are left, which nobody is given", len(w.jobs)-len(done))
		for _, l := range leased {
			require.Contains(m.t, w.jobs, idOf(l))
			require.False(m.t, done[idOf(l)], "twice")
			done[idOf(l)] = true
		}
		n, err := last.Settle(f.ctx, entriesOf(leased))
		require.NoError(m.t, err)
		require.Equal(m.t, len(leased), n)
	}
	require.NoError(m.t, queue.Check(f.ctx, f.client, string(f.queue)))
	m.nothingIsLeft()
}

// nothingIsLeft but what belongs to the queue, and results.
func (m *model) nothingIsLeft() {
	q := m.f.queue
	all, err := m.f.client.KeysBelow(m.f.ctx, strings.TrimSuffix(q.QueueKey(), ":queue"))
	require.NoError(m.t, err)
	for _, key := range all {
		queues := []string{q.QueueKey(), q.WorkersKey(), q.WakeKey(), q.UniqueKey(), q.RingKey(), q.LeasedKey()}
		short := strings.TrimPrefix(key, strings.TrimSuffix(q.QueueKey(), "queue"))
		require.True(m.t, slices.Contains(queues, key) || strings.HasPrefix(short, "pid:") || strings.HasPrefix(short, "result:"), "%s is left", fmt.Sprint(short))
	}
}
