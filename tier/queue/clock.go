package queue

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

// clock is what the server's clock said at a moment of this process. A time that the server has is compared by it: what this
// process's clock says, and whether it is set meanwhile, does not matter.
type clock struct{ here0, server time.Time }

func readClock(m rueidis.RedisMessage) (clock, error) {
	ms, err := m.AsInt64()
	return clock{time.Now(), time.UnixMilli(ms)}, tier.Wrap("TIME", "", err)
}

// here is when it is that time by the server's clock, as this process counts. Zero stays so.
func (c clock) here(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return c.here0.Add(at.Sub(c.server))
}
