package queue_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

func entryOf(l tier.Leased, deliveries int) []tier.Returned {
	return []tier.Returned{{Held: tier.Held{Entry: l.Entry, Deliveries: deliveries}}}
}

// TestMemberFenced (B16): what a member does to jobs that another has taken over has no effect; it goes on with what is left to
// it.
func TestMemberFenced(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.enqueue("a", "b")
		m, other := f.join(f.workers), f.join(f.workers)
		mine := f.read(m, 2)
		f.age("a")
		taken, _ := f.takeOver(other, 10, 0)
		require.Len(t, taken, 1)
		require.Equal(t, ids[0], idOf(taken[0]))

		_, err := m.Settle(f.ctx, entriesOf(mine))
		require.ErrorIs(t, err, tier.ErrFenced)
		require.ErrorIs(t, m.Commit(f.ctx, []tier.Ending{dead(mine[0], "no"), dead(mine[1], "no")}), tier.ErrFenced)
		require.ErrorIs(t, m.Release(f.ctx, entryOf(mine[1], 0), 0), tier.ErrFenced)
		_, err = m.Renew(f.ctx, entriesOf(mine))
		require.ErrorIs(t, err, tier.ErrFenced)
		_, err = m.Read(f.ctx, 1, 0)
		require.ErrorIs(t, err, tier.ErrFenced)
		_, err = m.TakeOver(f.ctx, 1, 0)
		require.True(t, err == nil || err == tier.ErrFenced)
		f.counts(queue.Counts{Active: 2})

		held, err := m.Sync(f.ctx)
		require.NoError(t, err)
		require.Equal(t, []tier.Held{{Entry: mine[1].Entry, Deliveries: 1}}, held)
		n, err := m.Settle(f.ctx, entriesOf(mine)) // of the other one it knows nothing any more
		require.NoError(t, err)
		require.Equal(t, 1, n)
		f.settle(other, taken...)
		f.gone(ids...)
	})
}

// TestClaimLost (B46): jobs of a claim whose reply was lost are found by Sync, and handed back.
func TestClaimLost(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Private(t, kind))
			f.enqueue("a")
			m, other := f.join(f.workers), f.join(f.workers)
			f.settle(m, f.read(m, 1)...) // it knows the lane
			ids := f.enqueue("a", "a")
			proxy.DropReplies(1, sources(t)["claim"].Runs())
			_, err := m.Read(f.ctx, 2, 0)
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			held, err := m.Sync(f.ctx)
			require.NoError(t, err)
			require.Len(t, held, 2)
			for _, h := range held {
				require.NoError(t, m.Release(f.ctx, []tier.Returned{{Held: tier.Held{Entry: h.Entry}}}, 0))
			}
			taken, _ := f.takeOver(other, 10, 0)
			require.ElementsMatch(t, ids, idsOf(taken))
			require.Equal(t, 1, taken[0].Deliveries, "a delivery that nobody saw does not count")
			require.NoError(t, m.Leave(f.ctx))
		})
	}
}

// TestHandedBack (B105): a job that is handed back is there at once for who waits at the bell, and for who handed it back; one that is
// handed back for later wakes nobody.
func TestHandedBack(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.enqueue("a", "a", "b")
		m, other := f.join(f.workers), f.join(f.workers)
		held := f.read(m, 3)
		f.none(other)
		f.do("DEL", f.queue.WakeKey()) // nobody waited when they came
		release := func(l tier.Leased, delay time.Duration) {
			require.NoError(t, m.Release(f.ctx, []tier.Returned{{Held: tier.Held{Entry: l.Entry}}}, delay))
		}
		release(held[0], lease)
		require.Equal(t, "0", f.text("LLEN", f.queue.WakeKey()))
		release(held[1], 0)
		taken, err := m.TakeOver(f.ctx, 10, 0)
		require.NoError(t, err)
		if len(taken.Leased) == 0 { // it asked which lanes are due
			taken, err = m.TakeOver(f.ctx, 10, 0)
			require.NoError(t, err)
		}
		require.Equal(t, idsOf(held[1:2]), idsOf(taken.Leased))
		f.do("DEL", f.queue.WakeKey())
		release(held[2], 0)
		leased, err := other.Read(f.ctx, 10, 10*time.Millisecond)
		require.NoError(t, err)
		require.Empty(t, leased)
		more, _ := f.takeOver(other, 10, 0)
		require.Equal(t, idsOf(held[2:]), idsOf(more))
	})
}

// TestSettleRepeated: a repetition of a settle whose reply was lost touches no other job, also where that has been given the
// place of the first.
func TestSettleRepeated(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Private(t, kind))
			f.enqueue("a")
			m := f.join(f.workers)
			l := f.read(m, 1)[0]
			lane := f.queue.LaneKey("a")
			page, err := f.raw().Do(f.ctx, f.raw().B().Xrange().Key(lane).Start("-").End("+").Build()).AsXRange()
			require.NoError(t, err)
			f.do("SCRIPT", "LOAD", sources(t)["settle"].Text)
			proxy.DropReplies(1, sources(t)["settle"].Runs())
			_, err = m.Settle(f.ctx, entriesOf([]tier.Leased{l}))
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			require.Equal(t, "0", f.text("EXISTS", lane))

			other := f.minted() // in the same millisecond
			f.do("XADD", lane, page[0].ID, "j", other.String(), "m", page[0].FieldValues["m"])
			f.do("XGROUP", "CREATE", lane, "w", "0")
			f.do("XREADGROUP", "GROUP", "w", m.Name(), "STREAMS", lane, ">")
			f.do("HSET", f.queue.JobsKey(), other.String(), page[0].ID+" a")
			f.do("ZADD", f.queue.LeasedKey(), "1", "a")
			n, err := m.Settle(f.ctx, entriesOf([]tier.Leased{l}))
			require.NoError(t, err)
			require.Zero(t, n)
			require.Equal(t, queue.Active, f.get(other).State)
		})
	}
}

// TestTakeOverGoesOn (B4, B5, B12, B20): a look goes on where it ended, through lanes longer than a page, takes each job once and no more
// than it was asked for, and comes to an end.
func TestTakeOverGoesOn(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		const fresh, aged = 1200, 300
		f.enqueue(slices.Repeat([]string{"a"}, aged)...)
		m, other := f.join(f.workers), f.join(f.workers)
		f.read(m, aged)
		f.age("a")
		f.enqueue(append(slices.Repeat([]string{"a"}, fresh), "b")...)
		f.read(m, fresh)
		f.read(m, 1)
		taken, _ := f.takeOver(other, 64, 0)
		require.Len(t, taken, aged)
		seen := map[string]bool{}
		for _, l := range taken {
			seen[idOf(l).String()] = true
		}
		require.Len(t, seen, aged)
		f.counts(queue.Counts{Active: fresh + aged + 1})
		more, last := f.takeOver(f.join(f.workers), 64, 0)
		require.Empty(t, more)
		require.Zero(t, last.Suspects)
	})
}

// TestSuspectsAreTakenAlone: a job that two workers let go of is taken over one at a time, as often as it is looked for.
func TestSuspectsAreTakenAlone(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.enqueue("a", "a", "a")
		first, second, third := f.join(f.workers), f.join(f.workers), f.join(f.workers)
		f.read(first, 3)
		f.age("a")
		taken, _ := f.takeOver(second, 10, 0)
		require.Len(t, taken, 3)
		f.age("a")
		taken, last := f.takeOver(third, 10, 1)
		require.Len(t, taken, 1)
		require.Equal(t, 3, taken[0].Deliveries)
		require.Equal(t, 2, last.Suspects)
	})
}

// TestBell: a worker that waits has a job at once, and so one that becomes due, from wherever it came.
func TestBell(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.workers)
		f.none(m)
		for _, delay := range []time.Duration{0, 100 * time.Millisecond} {
			got := make(chan time.Time, 1)
			go func() {
				leased, err := m.Read(f.ctx, 1, time.Minute)
				if err == nil && len(leased) == 1 {
					got <- time.Now()
				}
				close(got)
			}()
			tiertest.Eventually(t, time.Minute, func() (bool, string) {
				m := f.do("CLIENT", "LIST")
				list, _ := m.ToString()
				return blocked(list), list
			})
			began := time.Now()
			_, err := f.jobs.Enqueue(f.ctx, queue.Job{Lane: "new" + strconv.Itoa(int(delay)), Delay: delay})
			require.NoError(t, err)
			at, ok := <-got
			require.True(t, ok)
			require.Less(t, at.Sub(began), delay+700*time.Millisecond, "it did not wait for the end of its request")
		}
	})
}

// blocked says whether a client waits at a bell.
func blocked(list string) bool { return strings.Contains(list, "cmd=blpop") }

// TestBellLost: a ring that nobody hears is covered by a beat.
func TestBellLost(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.workers)
	f.none(m)
	hidden := f.queue.WorkersKey() + ":hidden"
	f.do("RENAME", f.queue.WorkersKey(), hidden) // without workers no bell rings
	f.enqueue("a")
	require.Equal(t, "0", f.text("EXISTS", f.queue.WakeKey()))
	f.do("RENAME", hidden, f.queue.WorkersKey())
	leased, err := m.Read(f.ctx, 1, 10*time.Second)
	require.NoError(t, err)
	require.Len(t, leased, 1)
}

// TestLostGroup (B28): a lane whose group the server has lost is handed out anew, and what was active comes again; what a worker
// from before settles is done, once.
func TestLostGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.enqueue("a", "a", "b")
		m, other := f.join(f.workers), f.join(f.workers)
		before := f.read(m, 1)[0]
		f.do("XGROUP", "DESTROY", f.queue.LaneKey("a"), "w")
		_, err := other.Read(f.ctx, 10, 0)
		require.ErrorIs(t, err, tier.ErrNoGroup)
		_, err = other.Rebuild(f.ctx)
		require.NoError(t, err)
		_, err = other.Sync(f.ctx)
		require.NoError(t, err)
		leased := f.read(other, 3)
		require.ElementsMatch(t, ids, idsOf(leased))
		f.settle(m, before)
		n, err := other.Settle(f.ctx, entriesOf(leased))
		require.NoError(t, err)
		require.Equal(t, 2, n)
		f.counts(queue.Counts{})
	})
}

// TestFlushed: a server that has lost all of a queue serves it again; members of before are fenced once.
func TestFlushed(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, kind))
			f.enqueue("a", "b")
			m := f.join(f.workers)
			leased := f.read(m, 1)
			f.do("FLUSHALL")
			_, err := m.Settle(f.ctx, entriesOf(leased))
			require.ErrorIs(t, err, tier.ErrFenced)
			held, err := m.Sync(f.ctx)
			require.NoError(t, err)
			require.Empty(t, held)
			ids := f.enqueue("a", "c")
			got := append(f.read(m, 1), f.read(m, 1)...)
			require.ElementsMatch(t, ids, idsOf(got))
			f.settle(m, got...)
		})
	}
}

// TestNumberGivenAnew: a member that was retired has another number than before when it is back: a call of its that was long under way
// must not pass for one of now.
func TestNumberGivenAnew(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.workers)
		number := f.text("HGET", f.queue.WorkersKey(), m.Name())
		f.do("HDEL", f.queue.WorkersKey(), m.Name(), tier.BeatField(m.Name()))
		_, err := m.Sync(f.ctx)
		require.NoError(t, err)
		require.NotEqual(t, number, f.text("HGET", f.queue.WorkersKey(), m.Name()))
	})
}

// TestRetriedIsPending: what a dead job came to is gone when it is taken up again, for who asks and for who waits.
func TestRetriedIsPending(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		id, err := f.jobs.Enqueue(f.ctx, queue.Job{Terms: tier.Terms{Keep: time.Hour}})
		require.NoError(t, err)
		m := f.join(f.workers)
		f.commit(m, dead(f.read(m, 1)[0], "no"))
		o, err := f.jobs.Wait(f.ctx, id)
		require.NoError(t, err)
		require.Equal(t, queue.Outcome{Reason: "no"}, o)
		_, err = f.jobs.Retry(f.ctx, id)
		require.NoError(t, err)
		_, err = f.jobs.Result(f.ctx, id)
		require.ErrorIs(t, err, queue.ErrPending)
		f.settle(m, f.read(m, 1)...)
		o, err = f.jobs.Result(f.ctx, id)
		require.NoError(t, err)
		require.True(t, o.Done)
	})
}
