package tier

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pause waits for d; false when ctx ended before.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 3 * time.Second
)

// CallDelay is the pause before a call is tried again that has failed try times: 50 ms, doubled each time up to 3 s. It
// keeps half, so that a server that is down is left alone, and draws half, so that those who failed together do not
// come back together.
func CallDelay(try int) time.Duration {
	d := Doubled(try, firstPause, maxPause)
	return d/2 + rand.N(d/2) + 1
}

// Doubled is base after the first try, then doubled each time, at most limit.
func Doubled(try int, base, limit time.Duration) time.Duration {
	d := base
	for ; try > 1 && d < limit; try-- {
		d *= 2 // less than twice the limit: no overflow for limits that a configuration has
	}
	return min(d, limit)
}
