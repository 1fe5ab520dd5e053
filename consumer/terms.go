package consumer

import (
	"context"
	"time"
)

// perform gives a message to the handler, for as long as its terms allow.
func (r *run) perform(m *message) error {
	m.notes = r.notes
	t := m.Terms
	if t == nil || t.Timeout <= 0 && t.Deadline.IsZero() {
		return r.handler(&m.ctx, &m.Delivery)
	}
	now := time.Now()
	until := t.Deadline
	if !until.IsZero() && !now.Before(until) {
		return Permanent(ErrExpired)
	}
	if end := now.Add(t.Timeout); t.Timeout > 0 && (until.IsZero() || end.Before(until)) {
		until = end
	}
	ctx, cancel := context.WithDeadlineCause(&m.ctx, until, ErrTimeout)
	defer cancel()
	return r.handler(ctx, &m.Delivery)
}
