package consumer

import (
	"context"
	"sync"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// desk is where the loops meet: the tracker, one at a time, and what they wait for.
type desk struct {
	gauge   func(delta int) // of messages in flight
	upcasts codec.Upcasts

	mu      sync.Mutex
	t       *tracker
	work    sync.Cond     // there is a message to begin, or there will be none
	through chan struct{} // an entry is through
	room    chan struct{} // there may be room again
}

func newDesk(values context.Context, max, maxBytes int, p policy, o Order, gauge func(delta int)) *desk {
	d := &desk{
		gauge:   gauge,
		t:       newTracker(values, max, maxBytes, p, o),
		through: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	d.work.L = &d.mu
	return d
}

// signal wakes the one loop that waits on c, now or when it next looks.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// change runs f on the tracker and tells whoever waits for what came of it.
func (d *desk) change(f func(t *tracker)) {
	d.update(f)
	signal(d.room)
}

// update is change for what makes no room.
func (d *desk) update(f func(t *tracker)) {
	d.mu.Lock()
	messages := d.t.messages
	f(d.t)
	delta := d.t.messages - messages
	through := len(d.t.through) > 0
	d.wakeLanes(0)
	d.mu.Unlock()
	if delta != 0 {
		d.gauge(delta)
	}
	if through {
		signal(d.through)
	}
}

// take adds what was taken over, for workers to begin.
func (d *desk) take(leased []tier.Leased) {
	d.upcast(leased)
	d.change(func(t *tracker) { d.wake(t.take(leased)) })
}

// takeNew adds what was read.
func (d *desk) takeNew(leased []tier.Leased) {
	d.upcast(leased)
	var running []*message
	d.change(func(t *tracker) {
		var fresh int
		fresh, running = t.takeNew(leased)
		d.wake(fresh)
	})
	end(running, ErrLeaseLost)
}

// upcast makes messages those of their newest types, before anybody sees them.
func (d *desk) upcast(leased []tier.Leased) {
	for i := range leased {
		d.upcasts.Records(leased[i].Records, nil)
	}
}

func (d *desk) wake(workers int) {
	for ; workers > 0; workers-- {
		d.work.Signal()
	}
}

// wakeLanes tells workers of lanes that can go on, but for those that this one sees itself.
func (d *desk) wakeLanes(own int) {
	if s := d.t.lanes; s != nil {
		d.wake(s.woken - own)
		s.woken = 0
	}
}

// begin waits for a message; false when there will be none.
func (d *desk) begin() (turn, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if w, ok := d.next(); ok || d.t.closed {
			return w, ok
		}
		d.work.Wait()
	}
}

// finish takes a message back.
func (d *desk) finish(w turn, err error) outcome {
	o, _, _ := d.exchange(w, err, false)
	return o
}

// exchange takes a message back and, if more is wanted, gives the next one out; false: there is none just now. Of a pack, the tracker is told of
// many that are done at once.
func (d *desk) exchange(w turn, err error, more bool) (o outcome, next turn, ok bool) {
	if more && err == nil {
		if next, ok = w.follow(); ok {
			return outcomeOK, next, ok
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o, through := d.t.finish(w, err)
	if through {
		signal(d.through)
	}
	if more {
		next, ok = d.next()
	}
	d.wakeLanes(1) // its worker begins the next one
	return o, next, ok
}

// next gives out a message; false: there is none just now. The caller has the lock.
func (d *desk) next() (turn, bool) {
	w, ok := d.t.begin()
	for ok && w.undecoded() {
		if w, ok = d.unpack(w.f); !ok {
			w, ok = d.t.begin()
		}
	}
	return w, ok
}

// unpack decodes a pack, meanwhile without the lock, which the caller has, and gives out a message; false: the pack has none to begin.
func (d *desk) unpack(f *flight) (w turn, ok bool) {
	d.mu.Unlock()
	defer d.mu.Lock()
	messages := unpack(d.t.values, f.pack, d.t.policy, d.upcasts)
	d.update(func(t *tracker) {
		w, ok = t.unpacked(f, messages)
		d.wake(len(messages)) // of these, or of another pack
	})
	return w, ok
}

// collect moves what is through into by and reports whether there was any.
func (d *desk) collect(by *[verdicts][]*flight) (any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.t.collect(by)
}

// pending narrows flights down to those that are still held, in place, and ends those that are not pending any more.
func (d *desk) pending(flights []*flight) []*flight {
	kept := flights[:0]
	d.change(func(t *tracker) {
		for _, f := range flights {
			switch {
			case f.dropped:
			case f.gone:
				t.remove(f)
			default:
				kept = append(kept, f)
			}
		}
	})
	return kept
}

// remove ends flights.
func (d *desk) remove(flights []*flight) {
	d.change(func(t *tracker) {
		for _, f := range flights {
			t.remove(f)
		}
	})
}

// end ends the contexts of messages.
func end(running []*message, cause error) {
	for _, m := range running {
		m.ctx.end(cause)
	}
}

// doubt marks flights of which a settle has an unknown outcome.
func (d *desk) doubt(flights []*flight) {
	d.ask(func(*tracker) {
		for _, f := range flights {
			f.unsure = true
		}
	})
}

// entries lists what is in flight.
func (d *desk) entries() []codec.EntryID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.t.entries()
}

// close lets workers begin no other entry.
func (d *desk) close() {
	d.change(func(t *tracker) {
		t.close()
		d.work.Broadcast()
	})
}

// interrupt ends the contexts of the handlers at work.
func (d *desk) interrupt() {
	var running []*message
	d.change(func(t *tracker) { running = t.interrupt() })
	end(running, ErrDrainTimeout)
}

// reconcile compares with what is held according to the server, and ends the contexts of handlers whose entries are
// another's now.
func (d *desk) reconcile(held []tier.Held) (lost []*flight, unknown []tier.Held) {
	var running []*message
	d.change(func(t *tracker) { lost, running, unknown = t.reconcile(held) })
	end(running, ErrLeaseLost)
	return lost, unknown
}

// ask runs f on the tracker, for what needs no telling.
func (d *desk) ask(f func(t *tracker)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.t)
	d.wakeLanes(0)
}

// inFlight narrows entries down to those that are in flight still, in place.
func (d *desk) inFlight(entries []codec.EntryID) []codec.EntryID {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := entries[:0]
	for _, e := range entries {
		if d.t.flights.of(e) != nil {
			kept = append(kept, e)
		}
	}
	return kept
}
