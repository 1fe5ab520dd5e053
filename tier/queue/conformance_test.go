package queue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// scenarios are those of the original EchoMQ, by number: each with the same verdict, or another witness where a job is a leased
// entry here and a row there.
var scenarios = []struct {
	name string
	run  func(f *fixture)
}{
	{"2 mint, the witness is the entry", func(f *fixture) {
		id := f.enqueue("default")[0]
		require.Equal(f.t, queue.Brand, id.Brand())
		info := f.get(id)
		require.Equal(f.t, queue.Ready, info.State)
		require.Zero(f.t, info.Attempts)
		require.Equal(f.t, []byte("0"), info.Message.Data)
	}},
	{"3 duplicate", func(f *fixture) {
		id := f.enqueue("default")[0]
		_, err := f.jobs.Enqueue(f.ctx, queue.Job{ID: id, Message: codec.Message{Data: []byte("other")}})
		require.ErrorIs(f.t, err, queue.ErrDuplicate)
		require.Equal(f.t, []byte("0"), f.get(id).Message.Data)
		f.counts(queue.Counts{Ready: 1})
	}},
	{"4 kind", func(f *fixture) {
		id, err := codec.NewID("ORD", 1)
		require.NoError(f.t, err)
		_, err = f.jobs.Enqueue(f.ctx, queue.Job{ID: id})
		var kind *queue.KindError
		require.ErrorAs(f.t, err, &kind)
		require.Equal(f.t, "0", f.text("EXISTS", f.queue.JobsKey()))
	}},
	{"5 order", func(f *fixture) {
		ids := f.enqueue("default", "default", "default")
		require.Equal(f.t, ids, idsOf(f.read(f.join(f.workers), 3)))
	}},
	{"6 claim, the witness is the pending list", func(f *fixture) {
		id := f.enqueue("default")[0]
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		require.Equal(f.t, id, idOf(l))
		require.Equal(f.t, 1, l.Deliveries)
		info := f.get(id)
		require.Equal(f.t, queue.Active, info.State)
		require.Equal(f.t, m.Name(), info.Worker)
		require.Equal(f.t, 1, info.Attempts)
	}},
	{"8 complete", func(f *fixture) {
		ids := f.enqueue("default", "default")
		m := f.join(f.workers)
		f.settle(m, f.read(m, 2)...)
		f.gone(ids...)
		f.counts(queue.Counts{})
		require.Equal(f.t, "0", f.text("EXISTS", f.queue.LaneKey("default")), "an empty lane is gone")
	}},
	{"9 retry", func(f *fixture) {
		id := f.enqueue("default")[0]
		m := f.join(f.workers)
		e := again(f.read(m, 1)[0], 500*time.Millisecond)
		f.commit(m, e)
		info := f.get(id)
		require.Equal(f.t, queue.Retry, info.State)
		require.Equal(f.t, 1, info.Attempts)
		f.none(m)
		leased, err := m.Read(f.ctx, 1, 10*time.Second)
		require.NoError(f.t, err)
		require.Len(f.t, leased, 1)
		require.Equal(f.t, 2, leased[0].Deliveries)
		f.settle(m, leased...)
		f.gone(id)
	}},
	{"10 dead", func(f *fixture) {
		id := f.enqueue("default")[0]
		m := f.join(f.workers)
		f.commit(m, dead(f.read(m, 1)[0], "boom"))
		info := f.get(id)
		require.Equal(f.t, queue.Dead, info.State)
		require.Equal(f.t, "boom", info.Reason)
		require.Equal(f.t, id.String(), f.member(f.queue.BuriedKey()))
		f.counts(queue.Counts{Dead: 1})
	}},
	{"11 reap, which is claiming at once", func(f *fixture) {
		f.enqueue("default")
		m, other := f.join(f.workers), f.join(f.workers)
		f.read(m, 1)
		f.age("default")
		taken, _ := f.takeOver(other, 10, 0)
		require.Len(f.t, taken, 1)
		require.Equal(f.t, 2, taken[0].Deliveries)
		f.settle(other, taken...)
	}},
	{"12 rotate", func(f *fixture) {
		f.enqueue("a", "a", "b", "b")
		m := f.join(f.workers)
		require.Equal(f.t, "a b a b", f.lanes(m, 4))
	}},
	{"13 pause of a lane", func(f *fixture) {
		f.enqueue("a", "a", "b", "b")
		m := f.join(f.workers)
		require.NoError(f.t, f.jobs.PauseLane(f.ctx, "a"))
		require.Equal(f.t, "b b", f.lanes(m, 2))
		f.none(m)
		f.enqueue("a")
		f.none(m)
		require.Equal(f.t, "3", f.text("XLEN", f.queue.LaneKey("a")))
		require.NoError(f.t, f.jobs.ResumeLane(f.ctx, "a"))
		require.Equal(f.t, "a a a", f.lanes(m, 3))
	}},
	{"14 limit", func(f *fixture) {
		f.enqueue("default", "default", "default")
		_, err := f.jobs.SetLane(f.ctx, "default", 0, 1)
		require.NoError(f.t, err)
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		f.none(m)
		f.settle(m, l)
		l = f.read(m, 1)[0]
		f.none(m)
		f.commit(m, again(l, time.Hour))
		f.settle(m, f.read(m, 1)...)
	}},
	{"15 schedule", func(f *fixture) {
		id, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: 500 * time.Millisecond})
		require.NoError(f.t, err)
		require.Equal(f.t, queue.Scheduled, f.get(id).State)
		m := f.join(f.workers)
		f.none(m)
		leased, err := m.Read(f.ctx, 1, 10*time.Second)
		require.NoError(f.t, err)
		require.Len(f.t, leased, 1)
		require.Equal(f.t, 1, leased[0].Deliveries)
	}},
	{"19 counts", func(f *fixture) {
		f.enqueue("a", "b", "b", "c")
		_, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Hour})
		require.NoError(f.t, err)
		f.read(f.join(f.workers), 1)
		f.counts(queue.Counts{Ready: 3, Active: 1, Scheduled: 1})
	}},
	{"23 rate: concurrency 1", func(f *fixture) {
		require.NoError(f.t, f.jobs.SetCeiling(f.ctx, 1))
		f.enqueue("a", "b")
		m := f.join(f.workers)
		f.read(m, 1)
		f.none(m)
	}},
	{"25 queue_pause", func(f *fixture) {
		id := f.enqueue("default")[0]
		m := f.join(f.workers)
		require.NoError(f.t, f.jobs.Pause(f.ctx))
		f.none(m)
		taken, err := m.TakeOver(f.ctx, 1, 1)
		require.NoError(f.t, err)
		require.True(f.t, taken.Paused)
		f.counts(queue.Counts{Ready: 1})
		require.NoError(f.t, f.jobs.Resume(f.ctx))
		require.Equal(f.t, id, idOf(f.read(m, 1)[0]))
	}},
	{"26 drain", func(f *fixture) {
		ids := f.enqueue("a", "a", "b", "c")
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		n, err := f.jobs.Drain(f.ctx)
		require.NoError(f.t, err)
		require.Equal(f.t, 3, n)
		require.Equal(f.t, queue.Active, f.get(idOf(l)).State)
		f.gone(ids[1:]...)
		f.counts(queue.Counts{Active: 1})
	}},
	{"27 obliterate", func(f *fixture) {
		f.enqueue("a", "b")
		_, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Hour})
		require.NoError(f.t, err)
		_, err = f.jobs.Obliterate(f.ctx, string(f.queue))
		require.ErrorIs(f.t, err, queue.ErrNotPaused)
		f.counts(queue.Counts{Ready: 2, Scheduled: 1})
		require.NoError(f.t, f.jobs.Pause(f.ctx))
		_, err = f.jobs.Obliterate(f.ctx, "another")
		require.ErrorIs(f.t, err, queue.ErrBadCall)
		n, err := f.jobs.Obliterate(f.ctx, string(f.queue))
		require.NoError(f.t, err)
		require.Greater(f.t, n, 5)
		f.counts(queue.Counts{})
		keys, err := f.client.KeysBelow(f.ctx, strings.TrimSuffix(f.queue.QueueKey(), ":queue"))
		require.NoError(f.t, err)
		require.Empty(f.t, keys)
	}},
	{"31 remove_job", func(f *fixture) {
		u := queue.Unique{Key: "k", Until: queue.UntilTime, For: time.Hour, Conflict: queue.Refuse}
		id := f.unique(u, "1", 0).ID
		require.NoError(f.t, f.jobs.Remove(f.ctx, id))
		f.gone(id)
		id = f.unique(u, "2", time.Hour).ID // B128: its key is free
		require.NoError(f.t, f.jobs.Remove(f.ctx, id))
		id = f.unique(u, "3", 0).ID
		l := f.read(f.join(f.workers), 1)[0]
		require.ErrorIs(f.t, f.jobs.Remove(f.ctx, idOf(l)), queue.ErrActive)
		require.Equal(f.t, queue.Active, f.get(id).State)
		require.ErrorIs(f.t, f.jobs.Remove(f.ctx, f.minted()), queue.ErrNoJob)
	}},
	{"32 reprocess_job", func(f *fixture) {
		ids := f.enqueue("a", "b")
		m := f.join(f.workers)
		f.commit(m, dead(f.read(m, 1)[0], "boom"))
		for info, err := range f.jobs.List(f.ctx, queue.Selection{States: []queue.State{queue.Dead}}) {
			require.NoError(f.t, err)
			require.Equal(f.t, ids[0], info.ID)
			require.Equal(f.t, "boom", info.Reason)
		}
		retried, err := f.jobs.Retry(f.ctx, ids...)
		require.NoError(f.t, err)
		require.Equal(f.t, ids[:1], retried, "the other one is not dead")
		leased := f.read(m, 1)
		leased = append(leased, f.read(m, 1)...)
		require.ElementsMatch(f.t, ids, idsOf(leased))
		require.Equal(f.t, 1, leased[0].Deliveries)
		require.Equal(f.t, 1, leased[1].Deliveries)
	}},
	{"33 lock_extend", func(f *fixture) {
		f.enqueue("default")
		m, other := f.join(f.workers), f.join(f.workers)
		l := f.read(m, 1)[0]
		f.age("default")
		gone, err := m.Renew(f.ctx, entriesOf([]tier.Leased{l}))
		require.NoError(f.t, err)
		require.Empty(f.t, gone)
		taken, _ := f.takeOver(other, 10, 0)
		require.Empty(f.t, taken)
		f.age("default")
		taken, _ = f.takeOver(other, 10, 0)
		require.Len(f.t, taken, 1)
		_, err = m.Renew(f.ctx, entriesOf([]tier.Leased{l}))
		require.ErrorIs(f.t, err, tier.ErrFenced, "a stale holder")
	}},
	{"34 stalled, 42 stalled_group", func(f *fixture) {
		f.enqueue("a", "b")
		first, second, third := f.join(f.workers), f.join(f.workers), f.join(f.workers)
		id := idOf(f.read(first, 1)[0])
		f.age("a")
		taken, _ := f.takeOver(second, 1, 1)
		require.Equal(f.t, 2, taken[0].Deliveries)
		require.Equal(f.t, "a", f.get(id).Lane)
		f.age("a")
		taken, _ = f.takeOver(third, 1, 1)
		require.Equal(f.t, 3, taken[0].Deliveries) // whether that is too often, package consumer says
		f.commit(third, dead(taken[0], "stalled"))
		require.Equal(f.t, "stalled", f.get(id).Reason)
	}},
	{"39 rate_consult", func(f *fixture) {
		require.NoError(f.t, f.jobs.SetCeiling(f.ctx, 1))
		f.enqueue("default", "default")
		m, other := f.join(f.workers), f.join(f.workers)
		leased := f.read(m, 1)
		f.none(other)
		f.counts(queue.Counts{Ready: 1, Active: 1})
		f.settle(m, leased...)
		f.settle(other, f.read(other, 1)...)
	}},
	{"40 dedup_release", func(f *fixture) {
		u := queue.Unique{Key: "k", Conflict: queue.Refuse}
		id := f.unique(u, "1", time.Hour).ID
		f.do("HSET", f.queue.UniqueKey(), "orphan", f.minted().String()+" d 0")
		require.NoError(f.t, f.jobs.Remove(f.ctx, id))
		require.Equal(f.t, "0", f.text("HEXISTS", f.queue.UniqueKey(), "k"))
		require.Equal(f.t, "1", f.text("HEXISTS", f.queue.UniqueKey(), "orphan"))
		require.NoError(f.t, f.unique(queue.Unique{Key: "orphan", Conflict: queue.Refuse}, "2", 0).Err, "nobody has it")
	}},
	{"41 extend_locks_batch", func(f *fixture) {
		f.enqueue("a", "b")
		m := f.join(f.workers)
		leased := f.read(m, 2)
		f.settle(m, leased[1])
		gone, err := m.Renew(f.ctx, append(entriesOf(leased), f.minted().HostEntry()))
		require.NoError(f.t, err)
		require.Len(f.t, gone, 2)
		require.Equal(f.t, leased[1].Entry, gone[0])
	}},
	{"44 reassign", func(f *fixture) {
		id := f.enqueue("a")[0]
		require.NoError(f.t, f.jobs.Move(f.ctx, id, "b"))
		require.NoError(f.t, f.jobs.Move(f.ctx, id, "b"))
		require.Equal(f.t, "b", f.get(id).Lane)
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		require.Equal(f.t, id, idOf(l))
		require.ErrorIs(f.t, f.jobs.Move(f.ctx, id, "c"), queue.ErrActive)
		f.commit(m, again(l, time.Hour))
		require.NoError(f.t, f.jobs.Move(f.ctx, id, "c"))
		require.Equal(f.t, "c", f.get(id).Lane)
	}},
	{"45 lane_drain", func(f *fixture) {
		f.enqueue("a", "a", "a", "b")
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		n, err := f.jobs.DrainLane(f.ctx, "a")
		require.NoError(f.t, err)
		require.Equal(f.t, 2, n)
		n, err = f.jobs.DrainLane(f.ctx, "unknown")
		require.NoError(f.t, err)
		require.Zero(f.t, n)
		f.settle(m, l)
		require.Equal(f.t, "b", f.lanes(m, 1))
	}},
	{"60 weighted_proportion", func(f *fixture) {
		f.enqueue(append(slices.Repeat([]string{"heavy"}, 60), slices.Repeat([]string{"light"}, 60)...)...)
		_, err := f.jobs.SetLane(f.ctx, "heavy", 3, 0)
		require.NoError(f.t, err)
		m := f.join(f.workers)
		require.Equal(f.t, 10, strings.Count(f.lanes(m, 40), "light"))
		batch := ""
		for _, l := range f.read(m, 40) {
			batch += f.get(idOf(l)).Lane + " "
		}
		require.Equal(f.t, 10, strings.Count(batch, "light"), "many at once keep the proportion")
		require.Equal(f.t, 5, strings.Count(batch[:len(batch)/2], "light"), "and the order")
	}},
	{"61 starvation_drill", func(f *fixture) {
		f.enqueue(append(slices.Repeat([]string{"heavy"}, 200), slices.Repeat([]string{"x", "y"}, 6)...)...)
		_, err := f.jobs.SetLane(f.ctx, "heavy", 5, 0)
		require.NoError(f.t, err)
		m := f.join(f.workers)
		first := f.lanes(m, 9)
		require.Contains(f.t, first, "x")
		require.Contains(f.t, first, "y")
		for range 212 - 9 {
			f.settle(m, f.read(m, 1)...)
		}
		f.counts(queue.Counts{Active: 9})
	}},
	{"62 batch_claim", func(f *fixture) {
		ids := f.enqueue(slices.Repeat([]string{"a"}, 8)...)
		m := f.join(f.workers)
		require.Equal(f.t, ids[:4], idsOf(f.read(m, 4)))
		f.counts(queue.Counts{Ready: 4, Active: 4})
	}},
	{"63 batch_claim_short", func(f *fixture) {
		f.enqueue("default", "default", "default")
		m := f.join(f.workers)
		leased, err := m.Read(f.ctx, 7, 0)
		require.NoError(f.t, err)
		require.Len(f.t, leased, 3)
		f.none(m)
	}},
	{"64 batch_partial_failure, 71 batch_partition", func(f *fixture) {
		ids := f.enqueue(slices.Repeat([]string{"a"}, 4)...)
		m := f.join(f.workers)
		leased := f.read(m, 4)
		done := tier.Ending{Entry: leased[0].Entry, Deliveries: 1}
		require.NoError(f.t, m.Commit(f.ctx, []tier.Ending{done, again(leased[1], 0), dead(leased[2], "no"), again(leased[3], time.Hour)}))
		f.gone(ids[0])
		require.Equal(f.t, queue.Dead, f.get(ids[2]).State)
		require.Equal(f.t, queue.Retry, f.get(ids[3]).State)
		l := f.read(m, 1)[0]
		require.Equal(f.t, ids[1], idOf(l))
		require.Equal(f.t, 2, l.Deliveries)
		f.none(m)
	}},
	{"72 batch_delay, 73 batch_delay_stale", func(f *fixture) {
		id := f.enqueue("a")[0]
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		snooze := tier.Ending{Entry: l.Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 0, Delay: 30 * time.Millisecond}}}
		f.commit(m, snooze)
		require.Zero(f.t, f.get(id).Attempts, "a snooze spends none")
		leased, err := m.Read(f.ctx, 1, time.Second)
		require.NoError(f.t, err)
		require.Equal(f.t, 1, leased[0].Deliveries)
		f.settle(m, leased...)
		n, err := m.Settle(f.ctx, entriesOf(leased))
		require.NoError(f.t, err)
		require.Zero(f.t, n, "an unknown id is gone")
	}},
	{"69 grouped_batch_ceiling", func(f *fixture) {
		ids := f.enqueue(slices.Repeat([]string{"a"}, 8)...)
		_, err := f.jobs.SetLane(f.ctx, "a", 0, 3)
		require.NoError(f.t, err)
		m := f.join(f.workers)
		leased, err := m.Read(f.ctx, 8, 0)
		require.NoError(f.t, err)
		require.Equal(f.t, ids[:3], idsOf(leased))
		f.none(m)
		f.settle(m, leased[0])
		require.Equal(f.t, ids[3:4], idsOf(f.read(m, 1)))
	}},
	{"70 grouped_batch_fairness", func(f *fixture) {
		f.enqueue(append(slices.Repeat([]string{"storm"}, 400), slices.Repeat([]string{"quiet"}, 20)...)...)
		m := f.join(f.workers)
		last := 0
		for i, l := range f.read(m, 256) {
			if f.get(idOf(l)).Lane == "quiet" {
				last = i + 1
			}
		}
		require.Equal(f.t, 39, last, "a storm does not keep the quiet from their turns")
	}},
}

// lanes claims n jobs, one by one, and tells from which lanes.
func (f *fixture) lanes(m *queue.Member, n int) string {
	f.t.Helper()
	var lanes []string
	for range n {
		lanes = append(lanes, f.get(idOf(f.read(m, 1)[0])).Lane)
	}
	return strings.Join(lanes, " ")
}

// TestConformance: the scenarios, on every server (B128 among them).
func TestConformance(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, scenario := range scenarios {
			t.Run(scenario.name, func(t *testing.T) { scenario.run(setUp(t, s)) })
		}
	})
}
