package doctor

import (
	"fmt"
	"time"

	"github.com/echomq/pipeline/tier/stream"
)

func (d *diagnosis) scope(s *Scope) {
	where := "scope " + s.Name
	for _, b := range s.Broken {
		d.add(Error, "broken", b.Key, "it "+b.Broken, "see what wrote to the key, or restore it from a backup")
	}
	if !s.Known {
		d.add(Warning, "scope-lost", where, "the registry has a number for it, and the scope itself is gone", "if the server lost data, restore it; the number stays reserved")
	}
	for i := range s.Streams {
		if st := &s.Streams[i]; !st.Removed {
			d.stream(st)
		}
	}
}

func (d *diagnosis) stream(s *Stream) {
	where := s.Address.String()
	lead := s.Last.Time().Sub(s.Now)
	switch {
	case s.Last.Ms >= lastMs-2:
		d.add(Error, "ids-end", where, "no ids are left: its last one is "+s.Last.String()+", an entry of another program with an id far in the future",
			fmt.Sprintf("copy what is needed to another stream, then 'pipeline stream rm %s' and write it anew", where))
	case !s.Now.IsZero() && lead > d.marks.Skew:
		d.add(Warning, "ids-ahead", where, "its ids are "+around(lead)+" ahead of the clock: the clock was set back, or another program wrote an id in the future",
			"nothing is lost, and it ends when the clock has caught up; until then places named by time are off")
	}
	if s.Bytes > d.marks.StreamBytes {
		d.add(Warning, "unbounded", where, fmt.Sprintf("it takes %s, more than %s, and nothing bounds it", size(s.Bytes), size(d.marks.StreamBytes)),
			"trim it, or empty it with 'pipeline stream reset', before the server is full")
	}
	for i := range s.Groups {
		d.group(s, &s.Groups[i])
	}
}

func (d *diagnosis) group(s *Stream, g *stream.GroupDetail) {
	addr := s.Address.String()
	where := addr + " group " + g.Name
	dead := g.State == stream.Dead && quietFor(g) > d.marks.Silence
	if dead {
		d.add(Warning, "group-dead", where, fmt.Sprintf("nobody has worked on it for %s, and %d entries are unread, %d pending", around(quietFor(g)), g.Lag, g.Pending),
			fmt.Sprintf("start its consumers, or 'pipeline group delete %s --group %s'", addr, g.Name))
	}
	var overdue, silent int
	var held int64
	for _, c := range g.Who {
		if c.Overdue && c.Silence > 2*g.LeaseOrDefault() { // so long the others may take
			overdue, held = overdue+1, held+c.Pending
		}
		if c.Pending == 0 && c.Silence > 10*g.LeaseOrDefault() {
			silent++
		}
	}
	if overdue > 0 && !dead {
		d.add(Warning, "lease-ended", where, fmt.Sprintf("%d consumers hold %d entries and are silent past their lease of %s", overdue, held, g.LeaseOrDefault()),
			fmt.Sprintf("start a consumer, which takes them over; 'pipeline groups %s --consumers' names them", addr))
	}
	if silent > d.marks.Consumers {
		d.add(Warning, "consumers-dead", where, fmt.Sprintf("%d consumers are silent and hold nothing", silent),
			"a running consumer retires members; those of other clients go with XGROUP DELCONSUMER "+s.Address.LogKey()+" "+g.Name+" NAME")
	}
	if g.Dead > 0 {
		d.add(Warning, "dead-letters", where, fmt.Sprintf("%d entries were put aside, because they cannot be decoded or handled", g.Dead),
			"look at them: XRANGE "+s.Address.DeadKey(g.Name)+" - + COUNT 10")
	}
	if g.Pending > 0 && g.OldestPending.Compare(s.First) < 0 {
		d.add(Note, "pending-trimmed", where, "pending entries were trimmed: the oldest, "+g.OldestPending.String()+", is gone",
			"nothing: who takes them over counts them as lost")
	}
}

// quietFor is how long nobody has worked on a group: since the last consumer was heard of, or since there is something
// to do when none is listed.
func quietFor(g *stream.GroupDetail) time.Duration {
	if len(g.Who) == 0 {
		return max(g.OldestUnreadAge, g.OldestPendingAge)
	}
	quiet := g.Who[0].Silence
	for _, c := range g.Who {
		quiet = min(quiet, c.Silence)
	}
	return quiet
}
