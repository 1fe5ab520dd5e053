package queue_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/tier/tiertest"
)

// planned is what the twin knows of a schedule.
type planned struct {
	queue.Schedule
	set  string
	next time.Time
}

// planner is schedules, dumb: grids of hours around a moment half an hour ago, so that nothing comes to be due meanwhile.
type planner struct {
	f         *fixture
	schedules *queue.Schedules
	now       time.Time
	have      map[string]planned
	made      map[string][]time.Time
}

func drawSchedule(t *rapid.T, name string, now time.Time) queue.Schedule {
	return queue.Schedule{
		Name: name, Every: time.Duration(rapid.IntRange(1, 3).Draw(t, "hours")) * time.Hour, Anchor: now.Add(-30 * time.Minute).Truncate(time.Second),
		CatchUp: rapid.SampledFrom([]schedule.CatchUp{schedule.Once, schedule.Skip, schedule.All}).Draw(t, "catch-up"),
		Limit:   rapid.IntRange(1, 150).Draw(t, "limit"), Job: queue.Job{Message: codec.Message{Type: "t"}},
	}
}

var scheduleNames = []string{"a", "b", "c", "d"}

func (p *planner) put(set string, s queue.Schedule) {
	next := s.Anchor.Add(s.Every)
	if old, ok := p.have[s.Name]; ok && old.Every == s.Every {
		next = old.next
	}
	p.have[s.Name] = planned{s, set, next}
}

func (p *planner) declare(t *rapid.T) {
	set := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "set")
	var list []queue.Schedule
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(scheduleNames), rapid.ID[string]).Draw(t, "names") {
		list = append(list, drawSchedule(t, name, p.now))
	}
	err := p.schedules.Declare(p.f.ctx, set, list...)
	for _, s := range list {
		if old, ok := p.have[s.Name]; ok && old.set != set {
			var taken *queue.ScheduleTakenError
			require.ErrorAs(t, err, &taken)
			return
		}
	}
	require.NoError(t, err)
	maps.DeleteFunc(p.have, func(name string, s planned) bool {
		return s.set == set && !slices.ContainsFunc(list, func(l queue.Schedule) bool { return l.Name == name })
	})
	for _, s := range list {
		p.put(set, s)
	}
}

func (p *planner) remove(t *rapid.T) {
	name := rapid.SampledFrom(scheduleNames).Draw(t, "name")
	err := p.schedules.Remove(p.f.ctx, name)
	if _, ok := p.have[name]; !ok {
		require.ErrorIs(t, err, queue.ErrNoSchedule)
		return
	}
	require.NoError(t, err)
	delete(p.have, name)
}

// stop lets a schedule be as if nobody had fired it for a while.
func (p *planner) stop(t *rapid.T) {
	name := rapid.SampledFrom(scheduleNames).Draw(t, "name")
	s, ok := p.have[name]
	if !ok {
		return
	}
	s.next = s.Anchor.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "missed")) * s.Every)
	p.have[name] = s
	p.f.do("ZADD", p.f.queue.OccurrencesKey(), strconv.FormatInt(s.next.UnixMilli(), 10), name)
}

func (p *planner) fire(t *rapid.T) {
	_, err := p.schedules.Fire(p.f.ctx)
	require.NoError(t, err)
	for name, s := range p.have {
		var due []time.Time
		for ; !s.next.After(p.now); s.next = s.next.Add(s.Every) {
			due = append(due, s.next.UTC())
		}
		p.have[name] = s
		switch {
		case s.CatchUp == schedule.Skip:
			due = nil // half an hour late
		case s.CatchUp == schedule.Once:
			due = due[max(0, len(due)-1):]
		default:
			due = due[max(0, len(due)-s.Limit):]
		}
		if len(due) > 0 {
			p.made[name] = append(p.made[name], due...)
		}
	}
}

func (p *planner) check(t *rapid.T) {
	list, err := p.schedules.List(p.f.ctx)
	require.NoError(t, err)
	require.Len(t, list, len(p.have))
	for _, d := range list {
		want := p.have[d.Name]
		require.Equal(t, want.set, d.Set, d.Name)
		require.Equal(t, want.next.UnixMilli(), d.Next.UnixMilli(), d.Name)
	}
}

// TestSchedulesModel: whatever is declared, removed, left alone for a while and fired, there is what a dumb twin says, and the
// jobs are those of its occurrences.
func TestSchedulesModel(t *testing.T) {
	server := tiertest.Shared(t, tiertest.Valkey)
	rapid.Check(t, func(rt *rapid.T) {
		f := setUp(t, server)
		now, err := f.client.Now(f.ctx, f.queue.SchedulesKey())
		require.NoError(rt, err)
		p := &planner{f: f, schedules: queue.NewSchedules(f.jobs), now: now, have: map[string]planned{}, made: map[string][]time.Time{}}
		rt.Repeat(map[string]func(*rapid.T){
			"declare": p.declare, "remove": p.remove, "stop": p.stop, "fire": p.fire, "": p.check,
		})
		got := f.occurrences(f.join(f.workers))
		for name := range got { // those of several fires lie in the order of their times
			slices.SortFunc(got[name], time.Time.Compare)
			slices.SortFunc(p.made[name], time.Time.Compare)
		}
		require.Equal(rt, p.made, got)
	})
}
