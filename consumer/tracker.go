package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// maxEntries bounds the entries in flight, and those that are released before reading stops: together they stay within the
// 4096 that a Sync tells of. What a Sync does not tell of counts as lost, so more would cost repeats, but nothing else.
const maxEntries = 2048

// tracker knows every entry that this consumer holds, and decides what becomes of it: in flight (waiting for a worker,
// running, through and waiting to be settled), or released, and still under this consumer's name until somebody takes it
// over. It does no I/O and starts nothing; its callers take turns.
type tracker struct {
	max         int // messages
	maxBytes    int
	values      context.Context
	policy      policy
	flights     flights
	released    map[codec.EntryID]released
	due         time.Time     // of the first that was released, or earlier; zero when none is
	next        time.Time     // when the first parked entry of the group is due, as far as is known here; zero: none
	suspects    int           // in flight
	messages    int           // of flights
	ended       int           // messages of all flights that are none any more
	bytes       int           // that they weigh
	waiting     fifo[*flight] // with messages that no worker was given
	unpacking   bool          // a worker decodes a pack just now
	through     []*flight     // waiting for the settler
	lanes       *lanes        // what waits for each other, in place of waiting; nil: nothing does
	closed      bool          // nothing is begun any more
	interrupted bool          // errors of handlers do not count any more
}

// released is when an entry can be taken over, and its deliveries that count: when there are more, it was.
type released struct {
	due        time.Time
	deliveries int
}

func newTracker(values context.Context, max, maxBytes int, p policy, o Order) *tracker {
	return &tracker{
		max: max, maxBytes: maxBytes, values: values, policy: p, lanes: newLanes(o),
		released: map[codec.EntryID]released{},
	}
}

// room is how much may be fetched.
type room struct {
	messages int  // none when there is none for bytes
	bytes    int  // that there is room for
	read     int  // new entries; none while much is released
	take     int  // entries whose lease has ended
	idle     bool // nothing is in flight or released
	hungry   bool // fewer entries wait than there are workers
}

func (t *tracker) room(workers int) room {
	r := room{messages: max(0, t.max-t.messages), bytes: max(0, t.maxBytes-t.bytes), idle: t.flights.count()+len(t.released) == 0, hungry: t.waiting.count < workers}
	if r.bytes == 0 {
		r.messages = 0
	}
	r.take = min(r.messages, max(0, maxEntries-t.flights.count()))
	if len(t.released) < maxEntries {
		r.read = r.take
	}
	if t.lanes != nil {
		t.lanes.narrow(&r, workers)
	}
	return r
}

// begin gives out the next message, or a pack that is to be decoded first: one at a time, so that packs are begun in their order, and the other
// workers wait, which lets the fetch loop run. Messages that are judged already, and those of entries that were lost, are passed over.
func (t *tracker) begin() (turn, bool) {
	if t.lanes != nil {
		return t.beginLane()
	}
	for t.waiting.count > 0 {
		f := t.waiting.first()
		switch {
		case f.dropped:
		case f.pack != nil && t.unpacking:
			return turn{}, false
		case f.pack != nil:
			t.unpacking = true
			t.waiting.pop()
			return turn{f: f}, true
		default:
			if m := f.claim(); m != nil {
				f.begun = true
				return turn{f: f, m: m}, true
			}
		}
		t.waiting.pop()
	}
	return turn{}, false
}

// finish takes a message back from its worker. It tells how that counts, and whether an entry is through now: its own, or
// one that is parked behind it.
func (t *tracker) finish(w turn, err error) (o outcome, through bool) {
	before := len(t.through)
	w.f.left -= w.done
	w.f.done += int32(w.done)
	o = t.judge(w, err)
	if t.lanes != nil {
		if w.m.lane != nil && w.f.here && w.f.left > 0 {
			t.lanes.hold(w.m.lane, w.f)
		}
		t.lanes.end(w.m.lane)
	}
	return o, len(t.through) > before
}

// isThrough lets a flight wait for the settler.
func (t *tracker) isThrough(f *flight) {
	if int(f.done) == f.n {
		f.messages = nil // they are garbage, and the settler need not look at them
	}
	t.through = append(t.through, f)
	if t.lanes != nil {
		t.lanes.letGo(f)
	}
}

func (t *tracker) judge(w turn, err error) (o outcome) {
	f, m := w.f, w.m
	m.idle.Store(true)
	switch {
	case f.dropped:
		f.left--
		return outcomeLost
	case err != nil && t.interrupted:
		o = outcomeInterrupted
	default:
		if n := len(m.outputs); err == nil && n > MaxOutputs {
			err = Permanent(fmt.Errorf("consumer: %d outputs, at most %d", n, MaxOutputs))
		}
		if c, ok := errors.AsType[*CancelledError](m.ctx.cause()); ok && err != nil {
			err = Permanent(c)
		}
		o = outcomeOf(err)
		var reason string
		if m.fate, m.pause, reason = t.policy.of(m.Terms).judge(err, m.Attempt); m.fate == fateDead {
			m.death = &death{reason, deadExhausted}
			if permanent(err) {
				m.death.cause = deadPermanent
			}
		}
		if m.fate == fateDone && len(m.outputs) == 0 {
			f.done++
		}
		if m.fate == fateAgain {
			m.death = &death{reason: clip(err.Error())}
		}
		if m.fate != fateDone && t.lanes != nil && !t.closed {
			t.blockLane(m)
		}
	}
	if f.left--; f.left == 0 { // only now: what it parks behind itself may be of its own entry, which is through once
		t.isThrough(f)
	}
	return o
}

// collect moves what is through into by, each to its verdict, and reports whether there was any.
func (t *tracker) collect(by *[verdicts][]*flight) bool {
	for _, f := range t.through {
		v := f.verdict()
		by[v] = append(by[v], f)
	}
	any := len(t.through) > 0
	clear(t.through)
	t.through = t.through[:0]
	return any
}

// remove ends a flight: it was settled or buried, or there is nothing to be done about it.
func (t *tracker) remove(f *flight) {
	if t.forget(f) && t.lanes != nil {
		t.lanes.unpark(f.entry)
	}
}

// forget is remove of a flight that comes again: what waits for it goes on waiting.
func (t *tracker) forget(f *flight) bool {
	if !f.here {
		return false
	}
	if t.lanes != nil {
		t.lanes.letGo(f)
	}
	t.flights.remove(f)
	t.messages -= f.n
	t.ended += f.n
	t.bytes -= f.weight
	if f.suspect {
		t.suspects--
	}
	return true
}

// release notes that an entry was released until due. If it is in flight, its flight ends.
func (t *tracker) release(h tier.Held, due time.Time) {
	if f := t.flights.of(h.Entry); f != nil {
		t.forget(f)
	}
	t.released[h.Entry] = released{due, max(0, h.Deliveries)}
	if t.due.IsZero() || due.Before(t.due) {
		t.due = due
	}
}

// dueBy notes that something is parked until at.
func (t *tracker) dueBy(at time.Time) {
	if t.next.IsZero() || at.Before(t.next) {
		t.next = at
	}
}

// looked says that a whole look has ended. What was due and is there still, another consumer has; or the server's clock
// was a little behind, and then it is worth another look before long.
func (t *tracker) looked(now time.Time, again time.Duration) {
	t.due = time.Time{}
	for _, r := range t.released {
		d := r.due
		if d.Before(now) {
			d = now.Add(again)
		}
		if t.due.IsZero() || d.Before(t.due) {
			t.due = d
		}
	}
}

// entries lists what is in flight.
func (t *tracker) entries() []codec.EntryID {
	dst := make([]codec.EntryID, 0, t.flights.count())
	for _, f := range t.flights.list {
		dst = append(dst, f.entry)
	}
	return dst
}
