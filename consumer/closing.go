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
		case f.begun():
			t.waiting.push(f)
		default:
			f.next, f.left = len(f.messages), 0
			t.isThrough(f)
		}
	}
}

func (f *flight) begun() bool {
	for i := range f.messages[:f.next] {
		if m := &f.messages[i]; m.running || m.fate == fateDone || m.fate == fateAgain || m.fate == fateDead && m.Err == nil {
			return true
		}
	}
	return false
}

// interrupt begins nothing at all any more, and returns the contexts of the handlers that are at work.
func (t *tracker) interrupt() (running []*handling) {
	t.interrupted = true
	for ; t.waiting.count > 0; t.waiting.pop() {
		f := t.waiting.first()
		if f.dropped {
			continue
		}
		had := f.left
		for ; f.next < len(f.messages); f.next++ {
			if f.messages[f.next].fate == fateOpen {
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
		for i := range f.messages[:f.next] {
			if f.messages[i].running {
				at = append(at, f.messages[i].Position)
			}
		}
	}
	return at
}
