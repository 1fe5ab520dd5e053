package consumer

import "github.com/echomq/pipeline/codec"

// close stops beginning entries: those that were not begun are to be handed back. A pack that was begun goes on.
func (t *tracker) close() {
	if t.closed {
		return
	}
	t.closed = true
	if t.lanes != nil {
		t.closeLanes()
		return
	}
	for n := t.waiting.count; n > 0; n-- {
		f := t.waiting.first()
		t.waiting.pop()
		switch {
		case f.dropped:
		case f.begun:
			t.waiting.push(f)
		default:
			f.shut()
			f.left = 0
			t.isThrough(f)
		}
	}
}

// interrupt begins nothing at all any more, and returns the messages whose handlers are at work.
func (t *tracker) interrupt() (running []*message) {
	t.interrupted = true
	for ; t.waiting.count > 0; t.waiting.pop() {
		f := t.waiting.first()
		if f.dropped {
			continue
		}
		had := f.left
		rest := f.shut()
		for i := range rest {
			if rest[i].fate == fateOpen {
				f.left--
			}
		}
		if f.left == 0 && had > 0 {
			t.isThrough(f)
		}
	}
	for _, f := range t.flights.list {
		running = f.running(running)
	}
	return running
}

// stuck lists the messages whose handlers are at work.
func (t *tracker) stuck() (at []codec.Position) {
	for _, f := range t.flights.list {
		for _, m := range f.running(nil) {
			at = append(at, m.Position)
		}
	}
	return at
}
