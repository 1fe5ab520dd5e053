package topology

import (
	"errors"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/topology/stage"
)

// Check says all that is wrong with a document that was made in Go; Load does so for one that is read. The error is Problems.
func (d *Document) Check() error { return d.check().err() }

func (d *Document) check() (p Problems) {
	switch {
	case d.Name == "":
		p.add("topology", "write what it is called, as in topology: shop", "the topology has no name")
	default:
		p.name("topology", "topology", d.Name)
	}
	if len(d.Include) > 0 {
		p.add("include", "put what it declares here, or load a file", "only a file includes others")
	}
	for _, name := range sorted(d.Scopes) {
		p.scope(name, d.Scopes[name])
	}
	for _, name := range sorted(d.Queues) {
		p.queue(name, d.Queues[name])
		if _, both := d.Scopes[name]; both {
			p.add("queues."+name, "give one of them another name", "there is a scope of that name, and a queue is a scope of its own")
		}
	}
	d.checkParts(&p)
	p.flow(d)
	return p
}

// name checks a name.
func (p *Problems) name(path, kind, name string) {
	var refused *tier.NameError
	if errors.As(tier.CheckName(kind, name), &refused) {
		p.add(path, "", "the name of a %s, %q: %s", kind, refused.Value, refused.Rule)
	}
}

func (p *Problems) scope(name string, s Scope) {
	path := "scopes." + name
	p.name(path, "scope", name)
	if s.Partitions < 0 || s.Partitions > codec.MaxPartitions {
		p.add(path+".partitions", "", "it is %d: want 1 to %d, or none", s.Partitions, codec.MaxPartitions)
	}
	brands := map[string]string{}
	for _, stream := range sorted(s.Streams) {
		st, path := s.Streams[stream], path+".streams."+stream
		p.name(path, "stream", stream)
		p.stream(path, st, s.Partitions > 0)
		if first, taken := brands[st.Brand]; taken && st.Brand != "" {
			p.add(path+".brand", "choose another, or leave it out", "stream %s of this scope has the brand %s", first, st.Brand)
		}
		brands[st.Brand] = stream
	}
}

func (p *Problems) stream(path string, s Stream, partitioned bool) {
	if _, err := codec.ParseBrand(s.Brand); err != nil && s.Brand != "" {
		p.add(path+".brand", "want three capital letters, A to Z", "it is %.64q", s.Brand)
	}
	switch {
	case s.Exclusive && s.Keyed:
		p.add(path+".exclusive", "choose one of the two", "a keyed stream has many writers, an exclusive one its own")
	case s.Exclusive && partitioned:
		p.add(path+".exclusive", "leave it out, or put the stream into a scope without partitions", "a stream in partitions has a writer of each, an exclusive one its own")
	}
	if err := s.Retention.policy().Validate(); err != nil {
		p.add(path+".retention", "", "%s", plain(err))
	}
	for _, name := range sorted(s.Groups) {
		g, path := s.Groups[name], path+".groups."+name
		p.name(path, "group", name)
		if g.Start != "" && g.Start != "head" && g.Start != "new" {
			p.add(path+".start", "want head, the oldest message, or new, what is appended afterwards", "it is %.64q", g.Start)
		}
		if lease := time.Duration(g.Lease); lease != 0 && (lease < stream.MinLease || lease%time.Millisecond != 0) {
			p.add(path+".lease", "", "it is %s: want %s or more, in whole milliseconds", g.Lease, stage.Duration(stream.MinLease))
		}
	}
}

// packages are those whose names stand before what they say.
var packages = strings.NewReplacer("stream: ", "", "queue: ", "", "schedule: ", "", "tier: ", "", "codec: ", "", "stage: ", "")

// plain is an error in the words of a document.
func plain(err error) string { return packages.Replace(strings.ReplaceAll(err.Error(), "\n", "; ")) }

func (p *Problems) queue(name string, q Queue) {
	path := "queues." + name
	p.name(path, "scope", name)
	p.count(path+".ceiling", q.Ceiling)
	p.count(path+".events", q.Events)
	for _, lane := range sorted(q.Lanes) {
		l, path := q.Lanes[lane], path+".lanes."+lane
		p.name(path, "lane", lane)
		p.count(path+".ceiling", l.Ceiling)
		if w := l.Weight; w != 0 && !(w >= 0.001 && w <= 1000) {
			p.add(path+".weight", "", "it is %g: want 0.001 to 1000", w)
		}
	}
	for _, name := range sorted(q.Schedules) {
		p.schedule(path+".schedules."+name, name, q.Schedules[name])
	}
}

func (p *Problems) count(path string, n int) {
	if n < 0 || n > 1<<31-1 {
		p.add(path, "", "it is %d: want 1 or more, or leave it out", n)
	}
}

func (p *Problems) schedule(path, name string, s Schedule) {
	p.name(path, "schedule", name)
	if s.Type == "" {
		p.add(path, "write type: and what its worker goes by", "the job has no type")
	}
	if s.Lane != "" {
		p.name(path+".lane", "lane", s.Lane)
	}
	if s.Limit < 0 || s.Limit > 1000 {
		p.add(path+".limit", "", "it is %d: want 1 to 1000", s.Limit)
	}
	if _, err := schedule.ParseCatchUp(s.CatchUp); err != nil {
		p.add(path+".catch_up", "want once, skip or all", "it is %.64q", s.CatchUp)
	}
	if _, err := s.queued(name); err != nil {
		p.add(path+".data", "write what JSON can hold", "it cannot be written as JSON")
	}
	p.times(path, s)
}

// times checks when a schedule is due.
func (p *Problems) times(path string, s Schedule) {
	var err error
	switch {
	case (s.Cron == "") == (s.Every == 0):
		p.add(path, "write cron: or every:, and not both", "nothing says when it is due, or two things do")
		return
	case s.Cron == "" && s.Zone != "":
		p.add(path+".zone", "leave it out", "zone is that of cron")
		return
	case s.Cron != "" && !s.Anchor.IsZero():
		p.add(path+".anchor", "leave it out", "anchor is that of every")
		return
	case s.Cron != "":
		_, err = schedule.Cron(s.Cron, s.Zone)
	default:
		_, err = schedule.Every(time.Duration(s.Every), s.Anchor)
	}
	var syntax *schedule.SyntaxError
	var zone *schedule.ZoneError
	switch {
	case errors.As(err, &syntax):
		p.add(path+".cron", "write five fields, as in 0 3 * * *, or @daily", "%s", syntax.Reason)
		last := (*p)[len(*p)-1]
		last.line, last.column = 1, syntax.Column
	case errors.As(err, &zone):
		p.add(path+".zone", "write a name of the time zone database, as in Europe/Berlin", "there is no zone %.64q", s.Zone)
	case err != nil:
		p.add(path+".every", "", "%s", plain(err))
	}
}

// queued is the schedule as the queue takes it.
func (s *Schedule) queued(name string) (queue.Schedule, error) {
	payload, err := payload(s.Data)
	q := queue.Schedule{
		Name: name, Cron: s.Cron, Zone: s.Zone, Every: time.Duration(s.Every), Anchor: s.Anchor, CatchUp: schedule.CatchUp(s.CatchUp), Limit: s.Limit,
		Job: queue.Job{Message: codec.Message{Type: s.Type, Key: s.Key, Data: payload}, Lane: s.Lane},
	}
	if payload != nil {
		q.Job.Headers.Set(codec.HeaderContentType, "application/json")
	}
	return q, err
}

// checkParts asks each source, stage, projection and sink what is wrong with it.
func (d *Document) checkParts(p *Problems) {
	below := func(path string, found stage.Problems) {
		for _, one := range found {
			p.add(strings.Join(append([]string{path}, one.Path...), "."), "", "%s", plain(errors.New(one.Text)))
			last := (*p)[len(*p)-1]
			last.line, last.column, last.part = one.Line, one.Column, true
		}
	}
	for _, name := range sorted(d.Sources) {
		c, path := d.Sources[name], "sources."+name
		p.name(path, "source", name)
		below(path, c.Check())
	}
	for _, name := range sorted(d.Stages) {
		c, path := d.Stages[name], "stages."+name
		p.name(path, "stage", name)
		below(path, c.Check())
	}
	for _, name := range sorted(d.Projections) {
		c, path := d.Projections[name], "projections."+name
		p.name(path, "projection", name)
		below(path, c.Check())
	}
	for _, name := range sorted(d.Sinks) {
		c, path := d.Sinks[name], "sinks."+name
		p.name(path, "sink", name)
		below(path, c.Check())
	}
}
