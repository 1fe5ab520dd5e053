package consumer

import (
	"math/rand/v2"
	"time"

	"github.com/echomq/pipeline/tier"
)

// A failed message comes again after a pause of at most retryPause, doubled each time up to the lease.
const retryPause = time.Second

// jittered draws a pause from nothing to d, so that those who failed together do not come back together.
func jittered(d time.Duration) time.Duration { return rand.N(d) + 1 }

// retryDelay is the pause before a message is delivered again whose handler failed in the given delivery. At least a
// millisecond: it is what a server counts in.
func retryDelay(delivery int, lease time.Duration) time.Duration {
	return max(time.Millisecond, jittered(tier.Doubled(delivery, retryPause, lease)))
}
