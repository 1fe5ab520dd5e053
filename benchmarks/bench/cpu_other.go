//go:build !unix

package bench

import "time"

// clientCPU is not known here, and reported as nothing.
func clientCPU() time.Duration { return 0 }
