package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// maxEntries bounds the entries in flight, and those that are released before reading stops: together they stay within the
// 4096 that a Sync tells of. What a Sync does not tell of counts as lost, so more would cost repeats, but nothing else.
const maxEntries = 2048

// maxUnsuspected are the deliveries of an entry that may come with others. One that two consumers have let go of is taken
// over alone.
const maxUnsuspected = 2

// tracker knows every entry that this consumer holds, and decides what becomes of it: in flight (waiting for a worker,
// running, through and waiting to be settled), or released, and still under this consumer's name until somebody takes it
// over. It does no I/O and starts nothing; its callers take turns.
type tracker struct {
	max         int // messages
	maxBytes    int
	values      context.Context
	policy      policy
	flights     flights
	released    map[codec.EntryID]time.Time // when it can be taken over
	due         time.Time                   // of the first that was released, or earlier; zero when none is
	next        time.Time                   // when the first parked entry of the group is due, as far as is known here; zero: none
	suspects    int                         // in flight
	messages    int                         // of flights
	bytes       int                         // that they weigh
	waiting     fifo[*flight]               // with messages that no worker was given
	through     []*flight                   // waiting for the settler
	lanes       *lanes                      // what waits for each other, in place of waiting; nil: nothing does
	closed      bool                        // nothing is begun any more
	interrupted bool                        // errors of handlers do not count any more
}

func newTracker(values context.Context, max, maxBytes int, p policy, o Order) *tracker {
	return &tracker{
		max: max, maxBytes: maxBytes, values: values, policy: p, lanes: newLanes(o),
		released: map[codec.EntryID]time.Time{},
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

// take adds what was taken over and returns how many messages it has for workers. An entry that is in flight already,
// taken over from oneself after a pause, goes on as it is. After close, what is taken is handed back.
func (t *tracker) take(leased []tier.Leased) (fresh int) {
	shared := newBlock(leased)
	for i := range leased {
		l := &leased[i]
		if f := t.flights.of(l.Entry); f != nil {
			f.deliveries, f.gone = l.Deliveries, false
			continue
		}
		fresh += t.add(shared.flight(l), l)
	}
	return fresh
}

// takeNew adds what was read. A group gives each entry out once, so one that is in flight already shows that the group
// was moved back, and that its old delivery is void: it ends, and the contexts to end are returned.
func (t *tracker) takeNew(leased []tier.Leased) (fresh int, running []*handling) {
	shared := newBlock(leased)
	t.flights.unindex()
	for i := range leased {
		l := &leased[i]
		if f := t.flights.of(l.Entry); f != nil {
			running = append(running, t.drop(f)...)
		}
		fresh += t.add(shared.flight(l), l)
	}
	return fresh, running
}

func (t *tracker) add(f *flight, l *tier.Leased) (fresh int) {
	f.entry, f.deliveries, f.weight = l.Entry, l.Deliveries, weightOf(l)
	t.unrelease(f.entry)
	ordered := t.lanes != nil && !t.closed
	if ordered {
		t.lanes.unpark(f.entry)
	}
	crashes, alone := evidence(l)
	begun := false
	for i := range l.Records {
		m := &f.messages[i]
		m.Record, m.Attempt, m.Replay, m.Terms, m.ctx.Context = l.Records[i], l.Deliveries, l.Replay, l.Terms, t.values
		if f.narrowed = l.Open != nil; f.narrowed {
			m.Attempt = l.Open[i].Attempt
		}
		late := f.narrowed && l.Open[i].Delay > 0
		if late || alone && begun { // it is not begun, and was not in the deliveries that did not end
			m.Attempt -= crashes
		}
		reason, exhausted := t.policy.of(m.Terms).exhausted(m.Attempt)
		switch {
		case m.Err != nil:
			m.fate, m.death = fateDead, &death{clip(m.Err.Error()), deadUndecodable}
		case exhausted:
			m.fate, m.death = fateDead, &death{reason, deadUnfinished}
			begun = true // it has had its turn
		case late:
			m.fate, m.pause = fateLater, l.Open[i].Delay
		case alone && begun:
			m.fate, m.alone = fateLater, true
		case ordered:
			begun = true
			t.lanes.push(turn{f, m})
			continue
		default:
			begun = true
			f.left++
		}
		if ordered && m.fate == fateLater {
			t.blockLane(m)
		}
	}
	t.flights.add(f)
	t.messages += len(f.messages)
	t.bytes += f.weight
	if f.suspect = l.Deliveries > maxUnsuspected; f.suspect {
		t.suspects++
	}
	switch {
	case t.closed:
		f.next, f.left = len(f.messages), 0
		t.through = append(t.through, f)
		return 0
	case f.left == 0:
		t.through = append(t.through, f)
		return 0
	case ordered:
		f.next = len(f.messages) // the lanes have them
		return 0
	}
	t.waiting.push(f)
	return f.left
}

// evidence is how many deliveries of an entry have not ended in a row before this one, and whether, after two, its messages are
// begun one at a time: each of them may be what ended them, and none is to suffer for another.
func evidence(l *tier.Leased) (crashes int, alone bool) {
	if l.Open == nil {
		crashes = l.Deliveries - 1
		return crashes, crashes >= maxUnsuspected && len(l.Records) > 1
	}
	alone = l.Crashes >= maxUnsuspected
	for i := range l.Open {
		alone = alone || l.Open[i].Suspect
	}
	return l.Crashes, alone && len(l.Open) > 1
}

// begin gives out the next message. Those that are judged already, and those of entries that were lost, are passed over.
func (t *tracker) begin() (*flight, *message) {
	if t.lanes != nil {
		return t.beginLane()
	}
	for t.waiting.count > 0 {
		f := t.waiting.first()
		for f.next < len(f.messages) && !f.dropped {
			m := &f.messages[f.next]
			f.next++
			if m.fate == fateOpen {
				m.running = true
				return f, m
			}
		}
		t.waiting.pop()
	}
	return nil, nil
}

// finish takes a message back from its worker. It tells how that counts, and whether an entry is through now: its own, or
// one that is parked behind it.
func (t *tracker) finish(f *flight, m *message, err error) (o outcome, through bool) {
	before := len(t.through)
	o = t.judge(f, m, err)
	if t.lanes != nil {
		if m.lane != nil && f.here && f.left > 0 {
			t.lanes.hold(m.lane, f)
		}
		t.lanes.end(m.lane)
	}
	return o, len(t.through) > before
}

// isThrough lets a flight wait for the settler.
func (t *tracker) isThrough(f *flight) {
	t.through = append(t.through, f)
	if t.lanes != nil {
		t.lanes.letGo(f)
	}
}

func (t *tracker) judge(f *flight, m *message, err error) (o outcome) {
	m.running = false
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
	t.messages -= len(f.messages)
	t.bytes -= f.weight
	if f.suspect {
		t.suspects--
	}
	return true
}

// release notes that an entry was released until due. If it is in flight, its flight ends.
func (t *tracker) release(e codec.EntryID, due time.Time) {
	if f := t.flights.of(e); f != nil {
		t.forget(f)
	}
	t.released[e] = due
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
	for _, d := range t.released {
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

// vanished marks entries that are no longer pending: trimmed, or settled by another program. A message that is here is
// handled all the same: which of the two it was, nobody knows. What a settle may have settled is left to the next one. It
// returns how many are in flight.
func (t *tracker) vanished(entries []codec.EntryID) (n int) {
	for _, e := range entries {
		t.unrelease(e)
		f := t.flights.of(e)
		if f == nil && t.lanes != nil {
			t.lanes.unpark(e)
		}
		if f != nil && !f.gone && !f.unsure {
			f.gone = true
			n++
		}
	}
	return n
}

// reconcile compares with what is held according to the server. It returns what was lost: the flights, for which no
// more will be done, with the contexts to end; and what is held though nobody here knows of it.
func (t *tracker) reconcile(held []tier.Held) (lost []*flight, running []*handling, unknown []tier.Held) {
	known := make(map[codec.EntryID]bool, len(held))
	for _, h := range held {
		known[h.Entry] = true
		if _, released := t.released[h.Entry]; t.flights.of(h.Entry) == nil && !released {
			unknown = append(unknown, h)
		}
	}
	for e := range t.released {
		if !known[e] {
			t.unrelease(e)
			if t.lanes != nil {
				t.lanes.unpark(e)
			}
		}
	}
	for _, f := range slices.Clone(t.flights.list) {
		if known[f.entry] {
			continue
		}
		// What is gone was not pending before either, and its handler may go on.
		contexts := t.drop(f)
		if !f.gone && !f.unsure {
			lost = append(lost, f)
			running = append(running, contexts...)
		}
	}
	return lost, running, unknown
}

// drop ends a flight whose entry is not this consumer's any more, and returns the contexts of its handlers. If it may have
// been parked, what waits for it goes on waiting until it was asked what is parked.
func (t *tracker) drop(f *flight) (running []*handling) {
	f.dropped = true
	if f.unsure {
		t.forget(f)
	} else {
		t.remove(f)
	}
	return f.running(nil)
}

// running appends the contexts of the handlers that are at work.
func (f *flight) running(dst []*handling) []*handling {
	for i := range f.messages[:f.next] {
		if m := &f.messages[i]; m.running {
			dst = append(dst, &m.ctx)
		}
	}
	return dst
}
