package queue_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/tier/tiertest"
)

// nightly is a schedule that is not due while a test runs, except at midnight UTC of a leap day.
func nightly(name string) queue.Schedule {
	return queue.Schedule{Name: name, Cron: "0 0 29 2 *", Job: queue.Job{Lane: "night", Message: codec.Message{Type: "report", Data: []byte(name)}}}
}

func (f *fixture) declared(s *queue.Schedules) []queue.Declared {
	f.t.Helper()
	list, err := s.List(f.ctx)
	require.NoError(f.t, err)
	return list
}

// names are those of all schedules, with their sets.
func (f *fixture) names(s *queue.Schedules) (names []string) {
	f.t.Helper()
	for _, d := range f.declared(s) {
		require.NoError(f.t, d.Err)
		names = append(names, d.Set+"/"+d.Name)
	}
	return names
}

// TestDeclare is B126: what was deployed last is what there is, whatever was before, and nothing fires twice for it.
func TestDeclare(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		require.NoError(t, s.Put(f.ctx, nightly("own")))
		require.NoError(t, s.Declare(f.ctx, "other", nightly("theirs")))
		require.NoError(t, s.Declare(f.ctx, "app", nightly("kept"), nightly("renamed"), nightly("gone"), nightly("moved")))
		require.Equal(t, []string{"app/gone", "app/kept", "app/moved", "/own", "app/renamed", "other/theirs"}, f.names(s))

		for _, name := range []string{"kept", "moved"} { // both are due
			f.do("ZADD", f.queue.OccurrencesKey(), "1000", name)
		}
		kept, moved := nightly("kept"), nightly("moved")
		kept.Job.Data, moved.Cron = []byte("other"), "0 0 1 1 *"
		for range 2 { // the second replica changes nothing
			require.NoError(t, s.Declare(f.ctx, "app", moved, nightly("new"), kept))
			require.Equal(t, []string{"app/kept", "app/moved", "app/new", "/own", "other/theirs"}, f.names(s))
		}
		list := f.declared(s)
		require.Equal(t, "other", string(list[0].Job.Data))
		require.Equal(t, int64(1000), list[0].Next.UnixMilli(), "its times are the same: what is due is not lost")
		require.True(t, list[1].Next.After(time.Now()), "its times are other ones")

		require.NoError(t, s.Declare(f.ctx, "app"))
		require.Equal(t, []string{"/own", "other/theirs"}, f.names(s))
		require.Equal(t, "2", f.text("ZCARD", f.queue.OccurrencesKey()))

		var taken *queue.ScheduleTakenError
		require.ErrorAs(t, s.Declare(f.ctx, "app", nightly("new"), nightly("theirs")), &taken)
		require.Equal(t, "other", taken.Set)
		require.ErrorAs(t, s.Put(f.ctx, nightly("theirs")), &taken)
		require.Equal(t, []string{"/own", "other/theirs"}, f.names(s), "all or none")

		require.NoError(t, s.Remove(f.ctx, "theirs"))
		require.ErrorIs(t, s.Remove(f.ctx, "theirs"), queue.ErrNoSchedule)
		require.Equal(t, []string{"/own"}, f.names(s))
	})
}

// TestDeclareAtOnce: versions that are deployed at once leave the set of one of them, not a mixture.
func TestDeclareAtOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		var deployed sync.WaitGroup
		errs := make([]error, 4)
		for version := range errs {
			deployed.Go(func() {
				v := strconv.Itoa(version)
				errs[version] = s.Declare(f.ctx, "app", nightly("a"+v), nightly("b"+v), nightly("shared"))
			})
		}
		deployed.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		names := f.names(s)
		require.Len(t, names, 3)
		require.Equal(t, names[0][len("app/a"):], names[1][len("app/b"):], "%v", names)
	})
}

func TestListAndFireNow(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		s := queue.NewSchedules(f.jobs)
		want := queue.Schedule{
			Name: "report", Cron: "0 0 29 2 *", Zone: "Europe/Berlin", CatchUp: schedule.All, Limit: 7,
			Job: queue.Job{Lane: "night", Message: codec.Message{Type: "report", Key: "k", Headers: codec.Headers{{Key: "h", Value: "v"}}, Data: []byte{0, 0xff}}},
		}
		require.NoError(t, s.Put(f.ctx, want))
		list := f.declared(s)
		require.Len(t, list, 1)
		require.Equal(t, want, list[0].Schedule)
		require.Zero(t, list[0].Last)
		require.Equal(t, 29, list[0].Next.In(time.FixedZone("", 3600)).Day())

		id, err := s.FireNow(f.ctx, "report")
		require.NoError(t, err)
		info := f.get(id)
		require.Equal(t, "night", info.Lane)
		require.Equal(t, want.Job.Data, info.Message.Data)
		name, _ := info.Message.Headers.Get(queue.HeaderSchedule)
		require.Equal(t, "report", name)
		require.Equal(t, list, f.declared(s), "its occurrences are as they were")
		_, err = s.FireNow(f.ctx, "other")
		require.ErrorIs(t, err, queue.ErrNoSchedule)
	})
}

func TestScheduleRefused(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	s := queue.NewSchedules(f.jobs)
	tests := []struct {
		name   string
		change func(*queue.Schedule)
		want   string
	}{
		{"name", func(s *queue.Schedule) { s.Name = "a:last" }, "schedule"},
		{"no times", func(s *queue.Schedule) { s.Cron = "" }, "either Cron"},
		{"two kinds of times", func(s *queue.Schedule) { s.Every = time.Second }, "either Cron"},
		{"an interval in a zone", func(s *queue.Schedule) { s.Cron, s.Every, s.Zone = "", time.Second, "Europe/Berlin" }, "either Cron"},
		{"an expression with an anchor", func(s *queue.Schedule) { s.Anchor = time.Unix(1, 0) }, "either Cron"},
		{"expression", func(s *queue.Schedule) { s.Cron = "0 24 * * *" }, "column 3"},
		{"zone", func(s *queue.Schedule) { s.Zone = "Mars/Olympus" }, "Mars/Olympus"},
		{"interval", func(s *queue.Schedule) { s.Cron, s.Every = "", time.Second+1 }, "whole milliseconds"},
		{"catch-up", func(s *queue.Schedule) { s.CatchUp = "twice" }, "once, skip or all"},
		{"limit", func(s *queue.Schedule) { s.Limit = 1001 }, "1 to 1000"},
		{"lane", func(s *queue.Schedule) { s.Job.Lane = "a b" }, "lane"},
		{"conflict", func(s *queue.Schedule) { s.Job.Unique = queue.Unique{Key: "k", Conflict: queue.Refuse} }, "Keep"},
		{"delay", func(s *queue.Schedule) { s.Job.Delay = time.Second }, "Delay"},
		{"too large", func(s *queue.Schedule) { s.Job.Data = make([]byte, 9<<20) }, "bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one := nightly("a")
			tt.change(&one)
			require.ErrorContains(t, s.Put(f.ctx, one), tt.want)
		})
	}
	require.ErrorIs(t, s.Declare(f.ctx, "app", nightly("a"), nightly("a")), queue.ErrBadCall)
	many := make([]queue.Schedule, 1001)
	for i := range many {
		many[i] = nightly(fmt.Sprint(i))
	}
	require.ErrorContains(t, s.Declare(f.ctx, "app", many...), "1000 schedules")
	require.Empty(t, f.declared(s))
	require.NoError(t, s.Declare(f.ctx, "app", many[:1000]...))
	require.NoError(t, s.Declare(f.ctx, "app", many[1:]...))
	require.Len(t, f.declared(s), 1000)
}

// TestCheckSchedules: the audit finds what is declared or due, and not both, and what cannot be read.
func TestCheckSchedules(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		f := setUp(t, server)
		check := func() error { return queue.Check(f.ctx, f.client, string(f.queue)) }
		s := queue.NewSchedules(f.jobs)
		require.NoError(t, s.Declare(f.ctx, "app", nightly("fine"), nightly("never")))
		require.NoError(t, check())
		f.do("ZREM", f.queue.OccurrencesKey(), "never")
		f.do("ZADD", f.queue.OccurrencesKey(), "1000", "orphan")
		f.do("HSET", f.queue.SchedulesKey(), "broken", "\xc1")
		err := check()
		for _, broken := range []string{"orphan is due and was not declared", "broken cannot be read", "never was declared and is never due"} {
			require.ErrorContains(t, err, broken)
		}
		require.NotContains(t, err.Error(), "fine")
		require.NoError(t, s.Remove(f.ctx, "orphan"))
		require.NoError(t, s.Remove(f.ctx, "broken"))
		require.NoError(t, s.Declare(f.ctx, "app", nightly("fine"), nightly("never")), "and what is declared anew is due again")
		require.NoError(t, check())
	})
}

// TestDeclareFarAway: a schedule that is due again before a call arrives can be declared all the same.
func TestDeclareFarAway(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	s := queue.NewSchedules(f.newClient(queue.Config{}))
	proxy.Delay(15 * time.Millisecond)
	require.NoError(t, s.Declare(f.ctx, "set", queue.Schedule{Name: "often", Every: time.Millisecond}))
	list, err := s.List(f.ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.False(t, list[0].Next.IsZero())
}
