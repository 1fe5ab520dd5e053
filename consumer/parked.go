package consumer

import (
	"fmt"
	"time"

	"github.com/echomq/pipeline/tier"
)

const (
	// overdueGrace is how late a parked message may be before it is asked whether it is still there: another consumer of the
	// group may have it, or somebody has trimmed it, and its lane would wait for ever.
	overdueGrace = 5 * time.Second
	// maxAskPause bounds the pause between two such questions, which doubles while the answer is nothing new.
	maxAskPause = time.Minute
)

// census says when to ask the source what is parked. The zero value asks at once.
type census struct {
	next  time.Time
	pause time.Duration
}

// asked notes that it was done, and whether anything was new.
func (c *census) asked(now time.Time, wrong int) {
	c.pause = min(maxAskPause, max(overdueGrace, 2*c.pause))
	if wrong > 0 {
		c.pause = overdueGrace
	}
	c.next = now.Add(c.pause)
}

// orderable says whether a member can keep an order.
func (c *Config) orderable(m Member) error {
	if _, ok := m.(parkedTeller); c.Order != None && !ok {
		return fmt.Errorf("%w: Order is %s, and the source cannot tell what is parked: its members have no method Parked", ErrConfig, c.Order)
	}
	return nil
}

// learnParked asks what is parked when that is not known: at the start, after this member's group was made again or looked
// at anew, after the group went back, and when something has not come in time. Nothing is read before it is answered.
func (f *fetcher) learnParked() bool {
	if f.cfg.Order == None {
		return true
	}
	now := time.Now()
	if !f.uncertain.Load() {
		late := false
		if now.After(f.census.next) {
			f.desk.ask(func(t *tracker) { late = t.lanes.overdue(now.Add(-overdueGrace), t.isHere) })
			f.census.next = now.Add(time.Second) // going through all of it takes a moment
		}
		if !late {
			return true
		}
	}
	if !f.recoverAlone() { // what a late call has taken up is parked no more, and its lane would go on without it
		return false
	}
	return f.call(f.fetching, "parked", func() error {
		f.uncertain.Store(false) // what comes while it is asked counts
		parked, err := f.member.(parkedTeller).Parked(f.calls, f.staying())
		if err != nil {
			f.uncertain.Store(true)
			return err
		}
		f.census.asked(time.Now(), f.learned(parked))
		return nil
	})
}

// unlearned says that another loop has made a Sync since it was asked what is parked: with it may have come other entries to
// wait for, so nothing is fetched before it is asked again. The caller keeps Syncs away.
func (f *fetcher) unlearned() bool { return f.cfg.Order != None && f.uncertain.Load() }

func (f *fetcher) learned(parked []tier.Parked) (wrong int) {
	now := time.Now()
	f.desk.change(func(t *tracker) {
		wrong = t.learn(parked)
		for i := range parked {
			t.dueBy(now.Add(parked[i].Delay))
		}
	})
	return wrong
}
