package queue_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// active is how many jobs are active, as the queue counts them, and its ceiling.
func (f *fixture) active() string { return f.text("HGET", f.queue.ActiveKey(), "") }

// TestCeiling: over all lanes and workers no more jobs are active than the ceiling of the queue allows. What is active when it is set
// goes on, and counts.
func TestCeiling(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.enqueue("a", "b", "c", "a", "b", "c", "a", "b", "c")
		m, other := f.join(f.workers), f.join(f.workers)
		held := f.read(m, 3)
		require.NoError(t, f.jobs.SetCeiling(f.ctx, 2))
		require.Equal(t, "3 2", f.active())
		o, err := f.jobs.Overview(f.ctx)
		require.NoError(t, err)
		require.Equal(t, 2, o.Ceiling)
		f.none(other)
		f.settle(m, held[0])
		f.none(other)
		f.settle(m, held[1])
		leased, err := other.Read(f.ctx, 10, 0)
		require.NoError(t, err)
		require.Len(t, leased, 1)
		f.none(m)
		require.NoError(t, f.jobs.SetCeiling(f.ctx, 5))
		leased, err = other.Read(f.ctx, 10, 0)
		require.NoError(t, err)
		require.Len(t, leased, 3)
		require.NoError(t, f.jobs.SetCeiling(f.ctx, 0))
		require.Equal(t, "0", f.text("EXISTS", f.queue.ActiveKey()))
		f.read(m, 2)
	})
}

// TestCeilingWakes (B134): whatever makes room below the ceiling of a queue wakes a worker that waits, long before it looks by itself.
func TestCeilingWakes(t *testing.T) {
	for what, makeRoom := range map[string]func(*fixture, *queue.Member, []tier.Leased){
		"settled":     func(f *fixture, m *queue.Member, held []tier.Leased) { f.settle(m, held[0]) },
		"tried again": func(f *fixture, m *queue.Member, held []tier.Leased) { f.commit(m, again(held[0], time.Hour)) },
		"dead":        func(f *fixture, m *queue.Member, held []tier.Leased) { f.commit(m, dead(held[0], "no")) },
		"raised":      func(f *fixture, _ *queue.Member, _ []tier.Leased) { require.NoError(f.t, f.jobs.SetCeiling(f.ctx, 3)) },
		"taken over": func(f *fixture, _ *queue.Member, held []tier.Leased) { // of a job that another program deleted
			id := idOf(held[0])
			lane := f.get(id).Lane
			f.do("XDEL", f.queue.LaneKey(lane), entryIn(f.text("HGET", f.queue.JobsKey(), id.String())))
			f.age(lane)
			f.takeOver(f.join(f.workers), 1, 0)
			require.NoError(f.t, f.jobs.Remove(f.ctx, id))
		},
		"no ceiling": func(f *fixture, _ *queue.Member, _ []tier.Leased) { require.NoError(f.t, f.jobs.SetCeiling(f.ctx, 0)) },
	} {
		for _, beside := range []string{"", "a ceiling of lanes", "a rate"} {
			t.Run(fmt.Sprint(what, " ", beside), func(t *testing.T) {
				t.Parallel()
				f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
				switch beside {
				case "a rate":
					require.NoError(t, f.jobs.Limit(f.ctx, queue.Rate{Jobs: 3, Per: time.Hour}))
				case "a ceiling of lanes":
					for _, lane := range []string{"a", "b", "c"} {
						_, err := f.jobs.SetLane(f.ctx, lane, 0, 1)
						require.NoError(t, err)
					}
				}
				require.NoError(t, f.jobs.SetCeiling(f.ctx, 2))
				m, other := f.join(f.workers), f.join(f.workers)
				f.enqueue("a", "b", "c")
				held := f.read(m, 2)
				f.none(other)
				f.do("DEL", f.queue.WakeKey()) // what rang before
				got := make(chan int, 1)
				go func() {
					leased, err := other.Read(f.ctx, 1, 6*time.Second)
					if err != nil {
						t.Error(err)
					}
					got <- len(leased)
				}()
				makeRoom(f, m, held)
				require.Equal(t, 1, <-got)
			})
		}
	}
}

// TestFullLaneOpens: a lane whose ceiling was taken up by a job that another program deletes has its turn again when its lease has ended.
func TestFullLaneOpens(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		_, err := f.jobs.SetLane(f.ctx, "a", 0, 1)
		require.NoError(t, err)
		ids := f.enqueue("a", "a")
		f.read(f.join(f.workers), 1)
		m := f.join(f.workers)
		f.none(m)
		f.do("XDEL", f.queue.LaneKey("a"), entryIn(f.text("HGET", f.queue.JobsKey(), ids[0].String())))
		f.age("a")
		taken, _ := f.takeOver(f.join(f.workers), 10, 0)
		require.Empty(t, taken)
		require.Equal(t, ids[1:], idsOf(f.read(m, 1)))
		require.NoError(t, f.jobs.Remove(f.ctx, ids[0]))
	})
}

// TestCeilingCounts: what is counted for the ceiling of a queue is made good by whoever looks for what leases have ended, and by
// setting the ceiling again, and until then the audit tells of it; a queue may have more lanes than one call counts.
func TestCeilingCounts(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		const n = 510
		lanes := make([]string, n)
		for i := range lanes {
			lanes[i] = "l" + strconv.Itoa(i)
		}
		f.enqueue(append(lanes, "last")...)
		m := f.join(f.workers)
		var held []tier.Leased
		for len(held) < n {
			leased, err := m.Read(f.ctx, n-len(held), 0)
			require.NoError(t, err)
			held = append(held, leased...)
		}
		audit := func() error { return queue.Check(f.ctx, f.client, string(f.queue)) }
		require.NoError(t, f.jobs.SetCeiling(f.ctx, n))
		require.Equal(t, "510 510", f.active())
		require.NoError(t, audit())
		f.none(m)
		f.do("HSET", f.queue.ActiveKey(), "l1", "7", "gone", "3", "", "5 510")
		err := audit()
		require.ErrorContains(t, err, "a count of 7")
		require.ErrorContains(t, err, "is gone, and has a count")
		require.ErrorContains(t, err, "are 519")
		require.NoError(t, f.jobs.SetCeiling(f.ctx, n))
		require.NoError(t, audit())

		f.do("HSET", f.queue.ActiveKey(), "l1", "7", "", "515 510")
		f.do("HDEL", f.queue.ActiveKey(), "l2")
		f.do("ZADD", f.queue.LeasedKey(), "1", "l1", "1", "l2")
		require.ErrorContains(t, audit(), "a count of 0")
		f.takeOver(f.join(f.workers), 10, 0)
		require.Equal(t, "510 510", f.active())
	})
}

// TestCeilingMends: what was counted of a job that another program deleted is no longer counted once somebody has looked whether its lease
// has ended, also when its lane went meanwhile; nor is a sum kept that is wrong.
func TestCeilingMends(t *testing.T) {
	for what, empty := range map[string]func(*fixture, codec.ID) error{
		"drained": func(f *fixture, _ codec.ID) error { _, err := f.jobs.DrainLane(f.ctx, "a"); return err },
		"removed": func(f *fixture, id codec.ID) error { return f.jobs.Remove(f.ctx, id) },
		"moved":   func(f *fixture, id codec.ID) error { return f.jobs.Move(f.ctx, id, "c") },
		"there":   func(*fixture, codec.ID) error { return nil },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				require.NoError(t, f.jobs.SetCeiling(f.ctx, 9))
				ids := f.enqueue("a", "a", "b")
				m := f.join(f.workers)
				_, err := f.jobs.SetLane(f.ctx, "a", 1, 1)
				require.NoError(t, err)
				f.read(m, 2)
				f.do("XDEL", f.queue.LaneKey("a"), entryIn(f.text("HGET", f.queue.JobsKey(), ids[0].String())))
				require.NoError(t, empty(f, ids[1]))
				f.do("HSET", f.queue.ActiveKey(), "", "7 9")
				if f.text("EXISTS", f.queue.LaneKey("a")) == "1" {
					f.age("a")
				}
				f.do("ZADD", f.queue.LeasedKey(), "XX", "1", "a")
				f.takeOver(f.join(f.workers), 1, 0)
				require.Equal(t, "1 9", f.active())
				require.NoError(t, f.jobs.Remove(f.ctx, ids[0]))
			})
		})
	}
}

// ceilingModel is what a queue with a ceiling may have active.
type ceilingModel struct {
	*fixture
	t       *rapid.T
	members []*queue.Member
	held    map[*queue.Member][]tier.Leased
	ceiling int
}

// TestCeilingModel: whatever is done to jobs, in any order, by workers that die, with a ceiling that is set at any time: no claim
// takes more than there is room for, or nothing when there is, and the count is that of the active jobs.
func TestCeilingModel(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Redis))
	rapid.Check(t, func(t *rapid.T) {
		f.purge(t)
		m := &ceilingModel{fixture: f, t: t, held: map[*queue.Member][]tier.Leased{}}
		m.members = []*queue.Member{f.join(f.workers), f.join(f.workers)}
		t.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { m.check() },
			"enqueue": func(*rapid.T) { f.enqueue(m.lane(), m.lane(), m.lane()) },
			"read":    func(*rapid.T) { m.read() },
			"settle":  func(*rapid.T) { m.end(func(w *queue.Member, l tier.Leased) { f.settle(w, l) }) },
			"again":   func(*rapid.T) { m.end(func(w *queue.Member, l tier.Leased) { f.commit(w, again(l, 0)) }) },
			"dead":    func(*rapid.T) { m.end(func(w *queue.Member, l tier.Leased) { f.commit(w, dead(l, "no")) }) },
			"set": func(t *rapid.T) {
				m.ceiling = rapid.IntRange(0, 6).Draw(t, "ceiling")
				require.NoError(t, f.jobs.SetCeiling(f.ctx, m.ceiling))
			},
			"die":   func(*rapid.T) { m.die() },
			"drain": func(*rapid.T) { _, err := f.jobs.DrainLane(f.ctx, m.lane()); require.NoError(t, err) },
		})
		require.NoError(t, queue.Check(f.ctx, f.client, string(f.queue)))
	})
}

func (m *ceilingModel) lane() string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(m.t, "lane")
}

func (m *ceilingModel) worker() *queue.Member {
	return m.members[rapid.IntRange(0, len(m.members)-1).Draw(m.t, "worker")]
}

func (m *ceilingModel) counts() queue.Counts {
	counts, err := m.jobs.Counts(m.ctx)
	require.NoError(m.t, err)
	return counts
}

func (m *ceilingModel) read() {
	w := m.worker()
	_, err := w.Due(m.ctx, 100)
	require.NoError(m.t, err)
	before, want := m.counts(), rapid.IntRange(1, 5).Draw(m.t, "want")
	leased, err := w.Read(m.ctx, want, 0)
	require.NoError(m.t, err)
	may := min(want, int(before.Ready))
	if m.ceiling > 0 {
		may = min(may, max(0, m.ceiling-int(before.Active)))
	}
	require.LessOrEqual(m.t, len(leased), may)
	require.Equal(m.t, may > 0, len(leased) > 0)
	m.held[w] = append(m.held[w], leased...)
}

func (m *ceilingModel) end(how func(*queue.Member, tier.Leased)) {
	w := m.worker()
	if len(m.held[w]) == 0 {
		m.t.Skip("it has nothing")
	}
	how(w, m.held[w][0])
	m.held[w] = m.held[w][1:]
}

// die lets another take over what a worker has.
func (m *ceilingModel) die() {
	at := rapid.IntRange(0, len(m.members)-1).Draw(m.t, "worker")
	delete(m.held, m.members[at])
	other := m.join(m.workers)
	for _, lane := range []string{"a", "b", "c"} {
		if m.text("EXISTS", m.queue.LaneKey(lane)) == "1" {
			m.age(lane)
		}
	}
	taken, _ := m.takeOver(other, 100, 100)
	m.members, m.held = []*queue.Member{other, m.join(m.workers)}, map[*queue.Member][]tier.Leased{other: taken}
}

// check compares the count with the lists of who has what.
func (m *ceilingModel) check() {
	if m.ceiling == 0 {
		return
	}
	want := map[string]string{"": fmt.Sprintf("%d %d", m.counts().Active, m.ceiling)}
	for lane, err := range m.jobs.Lanes(m.ctx) {
		require.NoError(m.t, err)
		if lane.Active > 0 {
			want[lane.Name] = strconv.Itoa(int(lane.Active))
		}
	}
	fields := m.do("HGETALL", m.queue.ActiveKey())
	got, err := fields.AsStrMap()
	require.NoError(m.t, err)
	require.Equal(m.t, want, got)
}
