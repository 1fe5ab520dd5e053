package consumer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// canceller is what a Member is, too, whose entries can be cancelled while they are handled: which are, and why, as far as
// Renew has learnt it since the last call. Listen tells of those that are worth a renewal at once, see [queue.Member.Listen]: what
// it does not tell, the next renewal brings.
type canceller interface {
	Cancelled() map[codec.EntryID]string
	Listen(ctx context.Context, missed func(), cancelled func(entry codec.EntryID)) error
}

// cancel ends the contexts of what is cancelled, begun or not.
func (r *run) cancel(entries map[codec.EntryID]string) {
	for e, reason := range entries {
		var open []*handling
		r.desk.ask(func(t *tracker) {
			if f := t.flights.of(e); f != nil {
				for i := range f.messages {
					if m := &f.messages[i]; m.fate == fateOpen {
						open = append(open, &m.ctx)
					}
				}
			}
		})
		for _, h := range open {
			h.end(&CancelledError{Reason: reason})
		}
		r.log.Log.Info("cancelled", slog.String("entry", e.String()), slog.Int("messages", len(open)))
	}
}

// listenLoop hears what is cancelled, over one connection after another.
func (r *run) listenLoop(c canceller) {
	var heard atomic.Bool
	for try := 1; r.calls.Err() == nil; try++ {
		err := c.Listen(r.calls, func() {
			heard.Store(true)
			r.urgent.hear(nil)
		}, func(e codec.EntryID) { r.urgent.hear(&e) })
		switch {
		case r.calls.Err() != nil:
			return
		case errors.Is(err, tier.ErrPermission):
			r.log.Log.Warn("the user may not hear what is cancelled at once: handlers learn it with the next renewal", slog.Any("err", err))
			return
		case err != nil:
			r.log.Warn("hearing what is cancelled failed, it is tried again: renewals tell it meanwhile", slog.Any("err", err))
		}
		if heard.Swap(false) {
			try = 1
		}
		tier.Pause(r.calls, tier.CallDelay(try))
	}
}

// urgent is what is to be renewed before its time, since it may be cancelled.
type urgent struct {
	wake chan struct{} // something was heard, or fetched since

	mu      sync.Mutex
	entries []codec.EntryID
	all     bool
}

// hear notes an entry, or all that is held.
func (u *urgent) hear(e *codec.EntryID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e == nil {
		u.all = true
	} else {
		u.entries = append(u.entries, *e)
	}
	signal(u.wake)
}

// fetched looks again at what was heard of before it was here.
func (u *urgent) fetched() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.entries) > 0 {
		signal(u.wake)
	}
}

// take is what is to be renewed now. What was heard of and is not here stays: its delivery is under way, or it has ended.
func (u *urgent) take(d *desk) []codec.EntryID {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all {
		u.all, u.entries = false, nil
		return d.entries()
	}
	var here []codec.EntryID
	d.ask(func(t *tracker) {
		u.entries = slices.DeleteFunc(u.entries, func(e codec.EntryID) bool {
			is := t.flights.of(e) != nil
			if is {
				here = append(here, e)
			}
			return is
		})
	})
	return here
}

// forget is for when all is renewed anyway.
func (u *urgent) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.entries = nil
}
