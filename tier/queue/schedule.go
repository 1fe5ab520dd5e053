package queue

import (
	"fmt"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue/schedule"
)

const (
	defaultCatchUpLimit = 100
	maxCatchUpLimit     = 1000
)

// Headers of a job that a schedule has made.
const (
	// HeaderSchedule names the schedule.
	HeaderSchedule = "schedule"
	// HeaderOccurrence is the time that the job is for, in RFC 3339 with milliseconds, in UTC: that which the schedule names,
	// not that when somebody got to it.
	HeaderOccurrence = "occurrence"
)

// Schedule says when which job is made: Name, Job, and either Cron or Every are needed.
type Schedule struct {
	// Name is one of its own in the queue.
	Name string
	// Cron is an expression as schedule.Cron takes it.
	Cron string
	// Zone is that of Cron, of the IANA database. Default UTC.
	Zone string
	// Every is an interval in whole milliseconds, in place of Cron.
	Every time.Duration
	// Anchor is a point of the interval's grid. Default 1970-01-01T00:00:00Z.
	Anchor time.Time
	// CatchUp is what becomes of what was due while nobody fired. Default schedule.Once.
	CatchUp schedule.CatchUp
	// Limit is how many jobs schedule.All makes for what was missed. Default 100, at most 1000. Low, occurrences are lost after
	// a long stop; high, the queue is full of what is late.
	Limit int
	// Job is what is made, under an id of its own each time. It has no ID, Delay and At, and has HeaderSchedule and
	// HeaderOccurrence added. With a unique key, whose Conflict is Keep, none is made while another has the key: so a job that
	// takes longer than its interval does not overlap itself.
	Job Job
}

// declaration is a schedule as it is stored: a msgpack array; later versions may add to its end.
type declaration struct {
	_msgpack struct{} `msgpack:",as_array"` //lint:ignore U1000 the library looks for it by reflection

	Set     string // that it was declared with, or ""
	Cron    string
	Zone    string
	Every   int64 // ms
	Anchor  int64 // unix ms
	CatchUp string
	Limit   int
	Lane    string
	Message []byte
	Options []byte // the job's terms
	Unique  string // as enqueue.lua takes both
	Policy  string
}

// declare checks a schedule.
func (s *Schedule) declare(set string) (d declaration, err error) {
	if err := tier.CheckName("schedule", s.Name); err != nil {
		return d, err
	}
	refuse := func(err error) (declaration, error) {
		return declaration{}, fmt.Errorf("queue: schedule %s: %w", s.Name, err)
	}
	catchUp, err := schedule.ParseCatchUp(string(s.CatchUp))
	if err != nil {
		return refuse(err)
	}
	limit := s.Limit
	if limit == 0 {
		limit = defaultCatchUpLimit
	}
	switch {
	case (s.Cron == "") == (s.Every == 0), s.Cron == "" && s.Zone != "", s.Cron != "" && !s.Anchor.IsZero():
		return refuse(fmt.Errorf("%w: it has either Cron and a Zone, or Every and an Anchor", ErrBadCall))
	case limit < 1 || limit > maxCatchUpLimit:
		return refuse(fmt.Errorf("%w: Limit is %d, want 1 to %d", ErrBadCall, limit, maxCatchUpLimit))
	case !s.Job.ID.IsZero() || s.Job.Delay != 0 || !s.Job.At.IsZero():
		return refuse(fmt.Errorf("%w: its job has an ID, a Delay or an At, which a schedule gives", ErrBadCall))
	}
	d = declaration{Set: set, Cron: s.Cron, Zone: s.Zone, CatchUp: string(catchUp), Limit: limit}
	if s.Cron == "" {
		d.Every = s.Every.Milliseconds()
		if !s.Anchor.IsZero() {
			d.Anchor = s.Anchor.UnixMilli()
		}
		if _, err := schedule.Every(s.Every, s.Anchor); err != nil {
			return refuse(err)
		}
	}
	if _, err := d.times(); err != nil {
		return refuse(err)
	}
	e, err := s.Job.encode()
	if err != nil {
		return refuse(err)
	}
	if e.policy != "" && !strings.HasPrefix(e.policy, string(Keep)) {
		return refuse(fmt.Errorf("%w: the unique key of its job ends a conflict with Keep", ErrBadCall))
	}
	d.Lane, d.Message, d.Options, d.Unique, d.Policy = e.lane, []byte(e.message), []byte(e.options), e.unique, e.policy
	if _, err := d.job(s.Name, time.UnixMilli(0)); err != nil { // with its headers
		return refuse(err)
	}
	return d, nil
}

// times are its occurrences.
func (d *declaration) times() (schedule.Times, error) {
	if d.Cron != "" {
		return schedule.Cron(d.Cron, d.Zone)
	}
	return schedule.Every(time.Duration(d.Every)*time.Millisecond, time.UnixMilli(d.Anchor))
}

// sameTimes says that both are due at the same times, whatever they make.
func (d *declaration) sameTimes(other *declaration) bool {
	return d.Cron == other.Cron && d.Zone == other.Zone && d.Every == other.Every && d.Anchor == other.Anchor
}

// template is the job without its message.
func (d *declaration) template() Job {
	return Job{Lane: d.Lane, Terms: *termsOf(string(d.Options)), Unique: uniqueOf(d.Unique, d.Policy)}
}

// job is what is made for an occurrence.
func (d *declaration) job(name string, occurrence time.Time) (Job, error) {
	j := d.template()
	if _, err := codec.DecodeMessage(d.Message, &j.Message); err != nil {
		return j, err
	}
	j.Headers.Set(HeaderSchedule, name)
	j.Headers.Set(HeaderOccurrence, occurrence.UTC().Format("2006-01-02T15:04:05.000Z"))
	_, err := j.encode()
	return j, err
}

func (d *declaration) encode() (string, error) {
	text, err := msgpack.Marshal(d)
	return string(text), err
}

func decodeDeclaration(text string) (d declaration, err error) {
	err = msgpack.Unmarshal([]byte(text), &d)
	return d, err
}

// schedule is what was declared.
func (d *declaration) schedule(name string) (Schedule, error) {
	s := Schedule{Name: name, Cron: d.Cron, Zone: d.Zone, CatchUp: schedule.CatchUp(d.CatchUp), Limit: d.Limit, Job: d.template()}
	if d.Cron == "" {
		s.Every, s.Anchor = time.Duration(d.Every)*time.Millisecond, time.UnixMilli(d.Anchor).UTC()
	}
	_, err := codec.DecodeMessage(d.Message, &s.Job.Message)
	return s, err
}
