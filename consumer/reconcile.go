package consumer

import (
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

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
// more will be done, with the contexts to end; and what is held though nobody here knows of it, which what was released is, too, when it
// was taken over since by a call whose reply was lost.
func (t *tracker) reconcile(held []tier.Held) (lost []*flight, running []*message, unknown []tier.Held) {
	known := make(map[codec.EntryID]bool, len(held))
	for _, h := range held {
		known[h.Entry] = true
		if r, is := t.released[h.Entry]; t.flights.of(h.Entry) == nil && (!is || h.Deliveries > r.deliveries) {
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
		begun := t.drop(f)
		if !f.gone && !f.unsure {
			lost = append(lost, f)
			running = append(running, begun...)
		}
	}
	return lost, running, unknown
}

// drop ends a flight whose entry is not this consumer's any more, and returns the messages whose handlers are at work. If it may have
// been parked, what waits for it goes on waiting until it was asked what is parked.
func (t *tracker) drop(f *flight) (running []*message) {
	f.dropped = true
	f.shut()
	if f.unsure {
		t.forget(f)
	} else {
		t.remove(f)
	}
	return f.running(nil)
}
