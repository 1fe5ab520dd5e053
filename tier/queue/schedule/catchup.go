package schedule

import (
	"fmt"
	"time"
)

// CatchUp says what becomes of occurrences that were due while nobody looked: the server was away, or all who fire were.
type CatchUp string

const (
	// Once fires for the latest occurrence, however late, and drops those before it.
	Once CatchUp = "once"
	// Skip fires for the latest occurrence if it is at most [Grace] late, and drops the rest.
	Skip CatchUp = "skip"
	// All fires for each occurrence, up to a limit the latest ones.
	All CatchUp = "all"
)

// Grace is how late an occurrence counts as on time for [Skip]: longer than a restart or a failover takes.
const Grace = time.Minute

// ParseCatchUp reads a policy; "" is [Once].
func ParseCatchUp(text string) (CatchUp, error) {
	switch c := CatchUp(text); c {
	case "":
		return Once, nil
	case Once, Skip, All:
		return c, nil
	}
	return "", fmt.Errorf("schedule: catch-up %.64q: want once, skip or all", text)
}

// Due are the occurrences to fire for, ascending, and the first after now. next is the first that nobody has fired
// for, at or before now; with [All] at most limit are returned.
func (c CatchUp) Due(times Times, next, now time.Time, limit int) (due []time.Time, following time.Time) {
	if c != All {
		limit = 1
	}
	due = latest(times, next, now, limit)
	if c == Skip && now.Sub(due[0]) > Grace {
		due = nil
	}
	return due, times.Next(now)
}

// latest are the last n occurrences from next to now. It looks back from now in steps that double, so that a grid of a
// second that was left for a year is not walked through.
func latest(times Times, next, now time.Time, n int) []time.Time {
	passed := now.Sub(next)
	following := times.Next(now)
	window := times.Next(following).Sub(following) // by how far they are apart, at a guess
	if window <= 0 || window > passed/time.Duration(n) {
		window = passed
	} else {
		window *= time.Duration(n)
	}
	for ; window < passed; window *= 2 {
		if found := between(times, now.Add(-window), now, n); len(found) == n {
			return found
		}
	}
	found := append([]time.Time{next}, between(times, next, now, n)...)
	return found[max(0, len(found)-n):]
}

// between are the last n occurrences after one time and up to another.
func between(times Times, after, until time.Time, n int) []time.Time {
	var found []time.Time
	for t := times.Next(after); !t.IsZero() && !t.After(until); t = times.Next(t) {
		found = append(found, t)
		if len(found) > n {
			found = found[1:]
		}
	}
	return found
}
