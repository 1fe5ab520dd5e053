package schedule

import "time"

// span is a stretch of time in which a zone's clock is neither put forward nor back. A reading of the clock is a time in
// UTC that has the clock's date and time of day.
type span struct {
	start, end time.Time // zero: since ever, for ever
	offset     time.Duration
	zone       *time.Location
}

// spanAt finds the span of a time. Package time (Go 1.26) bounds a zone at the ends of years, too, and one day early in leap years
// after 2037, where the bounds do not end: what it says is taken for where to look next.
func spanAt(t time.Time, zone *time.Location) span {
	s := span{offset: offsetAt(t, zone), zone: zone}
	s.start, s.end = t.In(zone).ZoneBounds()
	for !s.end.IsZero() && offsetAt(s.end, zone) == s.offset {
		_, later := s.end.ZoneBounds()
		if !later.IsZero() && !later.After(s.end) {
			later = s.end.Add(24 * time.Hour)
		}
		s.end = later
	}
	return s
}

func offsetAt(t time.Time, zone *time.Location) time.Duration {
	_, offset := t.In(zone).Zone()
	return time.Duration(offset) * time.Second
}

// next is the span after this one, which ends.
func (s span) next() span {
	n := spanAt(s.end, s.zone)
	n.start = s.end
	return n
}

func (s span) reading(t time.Time) time.Time       { return t.UTC().Add(s.offset) }
func (s span) instant(reading time.Time) time.Time { return reading.Add(-s.offset) }
func (s span) holds(t time.Time) bool              { return s.end.IsZero() || t.Before(s.end) }

// repeats is the longest stretch that a clock goes through twice: a day, where the date line was moved.
const repeats = 24 * time.Hour

// highest is the highest reading that the clock has shown up to a time in the span: that before it was put back, while it goes
// through the same readings again.
func (s span) highest(t time.Time) time.Time {
	high := s.reading(t)
	for !s.start.IsZero() && t.Sub(s.start) <= repeats {
		end := s.start.Add(-1)
		s = spanAt(end, s.zone)
		if r := s.reading(end); r.After(high) {
			high = r
		}
	}
	return high
}
