//go:build unix

package bench

import (
	"syscall"
	"time"
)

// clientCPU is what this process has used so far.
func clientCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // of the arguments, which are constants
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
