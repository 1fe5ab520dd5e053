package consumer

import (
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
)

// lane is what must run one after another: the messages of one key, or all of them. It exists while one of its messages
// waits, is at work, or is parked.
//
//	(none) ──push──▶ waiting ──begin──▶ busy ──done──▶ the next one waits, or (none)
//	                    ▲                │ comes again later
//	                    │ taken up again ▼
//	                    └──────────── parked, with all that stand behind it
//
// Its lowest position is begun, and only when none lower is parked. What would have to wait for a parked one is parked
// behind it at once: so whatever is in flight waits for messages at work only, and in-flight room for other keys is not
// used up. Nothing here depends on when parked ones are due.
type lane struct {
	key     string
	waiting fifo[turn] // in the order of positions; those that were judged or lost meanwhile are passed over
	parked  []parked   // in the order of positions: what failed or waits behind it, from its judgement on
	busy    bool       // one is at work, even if its entry is lost by now
	holders []*flight  // of which a message is done and others are not: what it did is not committed yet
	queued  bool       // among the ready
}

// parked is a message that comes again, and when, as far as is known here.
type parked struct {
	at  codec.Position
	due time.Time
}

// blocked says whether a lower position is parked.
func (l *lane) blocked(at codec.Position) bool {
	return len(l.parked) > 0 && l.parked[0].at.Compare(at) < 0
}

// held says whether a message of an entry has to wait for what an earlier one has done to be committed: else it could be
// committed first. Only later entries wait, so that no two wait for each other.
func (l *lane) held(f *flight) bool {
	return slices.ContainsFunc(l.holders, func(h *flight) bool { return h.entry.Compare(f.entry) < 0 })
}

// next passes over what waits no more, and says whether the first of the lane can be begun.
func (l *lane) next() (turn, bool) {
	for l.waiting.count > 0 {
		if w := l.waiting.first(); w.isOpen() {
			return w, !l.busy && !l.blocked(w.m.Position) && !l.held(w.f)
		}
		l.waiting.pop()
	}
	return turn{}, false
}

// wait adds a message in its place, which is the end as a rule.
func (l *lane) wait(w turn) {
	l.waiting.push(w)
	for i := l.waiting.count - 1; i > 0 && w.m.Position.Compare(l.waiting.at(i-1).m.Position) < 0; i-- {
		l.waiting.swap(i-1, i)
	}
}

func (l *lane) place(at codec.Position) (i int, found bool) {
	if n := len(l.parked); n > 0 && l.parked[n-1].at.Compare(at) < 0 {
		return n, false // as a rule
	}
	return slices.BinarySearchFunc(l.parked, at, func(p parked, at codec.Position) int { return p.at.Compare(at) })
}

// park notes a position, or when it is due; new says that it was not parked before.
func (l *lane) park(at codec.Position, due time.Time) (isNew bool) {
	i, found := l.place(at)
	if found {
		l.parked[i].due = due
		return false
	}
	l.parked = slices.Insert(l.parked, i, parked{at, due})
	return true
}

func (l *lane) unpark(at codec.Position) {
	switch i, found := l.place(at); {
	case !found:
	case i == 0:
		l.parked = l.parked[1:] // without a move: the lowest ones go first
	default:
		l.parked = slices.Delete(l.parked, i, i+1)
	}
}

const (
	// behindStep is how much later than the one before it a message is due that is parked behind another, so that they come
	// in order as a rule.
	behindStep = time.Millisecond
	// behindLeast is the shortest pause of a message that is parked behind another.
	behindLeast = 100 * time.Millisecond
)

// behind is the pause for a message whose lane is blocked: until a little after the last one before it. If that should
// have come by now, it grows with the time that it is late by.
func (l *lane) behind(at codec.Position, now time.Time) time.Duration {
	i, _ := l.place(at)
	wait := l.parked[i-1].due.Sub(now)
	return max(wait, -wait, behindLeast) + behindStep
}
