package stream

import (
	"sync"

	"github.com/echomq/pipeline/codec"
)

// highest is the highest address that a writer was given: a server that lost it must not give it again.
type highest struct {
	mu sync.Mutex
	at codec.EntryID
}

func (h *highest) raise(at codec.EntryID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at.Compare(h.at) > 0 {
		h.at = at
	}
}

func (h *highest) load() codec.EntryID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}
