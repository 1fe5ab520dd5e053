package doctor

import (
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func (d *diagnosis) scope(s *Scope) {
	where := "scope " + s.Name
	for _, b := range s.Broken {
		if b.Key == tier.NodesKey && d.blamed[s.Name] {
			continue
		}
		d.add(Error, "broken", b.Key, b.Broken, "see what wrote to the key, or restore it from a backup")
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
	anew := fmt.Sprintf("copy what is needed to another stream, then 'pipeline stream rm %s' and write it anew", where)
	switch {
	case s.Last.Ms >= lastMs-2:
		d.add(Error, "ids-end", where, "no ids are left: its last one is "+s.Last.String()+", an entry of another program with an id far in the future",
			anew)
	case !s.Now.IsZero() && lead > day:
		d.add(Warning, "ids-ahead", where, "its ids are "+around(lead)+" ahead of the clock, and will be for that long: the clock was set back, or another program wrote an id in the future",
			anew)
	case !s.Now.IsZero() && lead > d.marks.Skew:
		d.add(Warning, "ids-ahead", where, "its ids are "+around(lead)+" ahead of the clock: the clock was set back, or another program wrote an id in the future",
			"nothing is lost, and it ends when the clock has caught up; until then places named by time are off")
	}
	if s.Bytes > d.marks.StreamBytes && !s.Retained {
		d.add(Warning, "unbounded", where, fmt.Sprintf("it takes %s, more than %s, and nothing bounds it", size(s.Bytes), size(d.marks.StreamBytes)),
			fmt.Sprintf("say what may go, 'pipeline retention set %s', or empty it with 'pipeline stream reset', before the server is full", where))
	}
	for i := range s.Groups {
		d.group(s, &s.Groups[i])
	}
	for i := range s.Cursors {
		d.cursor(s, &s.Cursors[i])
	}
}

func (d *diagnosis) group(s *Stream, g *stream.GroupDetail) {
	addr := s.Address.String()
	where := addr + " group " + g.Name
	dead := g.State == stream.Dead && quietFor(g) > d.marks.Silence
	if dead {
		d.add(Warning, "group-dead", where, undone(g),
			fmt.Sprintf("start its consumers, or 'pipeline group delete %s --group %s'", addr, g.Name))
	}
	if ahead := g.LastDelivered.Time().Sub(s.Now); !s.Now.IsZero() && ahead > time.Minute && g.LastDelivered.Compare(s.Last) > 0 {
		d.add(Error, "group-ahead", where, fmt.Sprintf("it stands at %s, %s ahead of the clock and past the end of the stream: everything until then is skipped", g.LastDelivered, around(ahead)),
			fmt.Sprintf("'pipeline group reset %s --group %s --to' the time of the first entry that it is to read, or new", addr, g.Name))
	}
	if g.Paused {
		since := ""
		if !g.PausedSince.IsZero() && !s.Now.IsZero() {
			since = ", since " + around(max(0, s.Now.Sub(g.PausedSince)))
		}
		d.add(Note, "group-paused", where, "it is paused"+since+": its consumers are given nothing",
			fmt.Sprintf("'pipeline group resume %s --group %s', if it is to go on", addr, g.Name))
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
	if overdue > 0 && !dead && !g.Paused {
		d.add(Warning, "lease-ended", where, fmt.Sprintf("%s silent past the lease of %s, %s pending", counted(int64(overdue), "consumer is", "consumers are"), g.LeaseOrDefault(), counted(held, "entry is", "entries are")),
			fmt.Sprintf("start a consumer, which takes them over; 'pipeline groups %s --consumers' names them", addr))
	}
	if silent > d.marks.Consumers {
		d.add(Warning, "consumers-dead", where, counted(int64(silent), "consumer is", "consumers are")+" silent, and nothing is pending for them",
			"a running consumer retires members; those of other clients go with XGROUP DELCONSUMER "+s.Address.LogKey()+" "+g.Name+" NAME")
	}
	d.letters(where, addr, g.Name, g.Dead)
	if g.Pending > 0 && g.OldestPending.Compare(s.First) < 0 {
		d.add(Note, "pending-trimmed", where, "pending entries were trimmed: the oldest, "+g.OldestPending.String()+", is gone",
			"nothing: who takes them over counts them as lost")
	}
}

// letters are the dead ones of a group or cursor.
func (d *diagnosis) letters(where, addr, name string, n int64) {
	if n > 0 {
		d.add(Warning, "dead-letters", where, counted(n, "message was", "messages were")+" put aside: not to be decoded, or not to be handled",
			fmt.Sprintf("'pipeline dead ls %s --group %s' says why; then redrive or drop them", addr, name))
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

// undone says what is known of a group that nobody works on: a beat tells more than the age of what waits, which may have
// waited for long when its last consumer ended.
func undone(g *stream.GroupDetail) string {
	text := fmt.Sprintf("no consumer is alive; %s unread, %s pending", counted(g.Lag, "entry is", "entries are"), counted(g.Pending, "is", "are"))
	if oldest := max(g.OldestUnreadAge, g.OldestPendingAge); oldest > 0 {
		text += "; the oldest was appended " + around(oldest) + " ago"
	}
	if len(g.Who) > 0 {
		text += "; a consumer was last heard of " + around(quietFor(g)) + " ago"
	}
	return text
}

func counted(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + several
}
