package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/tier/tiertest"
)

// moreScenarios are those of the original EchoMQ of clients, of reading, and of several lanes at once, by number; and those without a
// number that the list has at its end.
var moreScenarios = []struct {
	name string
	run  func(f *fixture)
}{
	{"7 stale, also after the scripts were lost", func(f *fixture) {
		f.enqueue("a")
		m, other := f.join(f.workers), f.join(f.workers)
		stale := f.read(m, 1)
		f.age("a")
		taken, _ := f.takeOver(other, 1, 1)
		f.do("SCRIPT", "FLUSH")
		_, err := m.Settle(f.ctx, entriesOf(stale))
		require.ErrorIs(f.t, err, tier.ErrFenced)
		f.counts(queue.Counts{Active: 1})
		f.settle(other, taken...)
		f.counts(queue.Counts{})
	}},
	{"16 repeat", func(f *fixture) {
		s := queue.NewSchedules(f.jobs)
		every := 10 * time.Millisecond
		require.NoError(f.t, s.Put(f.ctx, queue.Schedule{Name: "s", Every: every, CatchUp: schedule.All, Limit: 2}))
		first := f.declared(s)[0].Next
		tiertest.Eventually(f.t, time.Minute, func() (bool, string) {
			now, err := f.client.Now(f.ctx, f.queue.SchedulesKey())
			require.NoError(f.t, err)
			return now.After(first.Add(every)), now.String()
		})
		_, err := s.Fire(f.ctx)
		require.NoError(f.t, err)
		ids := idsOf(f.read(f.join(f.workers), 2))
		require.Less(f.t, ids[0].String(), ids[1].String())
	}},
	{"20 state", func(f *fixture) {
		id := f.enqueue("a")[0]
		later, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Hour, Message: codec.Message{Data: []byte("x")}})
		require.NoError(f.t, err)
		f.read(f.join(f.workers), 1)
		require.Equal(f.t, queue.Active, f.state(id))
		info := f.get(later)
		require.Equal(f.t, queue.Scheduled, info.State)
		require.Equal(f.t, "x", string(info.Message.Data))
		f.gone(f.minted())
	}},
	{"22 dedup", func(f *fixture) {
		first := f.unique(queue.Unique{Key: "order-42"}, "1", time.Hour)
		require.Equal(f.t, queue.Receipt{ID: first.ID, Existing: true}, f.unique(queue.Unique{Key: "order-42"}, "2", 0))
		other := f.unique(queue.Unique{Key: "order-43"}, "3", 0)
		require.False(f.t, other.Existing)
		require.NotEqual(f.t, first.ID, other.ID)
	}},
	{"24 lane_depth", func(f *fixture) {
		f.enqueue("a", "a", "b")
		for lane, depth := range map[string]int64{"a": 2, "b": 1, "c": 0} {
			info, err := f.jobs.LaneInfo(f.ctx, lane)
			require.NoError(f.t, err)
			require.Equal(f.t, depth, info.Ready)
		}
	}},
	{"38 unknown_state, the witness is a row without its entry", func(f *fixture) {
		id := f.enqueue("a", "a")[0]
		row := f.text("HGET", f.queue.JobsKey(), id.String())
		f.do("XDEL", f.queue.LaneKey("a"), entryIn(row))
		_, err := f.jobs.Get(f.ctx, id)
		require.ErrorContains(f.t, err, "is not where its row says")
		require.NotErrorIs(f.t, err, queue.ErrNoJob)
		require.Equal(f.t, row, f.text("HGET", f.queue.JobsKey(), id.String()))
		require.NoError(f.t, f.jobs.Remove(f.ctx, id), "and goes")
	}},
	{"43 obliterate_grouped", func(f *fixture) {
		f.enqueue("lane")
		require.NoError(f.t, f.jobs.Pause(f.ctx))
		_, err := f.jobs.Obliterate(f.ctx, string(f.queue))
		require.NoError(f.t, err)
		keys, err := f.client.KeysBelow(f.ctx, strings.TrimSuffix(f.queue.QueueKey(), ":queue"))
		require.NoError(f.t, err)
		require.Empty(f.t, keys)
	}},
	{"46 reap_group, which is claiming at once", func(f *fixture) {
		ids := f.enqueue("a", "b")
		m, other := f.join(f.workers), f.join(f.workers)
		f.read(m, 2)
		f.age("a")
		taken, _ := f.takeOver(other, 10, 0)
		require.Equal(f.t, ids[:1], idsOf(taken))
		require.Equal(f.t, m.Name(), f.get(ids[1]).Worker)
		f.counts(queue.Counts{Active: 2})
		info, err := f.jobs.LaneInfo(f.ctx, "unknown")
		require.NoError(f.t, err)
		require.Zero(f.t, info.Active)
	}},
	{"56 pool_enqueue, 57 pool_order", func(f *fixture) {
		pool := []*queue.Client{f.jobs, f.newClient(queue.Config{})}
		var ids []codec.ID
		for i := range 5 {
			id, err := pool[i%2].Enqueue(f.ctx, queue.Job{Lane: "a"})
			require.NoError(f.t, err)
			ids = append(ids, id)
			_, err = pool[(i+1)%2].Enqueue(f.ctx, queue.Job{Lane: "a", ID: id})
			require.ErrorIs(f.t, err, queue.ErrDuplicate)
		}
		require.Equal(f.t, ids, f.list(queue.Selection{Lane: "a"}))
		f.counts(queue.Counts{Ready: 5})
	}},
	{"68 grouped_batch_affinity, each lane in its order with one lease", func(f *fixture) {
		ids := f.enqueue("a", "a", "a", "a", "a", "b", "b", "b", "b", "b")
		m := f.join(f.workers)
		f.read(m, 5)
		for lane, want := range map[string][]codec.ID{"a": ids[:3], "b": ids[5:7]} {
			var got []codec.ID
			var idle []time.Duration
			for info, err := range f.jobs.List(f.ctx, queue.Selection{States: []queue.State{queue.Active}, Lane: lane}) {
				require.NoError(f.t, err)
				require.Equal(f.t, m.Name(), info.Worker)
				got, idle = append(got, info.ID), append(idle, info.Idle)
			}
			require.Equal(f.t, want, got)
			require.Less(f.t, slices.Max(idle)-slices.Min(idle), 100*time.Millisecond, "leased at once; Redis 7 looks at its clock for each entry")
		}
	}},
	{"a second claim makes what was known stale", func(f *fixture) {
		f.enqueue("a")
		first, second, third := f.join(f.workers), f.join(f.workers), f.join(f.workers)
		f.read(first, 1)
		f.age("a")
		taken, _ := f.takeOver(second, 1, 1)
		f.age("a")
		last, _ := f.takeOver(third, 1, 1)
		require.Equal(f.t, 3, last[0].Deliveries)
		require.ErrorIs(f.t, second.Commit(f.ctx, []tier.Ending{again(taken[0], 0)}), tier.ErrFenced)
		f.settle(third, last...)
	}},
	{"the tail of a batch is not taken while it is renewed", func(f *fixture) {
		f.enqueue("a", "a", "a", "a")
		m := f.join(f.workers)
		leased := f.read(m, 4)
		for range 3 {
			f.age("a")
			gone, err := m.Renew(f.ctx, entriesOf(leased))
			require.NoError(f.t, err)
			require.Empty(f.t, gone)
			f.settle(m, leased[0])
			leased = leased[1:]
			taken, _ := f.takeOver(f.join(f.workers), 10, 10)
			require.Empty(f.t, taken)
		}
	}},
	{"settle of a scheduled or dead job is refused", func(f *fixture) {
		ids := f.enqueue("a", "a")
		m := f.join(f.workers)
		leased := f.read(m, 2)
		f.commit(m, again(leased[0], time.Hour))
		f.commit(m, dead(leased[1], "no"))
		n, err := m.Settle(f.ctx, entriesOf(leased))
		require.NoError(f.t, err)
		require.Zero(f.t, n)
		require.Equal(f.t, queue.Retry, f.state(ids[0]))
		require.Equal(f.t, queue.Dead, f.state(ids[1]))
	}},
	{"promote creates no ghosts", func(f *fixture) {
		id, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Millisecond})
		require.NoError(f.t, err)
		require.NoError(f.t, f.jobs.Remove(f.ctx, id))
		f.do("ZADD", f.queue.JobsDueKey(), "1", id.String())
		m := f.join(f.workers)
		_, err = m.Due(f.ctx, 10)
		require.NoError(f.t, err)
		f.none(m)
		f.gone(id)
		require.Equal(f.t, "0", f.text("ZCARD", f.queue.JobsDueKey()))
	}},
	{"each job has an outcome of its own", func(f *fixture) {
		id := f.enqueue("a")[0]
		receipts, err := f.jobs.EnqueueMany(f.ctx, []queue.Job{{Lane: "no lane"}, {ID: id}, {Lane: "a"}, {Delay: -1}})
		require.NoError(f.t, err)
		require.Error(f.t, receipts[0].Err)
		require.ErrorIs(f.t, receipts[1].Err, queue.ErrDuplicate)
		require.NoError(f.t, receipts[2].Err)
		require.ErrorIs(f.t, receipts[3].Err, queue.ErrBadCall)
		f.counts(queue.Counts{Ready: 2})
	}},
}

// TestMoreConformance: these, on every server.
func TestMoreConformance(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, scenario := range moreScenarios {
			t.Run(scenario.name, func(t *testing.T) { scenario.run(setUp(t, s)) })
		}
	})
}

// TestWeightsKeepTheirPart: of 4,000 turns a lane of weight 3 has three for each one of a lane of weight 1, within a tenth, whether
// jobs are claimed one by one or many at once.
func TestWeightsKeepTheirPart(t *testing.T) {
	t.Parallel()
	const turns = 4000
	for _, at := range []int{1, 7, 100} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
			_, err := f.jobs.SetLane(f.ctx, "heavy", 3, 0)
			require.NoError(t, err)
			of := map[codec.ID]string{}
			for i, id := range f.enqueue(append(slices.Repeat([]string{"heavy"}, turns), slices.Repeat([]string{"light"}, turns)...)...) {
				of[id] = []string{"heavy", "light"}[i/turns]
			}
			m := f.join(f.workers)
			had := map[string]int{}
			for n := 0; n < turns; {
				leased, err := m.Read(f.ctx, min(at, turns-n), 0)
				require.NoError(t, err)
				require.NotEmpty(t, leased)
				for _, l := range leased {
					had[of[idOf(l)]]++
				}
				n += len(leased)
				f.settle(m, leased...)
			}
			require.InEpsilon(t, 3.0, float64(had["heavy"])/float64(had["light"]), 0.1, "%v", had)
		})
	}
}
