package replay

import (
	"math"
	"time"
)

// pace says when messages go: as they came, faster or slower by a factor, and at most so many a second. It looks at no clock.
type pace struct {
	speed float64 // 2: in half the time; 0: at once
	rate  float64 // messages a second; 0: any

	begun bool
	from  time.Time // when the first went
	first time.Time // when it came
	free  time.Time // when the rate allows more
}

// due is when n messages that came at a time go, and notes that they do. One that is late, since those before it took longer
// than the time between them, goes at once.
func (p *pace) due(now, came time.Time, n int) time.Time {
	if !p.begun {
		p.begun, p.from, p.first, p.free = true, now, came, now
	}
	due := now
	if p.speed > 0 {
		due = later(due, p.from.Add(scaled(came.Sub(p.first), 1/p.speed)))
	}
	if p.rate > 0 {
		due = later(due, p.free)
		p.free = due.Add(scaled(time.Second, float64(n)/p.rate))
	}
	return due
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// scaled is d times a factor, at most what a duration holds.
func scaled(d time.Duration, factor float64) time.Duration {
	f := float64(d) * factor
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}
