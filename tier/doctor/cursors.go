package doctor

import (
	"fmt"
	"time"

	"github.com/echomq/pipeline/tier/stream"
)

// suspicious is how many crashes at one place are no accident: from then on the owner takes one entry at a time.
const suspicious = 2

func (d *diagnosis) cursor(s *Stream, c *stream.CursorInfo) {
	addr := s.Address.String()
	where := addr + " cursor " + c.Name
	if quiet := unowned(s, c); c.State == stream.Dead && quiet > d.marks.Silence {
		what := fmt.Sprintf("nobody owns it; lag %d, %s parked", c.Lag, counted(c.Parked, "entry is", "entries are"))
		if c.OldestUnreadAge > 0 {
			what += "; the oldest was appended " + around(c.OldestUnreadAge) + " ago"
		}
		d.add(Warning, "cursor-dead", where, what,
			fmt.Sprintf("start its consumer, or what folds it if it is a projection's ('pipeline projections %s' tells), or 'pipeline group delete %s --group %s'", addr, addr, c.Name))
	}
	if c.Crashes >= suspicious {
		d.add(Warning, "cursor-crashes", where, fmt.Sprintf("its owner died %d times at %s without getting any further: what comes next may be what ends it", c.Crashes, c.Checkpoint),
			fmt.Sprintf("look at what comes next, 'pipeline range %s --from %s --limit 1', and at the log of the process; after its last delivery it goes to the dead letters by itself", addr, c.OldestUnread))
	}
	if c.Paused {
		since := ""
		if !c.PausedSince.IsZero() && !s.Now.IsZero() {
			since = ", since " + around(max(0, s.Now.Sub(c.PausedSince)))
		}
		d.add(Note, "cursor-paused", where, "it is paused"+since+": its owner reads nothing",
			fmt.Sprintf("'pipeline group resume %s --group %s', if it is to go on", addr, c.Name))
	}
	d.letters(where, addr, c.Name, c.Dead)
}

// unowned is how long nobody has owned a cursor. One that was handed over does not tell: then it is how long something waits.
func unowned(s *Stream, c *stream.CursorInfo) time.Duration {
	if c.Owner != "" && !s.Now.IsZero() {
		return s.Now.Sub(c.Until)
	}
	if c.Lag == 0 {
		return c.CheckpointAge // what is parked is older
	}
	return c.OldestUnreadAge
}
