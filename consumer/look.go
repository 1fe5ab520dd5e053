package consumer

import (
	"time"

	"github.com/echomq/pipeline/tier"
)

const (
	// lookEvery is the pause between two looks through the pending list for entries whose lease has ended, or that were
	// handed back; half of it is drawn, so that consumers do not look at the same time.
	lookEvery = 2 * time.Second
	// pagePause is the pause before the next page after one on which nothing was found. Where something was found, more
	// is likely: a consumer that died left a backlog.
	pagePause = 100 * time.Millisecond
	// pausedEvery is the pause between two questions whether a paused group still is. A member that does not know of the
	// pause yet learns of it with its next look.
	pausedEvery = 1250 * time.Millisecond
	// lookAgain is the pause before a parked entry is looked for again that should have been found.
	lookAgain = 250 * time.Millisecond
)

// look says when to look for entries to take over. A look goes through the pending list page by page, to its end.
type look struct {
	under bool // way
	next  time.Time
}

// isDue begins a look when it is time, or when a parked entry is due, and says whether a page is to be looked at now.
func (l *look) isDue(now, parked time.Time) bool {
	if !l.under && !parked.IsZero() && !parked.After(now) {
		l.next = now
	}
	if l.next.After(now) {
		return false
	}
	l.under = true
	return true
}

// page notes what a page brought.
func (l *look) page(now time.Time, taken tier.Taken) {
	switch {
	case taken.Done && taken.Suspects > 0:
		l.under = false
		l.next = now.Add(lookAgain)
	case taken.Done:
		l.under = false
		l.next = now.Add(lookEvery - jittered(lookEvery/4))
	case len(taken.Leased)+len(taken.Lost) == 0:
		l.next = now.Add(pagePause)
	default:
		l.next = now
	}
}

// paused notes that the group is paused: then a look is a question whether it still is.
func (l *look) paused(now time.Time) { l.under, l.next = true, now.Add(pausedEvery) }

// cutShort bounds a wait so that the next page of a look, or a parked entry, does not wait longer than it must. The
// beginning of an ordinary look can wait.
func (l *look) cutShort(wait time.Duration, now, parked time.Time) time.Duration {
	if l.under {
		wait = min(wait, l.next.Sub(now))
	}
	if !parked.IsZero() {
		wait = min(wait, parked.Sub(now))
	}
	return max(0, wait)
}

// takeOver looks at one page and takes up to n entries.
func (f *fetcher) takeOver(n int) bool {
	return f.call(f.fetching, "take_over", func() error {
		if f.unlearned() || f.suspect { // by the call before: what it took comes first
			return nil
		}
		suspects := 0
		f.desk.ask(func(t *tracker) { suspects = max(0, 1-t.suspects) })
		taken, err := f.member.TakeOver(f.calls, n, suspects)
		if err != nil {
			return f.missed(err)
		}
		if f.pause(taken.Paused); f.paused {
			return nil
		}
		f.size.learn(taken.Leased)
		f.closeIfStopping()
		f.desk.take(taken.Leased)
		if _, ok := f.member.(canceller); ok {
			for i := range taken.Leased { // it may have been cancelled while nobody was there to be told
				f.urgent.hear(&taken.Leased[i].Entry)
			}
		}
		f.metrics.takenOver.Add(float64(len(taken.Leased)))
		now := time.Now()
		f.look.page(now, taken)
		f.desk.ask(func(t *tracker) {
			if taken.Done {
				t.looked(now, lookAgain)
			}
		})
		f.brought(taken, now)
		return nil
	})
}

// takeDue takes up to n parked entries up again.
func (f *fetcher) takeDue(n int) bool {
	return f.call(f.fetching, "due", func() error {
		if f.unlearned() || f.suspect {
			return nil
		}
		taken, err := f.member.Due(f.calls, n)
		if err != nil {
			return f.missed(err)
		}
		if f.pause(taken.Paused); f.paused {
			return nil
		}
		f.size.learn(taken.Leased)
		f.closeIfStopping()
		f.desk.takeNew(taken.Leased) // what is in flight still was parked by a call whose reply was lost
		f.brought(taken, time.Now())
		return nil
	})
}

// pause notes whether the group is paused, and tells when that has changed.
func (f *fetcher) pause(paused bool) {
	if paused {
		f.look.paused(time.Now())
	}
	if f.paused == paused {
		return
	}
	if f.paused = paused; paused {
		f.metrics.paused.Set(1)
		f.log.Log.Info("paused: nothing is fetched until it is resumed")
	} else {
		f.metrics.paused.Set(0)
		f.log.Log.Info("resumed")
	}
}

// missed notes that old entries did not come: they may have been given out all the same.
func (f *fetcher) missed(err error) error {
	f.suspect = f.suspect || reactionTo(err) != ask
	f.shrink(err)
	return err
}

// brought notes what came with entries: which are gone, and when the next parked one is due.
func (f *fetcher) brought(taken tier.Taken, now time.Time) {
	f.desk.ask(func(t *tracker) {
		t.vanished(taken.Lost)
		t.next = time.Time{}
		if taken.Next >= 0 {
			t.dueBy(now.Add(taken.Next))
		}
	})
	if n := len(taken.Lost); n > 0 {
		f.metrics.lost[lostRetention].Add(float64(n))
		f.log.Error("entries were trimmed before anybody had handled them", "entries", n, "first", taken.Lost[0].String())
	}
}
