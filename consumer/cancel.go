package consumer

import (
	"log/slog"

	"github.com/echomq/pipeline/codec"
)

// canceller is what a Member is, too, whose entries can be cancelled while they are handled: which are, and why, as far as
// Renew has learnt it since the last call.
type canceller interface {
	Cancelled() map[codec.EntryID]string
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
		r.log.log.Info("cancelled", slog.String("entry", e.String()), slog.Int("messages", len(open)))
	}
}
