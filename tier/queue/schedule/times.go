package schedule

import (
	"fmt"
	"time"
)

// Times are the occurrences of a schedule: [*Expression], [Interval].
type Times interface {
	// Next is the first occurrence after a time, which need not be one. The zero time: there is none, ever.
	Next(after time.Time) time.Time
}

// Interval is a fixed grid: an anchor and every so much before and after it.
type Interval struct{ anchor, every int64 } // unix ms, ms

// Every is the grid of an interval through an anchor; the zero time is that of Unix time, 1970-01-01T00:00:00Z, so that all
// who declare an interval mean the same grid. Both are whole milliseconds, the resolution of the server's clock.
func Every(every time.Duration, anchor time.Time) (Interval, error) {
	if anchor.IsZero() {
		anchor = time.UnixMilli(0)
	}
	switch {
	case every < time.Millisecond || every%time.Millisecond != 0:
		return Interval{}, fmt.Errorf("%w: %v: want whole milliseconds, 1 or more", ErrInterval, every)
	case anchor.Nanosecond()%int(time.Millisecond) != 0:
		return Interval{}, fmt.Errorf("%w: its anchor %v is no whole millisecond", ErrInterval, anchor)
	}
	return Interval{anchor.UnixMilli(), every.Milliseconds()}, nil
}

// Next is the first point of the grid after a time.
func (i Interval) Next(after time.Time) time.Time {
	since := after.UnixMilli() - i.anchor
	n := since / i.every
	if since%i.every < 0 { // division rounds to zero, a grid goes on below its anchor
		n--
	}
	return time.UnixMilli(i.anchor + (n+1)*i.every).UTC()
}
