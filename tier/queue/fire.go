package queue

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue/schedule"
)

const (
	// fireLook is how long what others declare goes unnoticed.
	fireLook = 5 * time.Second
	// fireAtOnce is how many occurrences of one schedule one call fires for.
	fireAtOnce = 100
)

// Run fires schedules until ctx ends, and returns nil then; or the error of a server that will not have it. Each program that
// works on the queue runs it: at any time one of them fires, and those that find nothing due send a command every five seconds.
func (s *Schedules) Run(ctx context.Context) error {
	f := s.firing()
	for failed := 0; ctx.Err() == nil; {
		wait, err := f.due(ctx)
		switch {
		case err == nil:
			failed = 0
		case ctx.Err() != nil:
			return nil
		case surfaces(err):
			return err
		default:
			if failed++; failed == 1 {
				f.log.Warn("schedules were not fired, it is tried again", "err", err)
			}
			wait = tier.CallDelay(failed)
		}
		tier.Pause(ctx, wait)
	}
	return nil
}

// Fire fires all that is due, once, and tells how long there is nothing to do then. It can be repeated after any error.
func (s *Schedules) Fire(ctx context.Context) (wait time.Duration, err error) {
	return s.firing().due(ctx)
}

// surfaces says that an error does not go away by itself.
func surfaces(err error) bool {
	class := tier.Classify(err)
	return class != nil && class.Reaction == tier.Surface && class != tier.ErrCancelled
}

// firing is one Run.
type firing struct {
	*Schedules
	log  *slog.Logger
	told map[string]string // declarations that cannot be fired, by schedule
}

func (s *Schedules) firing() *firing {
	return &firing{Schedules: s, log: s.jobs.client.Logger().With("queue", string(s.jobs.queue)), told: map[string]string{}}
}

// due fires all that is due, and tells how long there is nothing to do then.
func (f *firing) due(ctx context.Context) (wait time.Duration, err error) {
	for {
		l, err := f.listing(ctx, "due", maxSchedules)
		if err != nil {
			return 0, err
		}
		left := 0
		for i := range l.rows {
			p, err := l.rows[i].plan(l.now)
			if err != nil {
				left++
				f.tell(&l.rows[i], err)
				continue
			}
			if p.dropped && l.now.Sub(l.rows[i].next) > schedule.Grace {
				f.log.Warn("occurrences of a schedule were missed and are dropped", "schedule", l.rows[i].name, "from", l.rows[i].next, "catch_up", l.rows[i].declared.CatchUp)
			}
			if err := f.fire(ctx, &l.rows[i], p); err != nil {
				return 0, err
			}
		}
		if left == len(l.rows) {
			if l.rest < 0 || l.rest > fireLook {
				return fireLook, nil
			}
			return l.rest, nil
		}
	}
}

// tell says once of a declaration that it cannot be fired here.
func (f *firing) tell(r *scheduleRow, err error) {
	if f.told[r.name] != r.text {
		f.told[r.name] = r.text
		f.log.Error("a schedule cannot be fired here: declare it anew, or run a version that reads it", "schedule", r.name, "err", err)
	}
}

// plan is what one call fires.
type plan struct {
	jobs      []encoded   // without ids
	due       []time.Time // what for
	following time.Time
	dropped   bool // others that were due
}

// plan decides what to fire for a schedule that is due.
func (r *scheduleRow) plan(now time.Time) (p plan, err error) {
	if r.err != nil {
		return p, r.err
	}
	times, err := r.declared.times()
	if err != nil {
		return p, err
	}
	p.due, p.following = schedule.CatchUp(r.declared.CatchUp).Due(times, r.next, now, r.declared.Limit)
	p.dropped = len(p.due) == 0 || !p.due[0].Equal(r.next)
	for _, at := range p.due[:min(len(p.due), fireAtOnce)] {
		job, err := r.declared.job(r.name, at)
		if err != nil {
			return p, err
		}
		e, err := job.encode()
		if err != nil {
			return p, err
		}
		p.jobs = append(p.jobs, e)
	}
	p.jobs = p.jobs[:atOnce(p.jobs)]
	if len(p.jobs) < len(p.due) {
		p.following = p.due[len(p.jobs)]
	}
	return p, nil
}

// fire makes the jobs, under new ids, unless somebody is faster.
func (f *firing) fire(ctx context.Context, r *scheduleRow, p plan) error {
	ids := make([]codec.ID, len(p.jobs))
	if err := f.jobs.mint.next(ctx, ids); err != nil {
		return err
	}
	args := []string{r.name, r.text, unixMillis(r.next), unixMillis(p.following)}
	for i, j := range p.jobs {
		args = append(args, ids[i].String(), unixMillis(p.due[i]), j.lane, j.message, j.options, j.unique, strings.TrimPrefix(j.policy, string(Keep)))
	}
	q := f.jobs.queue
	_, err := f.jobs.client.Run(ctx, tier.Call{Script: fireScript, Keys: []string{
		q.SchedulesKey(), q.OccurrencesKey(), q.JobsKey(), q.BodiesKey(), q.JobsDueKey(), q.WorkersKey(), q.WakeKey(),
		q.UniqueKey(), q.QueueKey(), q.Events().LogKey(),
	}, Args: args})
	return err
}
