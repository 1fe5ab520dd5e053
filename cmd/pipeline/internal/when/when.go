// Package when reads how people name a place in a stream, a length of time, and
// the time of an event.
package when

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/duration"
)

// Point is a place in a stream: an id, an entry id, or an instant.
type Point struct {
	ID    codec.ID      // not zero: this id
	Entry codec.EntryID // not zero: this address
	Index int           // of a message in the pack at Entry; 0 for its first, and for the whole
	Time  time.Time     // otherwise; the zero time for 0-0, where every stream begins
	Lasts time.Duration // of what the text calls Time: a day, a minute, a second; 0 for an instant
}

// PointRule says what ParsePoint reads.
const PointRule = "want an id (ORD0STCa4O4Feq), an entry (1795957200000-0, 1795957200000-99#3), a time (2026-11-29T13:00:00Z, or UTC: 2026-11-29, " +
	"2026-11-29 13:00, 2026-11-29 13:00:05), or how long ago (90s, 15m, 2h, 7d)"

// ParsePoint reads an ID, an entry, a TIME, or an AGO counted back from now.
func ParsePoint(s string, now time.Time) (Point, error) {
	if id, err := codec.Parse(s); err == nil {
		return Point{ID: id}, nil
	}
	if p, err := codec.ParsePosition(s); err == nil {
		return Point{Entry: p.Entry, Index: p.Index}, nil
	}
	if p, ok := parseTime(s); ok {
		return p, nil
	}
	if ago, err := ParseDuration(s); err == nil {
		return Point{Time: now.Add(-ago)}, nil
	}
	return Point{}, fmt.Errorf("%s", PointRule)
}

// IsTime reports whether p is an instant, and not an address.
func (p Point) IsTime() bool { return p.ID.IsZero() && p.Entry.IsZero() }

var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// lasting is how long what a layout names is.
var lasting = map[string]time.Duration{
	time.RFC3339Nano: time.Second, "2006-01-02 15:04:05": time.Second, "2006-01-02 15:04": time.Minute, "2006-01-02": 24 * time.Hour,
}

func parseTime(s string) (Point, bool) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			p := Point{Time: t.UTC(), Lasts: lasting[layout]}
			if strings.ContainsAny(s, ".,") { // a fraction of a second
				p.Lasts = 0
			}
			return p, true
		}
	}
	return Point{}, false
}

// eventLayouts are those of files: with a T or a space, with - or /.
var eventLayouts = append(layouts, "2006-01-02T15:04:05", "2006/01/02 15:04:05", "2006/01/02 15:04", "2006/01/02")

// EventRule says what ParseEvent reads.
const EventRule = "want a time as in 2026-11-29T13:00:00Z, 2026-11-29 13:00:05.25 or 2026/11/29 13:00:05 (UTC where no zone is given)"

// ParseEvent reads the time of an event as data files spell it, fractions of a
// second included. Without a zone it is UTC.
func ParseEvent(s string) (time.Time, error) {
	for _, layout := range eventLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s", EventRule)
}

// DurationRule says what ParseDuration reads.
const DurationRule = "want a length of time above zero, as in 500ms, 90s, 15m, 2h30m, 7d, 2w"

// ParseDuration reads a Go duration, with weeks and days in front: 2w, 7d, 1d12h.
// It has to be above zero.
func ParseDuration(s string) (time.Duration, error) {
	d, err := duration.Parse(s)
	if err != nil || d == 0 {
		return 0, errors.New(DurationRule)
	}
	return d, nil
}
