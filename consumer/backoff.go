package consumer

import (
	"math/rand/v2"
	"time"
)

const (
	// A failed call is tried again after a pause of at most callPause, doubled each time up to maxCallPause.
	callPause    = 50 * time.Millisecond
	maxCallPause = 3 * time.Second
	// A failed message comes again after a pause of at most retryPause, doubled each time up to the lease.
	retryPause = time.Second
)

// backoff is the longest pause after try failures, the first being 1: base, then doubled each time, at most limit.
func backoff(try int, base, limit time.Duration) time.Duration {
	d := base
	for ; try > 1 && d < limit; try-- {
		d *= 2 // less than twice the limit: no overflow for limits that a configuration has
	}
	return min(d, limit)
}

// jittered draws a pause from nothing to d, so that those who failed together do not come back together.
func jittered(d time.Duration) time.Duration { return rand.N(d) + 1 }

// callDelay is the pause before call number try + 1. It keeps half, so that a server that is down is left alone.
func callDelay(try int) time.Duration {
	d := backoff(try, callPause, maxCallPause)
	return d/2 + jittered(d/2)
}

// retryDelay is the pause before a message is delivered again whose handler failed in the given delivery. At least a
// millisecond: it is what a server counts in.
func retryDelay(delivery int, lease time.Duration) time.Duration {
	return max(time.Millisecond, jittered(backoff(delivery, retryPause, lease)))
}
