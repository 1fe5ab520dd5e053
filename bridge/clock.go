package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/echomq/pipeline/tier"
)

// clockAge is how long a reading of the server's clock is gone on from, when what depends on it is worth a round trip.
const clockAge = time.Minute

// clock is the server's clock: read once, and gone on from by how much time has passed here, which no change of this host's
// clock touches.
type clock struct {
	client *tier.Client
	key    string // a node of the cluster serves it

	mu     sync.Mutex
	server time.Time // as it was read
	read   time.Time // when, by the clock here
}

// now is the time as far as is known here.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.Add(time.Since(c.read))
}

// fresh is now, read again when the last reading is old and the server can be asked.
func (c *clock) fresh(ctx context.Context) time.Time {
	c.mu.Lock()
	old := time.Since(c.read) > clockAge
	c.mu.Unlock()
	if old {
		_ = c.set(ctx) // the old reading will do
	}
	return c.now()
}

func (c *clock) set(ctx context.Context) error {
	sent := time.Now()
	server, err := c.client.Now(ctx, c.key)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.read = server, sent.Add(time.Since(sent)/2)
	return nil
}
