package consumer

import (
	"math/rand/v2"
	"time"
)

// jittered draws a pause from nothing to d, so that those who failed together do not come back together.
func jittered(d time.Duration) time.Duration { return rand.N(d) + 1 }
