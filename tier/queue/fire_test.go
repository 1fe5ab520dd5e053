package queue_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/tier/tiertest"
)

const tick = 20 * time.Millisecond

func ticking(name string) queue.Schedule {
	return queue.Schedule{Name: name, Every: tick, CatchUp: schedule.All, Limit: 1000, Job: queue.Job{Message: codec.Message{Type: "tick"}}}
}

// replica is a process that fires.
type replica struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

func (r replica) stop() {
	r.cancel()
	<-r.ended
}

// replica starts a process with a connection and a client of its own.
func (f *fixture) replica(client *tier.Client) replica {
	f.t.Helper()
	jobs, err := queue.NewClient(client, queue.Config{Queue: string(f.queue)})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.ctx)
	r := replica{cancel, make(chan struct{})}
	go func() {
		defer close(r.ended)
		if err := queue.NewSchedules(jobs).Run(ctx); err != nil {
			f.t.Error(err)
		}
		_ = jobs.Close(context.WithoutCancel(ctx))
	}()
	f.t.Cleanup(r.stop)
	return r
}

// passes waits until a schedule has fired for what is due now, and n intervals of ticks more.
func (f *fixture) passes(s *queue.Schedules, name string, n int) {
	f.t.Helper()
	now, err := f.client.Now(f.ctx, f.queue.SchedulesKey())
	require.NoError(f.t, err)
	tiertest.Eventually(f.t, time.Minute, func() (bool, string) {
		for _, d := range f.declared(s) {
			if d.Name == name {
				return d.Next.After(now.Add(time.Duration(n) * tick)), "next: " + d.Next.String()
			}
		}
		return false, "it is gone"
	})
}

// occurrences are the times that jobs were made for, by their schedules, in the order in which they are handed out; they are
// settled. The member is one that has read nothing yet.
func (f *fixture) occurrences(m *queue.Member) map[string][]time.Time {
	f.t.Helper()
	by := map[string][]time.Time{}
	for {
		leased, err := m.Read(f.ctx, 500, 0)
		require.NoError(f.t, err)
		if len(leased) == 0 {
			return by
		}
		for _, l := range leased {
			text, _ := l.Records[0].Headers.Get(queue.HeaderOccurrence)
			name, _ := l.Records[0].Headers.Get(queue.HeaderSchedule)
			at, err := time.Parse(time.RFC3339Nano, text)
			require.NoError(f.t, err)
			by[name] = append(by[name], at)
		}
		f.settle(m, leased...)
	}
}

// requireGrid: n times or more, each once, none left out, in their order.
func requireGrid(t testing.TB, times []time.Time, every time.Duration, n int) {
	t.Helper()
	require.GreaterOrEqual(t, len(times), n)
	for i, at := range times {
		require.Zero(t, at.UnixMilli()%every.Milliseconds())
		require.Equal(t, times[0].Add(time.Duration(i)*every), at, "occurrence %d", i)
	}
}

// fires says that a command is fire.lua.
func (f *fixture) fires(cmd []string) bool {
	return len(cmd) > 3 && cmd[2] == "10" && cmd[3] == f.queue.SchedulesKey()
}

// TestOneFires is B118: of five replicas that come and go one fires for each occurrence.
func TestOneFires(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		require.NoError(t, s.Put(f.ctx, ticking("tick")))
		replicas := make([]replica, 5)
		for i := range replicas {
			replicas[i] = f.replica(tiertest.Dial(t, server))
		}
		for range 12 {
			f.passes(s, "tick", 5)
			i := rand.IntN(len(replicas))
			replicas[i].stop()
			replicas[i] = f.replica(tiertest.Dial(t, server))
		}
		for _, r := range replicas {
			r.stop()
		}
		requireGrid(t, f.occurrences(f.join(f.workers))["tick"], tick, 60)
	})
}

// TestFireAndRearm is B121: the job and the next occurrence are one step. A process whose every answer is lost, or whose
// request is, neither ends the schedule nor fires twice; nor does one that takes over from it.
func TestFireAndRearm(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := tiertest.Shared(t, kind)
			f := setUp(t, server)
			s := queue.NewSchedules(f.jobs)
			require.NoError(t, s.Put(f.ctx, ticking("tick")))
			proxy := tiertest.NewProxy(t, server)
			unlucky := f.replica(tiertest.Dial(t, proxy))
			for range 3 {
				proxy.DropReplies(2, f.fires)
				f.passes(s, "tick", 10)
				proxy.DropRequests(2, f.fires)
				f.passes(s, "tick", 10)
			}
			require.GreaterOrEqual(t, proxy.Dropped(), 6)
			proxy.DropReplies(1000, f.fires)
			f.replica(f.client)
			f.passes(s, "tick", 10)
			unlucky.stop()
			f.passes(s, "tick", 10)
			requireGrid(t, f.occurrences(f.join(f.workers))["tick"], tick, 60)
		})
	}
}

// TestScheduledJobKeepsItsTerms: what a schedule makes has the terms and the unique key that were declared; while a job has
// that key, nothing else is made.
func TestScheduledJobKeepsItsTerms(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		one := ticking("tick")
		one.CatchUp, one.Job.Terms, one.Job.Unique = schedule.Once, tier.Terms{MaxAttempts: 7, Tags: []string{"nightly"}}, queue.Unique{Key: "report"}
		require.NoError(t, s.Put(f.ctx, one))
		require.Equal(t, one.Job.Unique.Key, f.declared(s)[0].Job.Unique.Key)
		f.replica(f.client)
		m := f.join(f.workers)
		next := func() (leased []tier.Leased) {
			tiertest.Eventually(t, time.Minute, func() (bool, string) {
				_, err := m.Due(f.ctx, 10)
				require.NoError(t, err)
				leased, err = m.Read(f.ctx, 10, 0)
				require.NoError(t, err)
				return len(leased) > 0, "nothing is made"
			})
			return leased
		}
		leased := next()
		require.Len(t, leased, 1)
		require.Equal(t, one.Job.Terms, *leased[0].Terms)
		f.passes(s, "tick", 10)
		counts, err := f.jobs.Counts(f.ctx)
		require.NoError(t, err)
		require.Equal(t, int64(1), counts.Active)
		require.Zero(t, counts.Ready+counts.Scheduled)
		f.settle(m, leased...)
		require.Len(t, next(), 1)
	})
}

// TestStop is B120 on a server: everybody was away for an hour.
func TestStop(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		tests := []struct {
			name    string
			every   time.Duration
			catchUp schedule.CatchUp
			limit   int
			want    int
		}{
			{"once", 5 * time.Second, schedule.Once, 0, 1},
			{"skip-in-time", 5 * time.Second, schedule.Skip, 0, 1},
			{"skip-late", 24 * 365 * time.Hour, schedule.Skip, 0, 0},
			{"all", 5 * time.Minute, schedule.All, 0, 12},
			{"all-in-several-calls", 5 * time.Second, schedule.All, 450, 450},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				f := setUp(t, server)
				s := queue.NewSchedules(f.jobs)
				one := ticking(tt.name)
				one.Every, one.CatchUp, one.Limit = tt.every, tt.catchUp, tt.limit
				now, err := f.client.Now(f.ctx, f.queue.SchedulesKey())
				require.NoError(t, err)
				one.Anchor = now.Truncate(time.Second).Add(-time.Hour)
				require.NoError(t, s.Put(f.ctx, one))
				f.do("ZADD", f.queue.OccurrencesKey(), strconv.FormatInt(one.Anchor.UnixMilli(), 10), tt.name)
				r := f.replica(f.client)
				f.passes(s, tt.name, 0)
				r.stop()
				times := f.occurrences(f.join(f.workers))[tt.name]
				require.InDelta(t, tt.want, len(times), 1) // one may come to be due meanwhile
				for i := 1; i < len(times); i++ {
					require.Equal(t, tt.every, times[i].Sub(times[i-1]))
				}
			})
		}
	})
}

// TestScheduleOutlivesItsJobs is B117: jobs of it that are dead keep no other from being made.
func TestScheduleOutlivesItsJobs(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		require.NoError(t, queue.NewSchedules(f.jobs).Put(f.ctx, ticking("tick")))
		f.replica(f.client)
		m := f.join(f.workers)
		for n := 0; n < 20; {
			leased, err := m.Read(f.ctx, 10, 10*time.Second)
			require.NoError(t, err)
			require.NotEmpty(t, leased)
			for _, l := range leased {
				f.commit(m, dead(l, "no"))
			}
			n += len(leased)
		}
	})
}

// TestOldVersionIsLive is the rest of B126: a process of the old version fires what the new one has declared.
func TestOldVersionIsLive(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		require.NoError(t, s.Declare(f.ctx, "app", ticking("old"), ticking("both")))
		f.replica(tiertest.Dial(t, server))
		f.passes(s, "old", 3)
		changed := ticking("both")
		changed.Every = 2 * tick
		require.NoError(t, s.Declare(f.ctx, "app", ticking("new"), changed))
		f.replica(tiertest.Dial(t, server))
		f.occurrences(f.join(f.workers))
		f.passes(s, "new", 20)
		require.NoError(t, s.Declare(f.ctx, "app"))
		by := f.occurrences(f.join(f.workers))
		require.NotContains(t, by, "old")
		requireGrid(t, by["new"], tick, 15)
		requireGrid(t, by["both"], 2*tick, 7)
	})
}

// TestDeclaredMeanwhile: who has read a declaration that is not there any more makes nothing of it.
func TestDeclaredMeanwhile(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Shared(t, kind))
			s := queue.NewSchedules(f.jobs)
			require.NoError(t, s.Put(f.ctx, nightly("report")))
			f.do("ZADD", f.queue.OccurrencesKey(), "1000", "report")
			proxy := tiertest.NewProxy(t, f.server)
			declare := sync.OnceFunc(func() {
				changed := nightly("report")
				changed.Job.Data = []byte("new")
				require.NoError(t, s.Put(f.ctx, changed))
			})
			proxy.DropRequests(1, func(cmd []string) bool {
				if f.fires(cmd) {
					declare() // before the call is through
				}
				return false
			})
			f.replica(tiertest.Dial(t, proxy))
			f.passes(s, "report", 0)
			leased := f.read(f.join(f.workers), 1)
			require.Equal(t, "new", string(leased[0].Records[0].Data))
		})
	}
}

// TestFullServerFires: what a full server refuses is not lost.
func TestFullServerFires(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Private(t, kind))
			s := queue.NewSchedules(f.jobs)
			require.NoError(t, s.Put(f.ctx, ticking("tick")))
			proxy := tiertest.NewProxy(t, f.server)
			f.do("CONFIG", "SET", "maxmemory", "1")
			f.replica(tiertest.Dial(t, proxy))
			tiertest.Eventually(t, time.Minute, func() (bool, string) {
				n := proxy.Commands()["EVALSHA"] + proxy.Commands()["EVAL"]
				return n > 6, strconv.Itoa(n)
			})
			require.Zero(t, f.declared(s)[0].Last)
			f.do("CONFIG", "SET", "maxmemory", "0")
			f.passes(s, "tick", 10)
			requireGrid(t, f.occurrences(f.join(f.workers))["tick"], tick, 10)
		})
	}
}

// TestUnreadableDeclaration: one that another version has written keeps no other from firing, and is told once.
func TestUnreadableDeclaration(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		require.NoError(t, s.Put(f.ctx, ticking("tick")))
		f.do("HSET", f.queue.SchedulesKey(), "broken", "\xc1")
		f.do("ZADD", f.queue.OccurrencesKey(), "1000", "broken")
		f.replica(f.client)
		f.passes(s, "tick", 10)
		list := f.declared(s)
		require.Equal(t, "broken", list[0].Name)
		require.Error(t, list[0].Err)
		require.NoError(t, s.Put(f.ctx, nightly("broken")))
		require.NoError(t, f.declared(s)[0].Err)
	})
}

// TestSchedulesReadNoClock is what B124 is for schedules: no clock of a process says when anything is due.
func TestSchedulesReadNoClock(t *testing.T) {
	for _, file := range []string{"schedule.go", "schedules.go", "fire.go", "schedule/expression.go", "schedule/span.go", "schedule/times.go", "schedule/catchup.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotRegexp(t, `time\.(Now|Since|Until|Local)\b`, string(source), file)
	}
}

// TestFireTellsWhenNext: whoever has fired knows how long there is nothing to do, and looks for what others declare all the same.
func TestFireTellsWhenNext(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		for _, n := range []int{0, 1} { // none; one that is due in years
			wait, err := s.Fire(f.ctx)
			require.NoError(t, err)
			require.Equal(t, 5*time.Second, wait, "with %d", n)
			require.NoError(t, s.Put(f.ctx, nightly("report")))
		}
		one := ticking("soon")
		one.Every = 4 * time.Second
		require.NoError(t, s.Put(f.ctx, one))
		wait, err := s.Fire(f.ctx)
		require.NoError(t, err)
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, one.Every)
	})
}
