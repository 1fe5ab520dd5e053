package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	maxSchedules = 1000 // of a queue
	declareTries = 10   // while others declare
)

// Schedules make jobs of a queue at certain times. They are declared on the server, so that there is one set of them, and any
// number of processes fires it: [Schedules.Run].
//
// For each occurrence one of them makes the job, in the script that stores the next occurrence: neither is there without the
// other, and who comes later finds the occurrence gone. By the server's clock, whatever that of a process says. What becomes of the jobs
// does not matter to their schedule. They are made while the queue is paused, too, and wait like others.
type Schedules struct{ jobs *Client }

// NewSchedules are those of the client's queue.
func NewSchedules(jobs *Client) *Schedules { return &Schedules{jobs} }

// Declared is a schedule as the server has it.
type Declared struct {
	Schedule
	Set     string    // that it was declared with, or ""
	Next    time.Time // the first occurrence that nobody has fired for; zero: there is none
	Last    time.Time // the last one that a job was made for; zero: none
	LastJob codec.ID
	Err     error // it cannot be read here: only Name, Next, Last and LastJob are known
}

// Declare makes schedules the whole of a set: those of the set that are not among them are removed. Those whose times are as they were
// keep their next occurrence; the others begin with the first that is to come. A program declares its schedules when it starts, under a
// name of its own: after a deployment there is what the last one has declared, and processes of an older version, which go by what is on
// the server, fire that.
//
// Errors: what is wrong with a schedule, with nothing done: ErrBadCall, *schedule.SyntaxError, *schedule.ZoneError,
// schedule.ErrInterval; *ScheduleTakenError. It can be repeated after any error.
func (s *Schedules) Declare(ctx context.Context, set string, list ...Schedule) error {
	if err := tier.CheckName("set", set); err != nil {
		return err
	}
	return s.change(ctx, set, list, func(name string, d declaration) bool { return d.Set == set })
}

// Put declares one schedule outside any set, or changes it, with the errors of Declare.
func (s *Schedules) Put(ctx context.Context, one Schedule) error {
	return s.change(ctx, "", []Schedule{one}, nil)
}

// Remove removes a schedule, of whichever set; until the program that declares the set does so again. Its jobs stay. The error is
// ErrNoSchedule when there is none.
func (s *Schedules) Remove(ctx context.Context, name string) error {
	found := false
	err := s.change(ctx, "", nil, func(n string, _ declaration) bool {
		found = found || n == name
		return n == name
	})
	if err == nil && !found {
		return fmt.Errorf("%w (%s in %s)", ErrNoSchedule, name, s.jobs.queue)
	}
	return err
}

// List tells of all schedules, by name.
func (s *Schedules) List(ctx context.Context) ([]Declared, error) {
	l, err := s.listing(ctx, "all", maxSchedules)
	if err != nil {
		return nil, err
	}
	list := make([]Declared, len(l.rows))
	for i, r := range l.rows {
		list[i] = Declared{Schedule: Schedule{Name: r.name}, Next: r.next, Err: r.err}
		if d := &list[i]; r.err == nil {
			d.Set = r.declared.Set
			d.Schedule, d.Err = r.declared.schedule(r.name)
		}
		if ms, job, ok := strings.Cut(r.last, " "); ok {
			at, _ := strconv.ParseInt(ms, 10, 64)
			list[i].Last = time.UnixMilli(at).UTC()
			list[i].LastJob, _ = codec.Parse(job)
		}
	}
	slices.SortFunc(list, func(a, b Declared) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// FireNow makes the job of a schedule at once, for now, beside its occurrences, with the errors of Client.Enqueue, and
// ErrNoSchedule.
func (s *Schedules) FireNow(ctx context.Context, name string) (codec.ID, error) {
	l, err := s.listing(ctx, "all", maxSchedules)
	if err != nil {
		return codec.ID{}, err
	}
	for _, r := range l.rows {
		if r.name != name {
			continue
		}
		if r.err != nil {
			return codec.ID{}, r.err
		}
		job, err := r.declared.job(name, l.now)
		if err != nil {
			return codec.ID{}, err
		}
		return s.jobs.Enqueue(ctx, job)
	}
	return codec.ID{}, fmt.Errorf("%w (%s in %s)", ErrNoSchedule, name, s.jobs.queue)
}

// change puts schedules and removes those that goes chooses, all or none.
func (s *Schedules) change(ctx context.Context, set string, list []Schedule, goes func(string, declaration) bool) error {
	put := map[string]declaration{}
	for i := range list {
		d, err := list[i].declare(set)
		if err != nil {
			return err
		}
		if _, twice := put[list[i].Name]; twice {
			return fmt.Errorf("%w: two schedules are called %s", ErrBadCall, list[i].Name)
		}
		put[list[i].Name] = d
	}
	lead := time.Duration(0) // of first occurrences, which must not have passed when they are declared
	for try := 1; ; try++ {
		l, err := s.listing(ctx, "all", maxSchedules)
		if err != nil {
			return err
		}
		l.now = l.now.Add(lead)
		args, err := l.changes(set, put, goes)
		if err != nil || len(args) == 0 {
			return err
		}
		declared, err := s.declare(ctx, l.revision, args)
		switch {
		case err != nil || declared == 1:
			return err
		case declared < 0:
			lead = 2*lead + 10*time.Millisecond
		}
		if try == declareTries || !tier.Pause(ctx, tier.CallDelay(try)) {
			return errors.Join(fmt.Errorf("queue: schedules of %s were not declared: others declare all the time, or the server takes longer than %s to answer", s.jobs.queue, lead), ctx.Err())
		}
	}
}

func (s *Schedules) declare(ctx context.Context, revision string, changes []string) (reply int64, err error) {
	q := s.jobs.queue
	m, err := s.jobs.client.Run(ctx, tier.Call{
		Script: declareScript, Keys: []string{q.SchedulesKey(), q.OccurrencesKey()}, Args: append([]string{revision}, changes...),
	})
	if err != nil {
		return 0, err
	}
	return m.AsInt64()
}

// listing is what the server says of schedules.
type listing struct {
	now      time.Time // of the server
	revision string
	rest     time.Duration // until the first of those that are not listed; negative: there is none
	rows     []scheduleRow
}

type scheduleRow struct {
	name     string
	next     time.Time // zero: none
	text     string    // of the declaration
	last     string
	declared declaration
	err      error // why it cannot be read
}

func (s *Schedules) listing(ctx context.Context, which string, count int) (l listing, err error) {
	q := s.jobs.queue
	reply, err := s.jobs.client.Run(ctx, tier.Call{
		Script: schedulesScript, Keys: []string{q.SchedulesKey(), q.OccurrencesKey()}, Args: []string{which, strconv.Itoa(count)},
	})
	if err != nil {
		return l, err
	}
	parts, err := tier.Parts("schedules", reply, 4)
	if err != nil {
		return l, err
	}
	now, err1 := parts[0].AsInt64()
	revision, err2 := parts[1].ToString()
	rest, err3 := parts[2].AsInt64()
	rows, err4 := parts[3].ToArray()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return l, fmt.Errorf("queue: schedules: %w", err)
	}
	l = listing{now: time.UnixMilli(now).UTC(), revision: revision, rest: time.Duration(rest) * time.Millisecond}
	for _, m := range rows {
		row, err := readScheduleRow(m)
		if err != nil {
			return l, err
		}
		l.rows = append(l.rows, row)
	}
	return l, nil
}

func readScheduleRow(m rueidis.RedisMessage) (r scheduleRow, err error) {
	texts, err := tier.Texts("schedules", m, 4)
	if err != nil {
		return r, err
	}
	r = scheduleRow{name: texts[0], text: texts[2], last: texts[3]}
	if texts[1] != "" {
		ms, err := strconv.ParseInt(texts[1], 10, 64)
		if err != nil {
			return r, fmt.Errorf("queue: schedules: the next of %s: %w", r.name, err)
		}
		r.next = time.UnixMilli(ms).UTC()
	}
	r.declared, r.err = decodeDeclaration(r.text)
	return r, nil
}

// changes are the arguments of declare.lua for what differs from the server.
func (l *listing) changes(set string, put map[string]declaration, goes func(string, declaration) bool) (args []string, err error) {
	rows := map[string]scheduleRow{}
	for _, r := range l.rows {
		rows[r.name] = r
		if _, stays := put[r.name]; !stays && goes != nil && goes(r.name, r.declared) {
			args = append(args, r.name, "", "")
			delete(rows, r.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(put)) {
		d := put[name]
		r, there := rows[name]
		if there && r.err == nil && r.declared.Set != set {
			return nil, &ScheduleTakenError{Name: name, Set: r.declared.Set}
		}
		text, err := d.encode()
		if err != nil {
			return nil, err
		}
		if there && r.text == text && !r.next.IsZero() {
			continue
		}
		first := ""
		if !there || r.err != nil || r.next.IsZero() || !r.declared.sameTimes(&d) {
			times, err := d.times()
			if err != nil {
				return nil, err
			}
			first = unixMillis(times.Next(l.now))
		}
		args = append(args, name, text, first)
	}
	for name := range put {
		rows[name] = scheduleRow{}
	}
	if len(rows) > maxSchedules {
		return nil, fmt.Errorf("%w: more than %d schedules in one queue", ErrBadCall, maxSchedules)
	}
	return args, nil
}

// unixMillis is a time as scripts take it; "" for none.
func unixMillis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}
