package consumer

import (
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// What the tracker does in another way when messages wait for each other.

func (t *tracker) beginLane() (turn, bool) {
	if t.closed {
		return turn{}, false
	}
	w, ok := t.lanes.begin()
	if ok {
		w.m.idle.Store(false)
	}
	return w, ok
}

// blockLane makes the lane of a message wait that was judged: until it is done, or given up and written down.
func (t *tracker) blockLane(m *message) {
	if m.lane == nil {
		if m.lane = t.lanes.of(m.Key); m.lane == nil {
			return
		}
	}
	t.lanes.block(m.lane, m.Position, t.lanes.now().Add(m.pause), t.judged)
}

// judged notes that one more message of an entry is through.
func (t *tracker) judged(f *flight) {
	if f.left == 0 && f.here {
		t.isThrough(f)
	}
}

// firstDue is when an entry comes of which messages are open.
func firstDue(open []tier.Open) (first time.Duration) {
	for i, o := range open {
		if i == 0 || o.Delay < first {
			first = o.Delay
		}
	}
	return first
}

// committed ends the flight of an entry that was committed; the first of what is open of it is due in first.
func (t *tracker) committed(f *flight, first time.Duration) {
	if t.forget(f) && t.lanes != nil {
		t.lanes.committed(f, first)
	}
}

// stray notes that an entry was released of which nobody knows what is in it.
func (t *tracker) stray(h tier.Held, due time.Time) {
	t.release(h, due)
	if t.lanes != nil && len(t.lanes.places[h.Entry]) == 0 {
		t.lanes.strays[h.Entry] = true
	}
}

// unrelease notes that an entry is released no more.
func (t *tracker) unrelease(e codec.EntryID) {
	delete(t.released, e)
	if t.lanes != nil {
		delete(t.lanes.strays, e)
	}
}

// isHere says whether an entry is in flight, or released by this consumer.
func (t *tracker) isHere(e codec.EntryID) bool {
	_, released := t.released[e]
	return released || t.flights.of(e) != nil
}

// learn compares with what is parked according to the source, and returns how much of that was not known.
func (t *tracker) learn(found []tier.Parked) (wrong int) {
	return t.lanes.learn(found, t.isHere, t.judged)
}

// closeLanes begins nothing any more, not even the rest of a pack: what it waits for may be handed back.
func (t *tracker) closeLanes() {
	for _, f := range t.flights.list {
		had := f.left
		for i := range f.messages {
			if m := &f.messages[i]; m.fate == fateOpen && m.idle.Load() {
				f.left--
			}
		}
		if f.left == 0 && had > 0 {
			t.isThrough(f)
		}
	}
}
