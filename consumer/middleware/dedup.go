package middleware

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/echomq/pipeline/consumer"
)

// inFlightPause is how long a duplicate waits for one that is being handled. It does not hold its worker.
const inFlightPause = time.Second

// DedupConfig bounds what is remembered.
type DedupConfig struct {
	// Size is how many ids are remembered, the last that were handled; needed. Small, a duplicate that comes late is handled
	// again; large, memory: about 100 bytes each, beside the id.
	Size int
	// ID is what duplicates have in common: an id that the producer gave, as a rule, in a header or in the key. A message of
	// which it is empty is handled. Default MessageID, which only the same message has, when it is delivered again.
	ID func(*consumer.Delivery) string
}

// Dedup settles messages whose id was handled without an error before, by this process, and is still remembered, without
// handling them. One whose id is being handled comes again a second later, which spends no attempt.
//
// It forgets with the process, and knows nothing of others: it saves work, where producers send twice or leases are lost, and
// guarantees nothing. [Once] knows what other processes did. A group that is reset handles its messages again, except for what
// the window of a running process remembers.
func Dedup(cfg DedupConfig) (Middleware, error) {
	if cfg.Size < 1 {
		return nil, fmt.Errorf("%w: Dedup has a Size of %d, want at least 1", ErrConfig, cfg.Size)
	}
	if cfg.ID == nil {
		cfg.ID = MessageID
	}
	w := &window{ring: make([]string, 0, min(cfg.Size, 1024)), size: cfg.Size, ids: map[string]bool{}}
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			id := cfg.ID(m)
			if id == "" {
				return next(ctx, m)
			}
			switch known, done := w.begin(id); {
			case done:
				return nil
			case known:
				return WithoutEffect(consumer.Snooze(inFlightPause))
			}
			handled := false
			defer func() { w.end(id, handled) }() // after a panic, too
			err := next(ctx, m)
			handled = err == nil
			return err
		}
	}, nil
}

// window remembers the last ids that were handled, and those that are being handled, of which there are no more than
// workers.
type window struct {
	mu   sync.Mutex
	ids  map[string]bool // whether it was handled, or is being
	ring []string        // those that were, the oldest at next once it is full
	next int
	size int
}

// begin notes that id is being handled, unless it is known.
func (w *window) begin(id string) (known, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done, known = w.ids[id]; !known {
		w.ids[id] = false
	}
	return known, done
}

// end notes that id was handled, or forgets it.
func (w *window) end(id string, handled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !handled {
		delete(w.ids, id)
		return
	}
	w.ids[id] = true
	if len(w.ring) < w.size {
		w.ring = append(w.ring, id)
		return
	}
	delete(w.ids, w.ring[w.next])
	w.ring[w.next] = id
	w.next = (w.next + 1) % w.size
}
