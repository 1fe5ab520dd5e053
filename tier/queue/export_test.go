package queue

import (
	"context"
	"time"
)

// Lags says that the server's clock is behind this process's.
func (m *Member) Lags(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.server = m.clock.server.Add(-d)
}

// Jump lets the worker's clock run ahead: all that the member remembers of what the server said is old.
func (m *Member) Jump(d time.Duration) {
	m.claims.mu.Lock()
	m.claims.at = m.claims.at.Add(-d)
	m.claims.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range []*time.Time{&m.known.at, &m.known.due, &m.known.look, &m.swept} {
		if !at.IsZero() {
			*at = at.Add(-d)
		}
	}
}

// Direct has the member take the short way whenever it can, from its first settle on.
func (m *Member) Direct(ctx context.Context) {
	for _, d := range []*direct{&m.claims, &m.settles} {
		d.least, d.pauses = 1, 0
	}
	m.allowed.Store(settleScript, true)
	m.openSettles(ctx)
}

// Hold keeps callers from sending until go on is called. Waiting is how many wait for the first of what is open.
func (c *Client) Hold() (goOn func(), waiting func() int) {
	var held []*slot
	for range callsAtOnce {
		held = append(held, <-c.slots)
	}
	return func() {
			for _, p := range held {
				c.slots <- p
			}
		}, func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.open) == 0 {
				return 0
			}
			return c.open[0].waiters
		}
}
