package stream

import "sync"

// turn is where the callers of a batch wait. One of them has it to send the batch; who stops waiting hands it on.
type turn struct {
	mu    sync.Mutex
	ended bool
	next  chan struct{} // somebody else's turn; closed: the batch has ended
}

func newTurn() turn { return turn{next: make(chan struct{}, 1)} }

// end tells all who wait.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	close(t.next)
}

// pass hands the turn on, and reports whether there is anything left to wait for.
func (t *turn) pass() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.next <- struct{}{} // one has it, so that there is room
	}
	return !t.ended
}

// over reports whether the batch has ended.
func (t *turn) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}
