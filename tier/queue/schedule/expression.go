package schedule

import (
	"time"

	"github.com/netresearch/go-cron"
)

// searchYears is how far ahead an occurrence is looked for. The rarest, a fifth Monday of a February, are 40 years apart.
const searchYears = 100

// Expression is a cron expression in a time zone.
//
// The library parses it and finds the readings of a clock that it names; when a zone's clock shows them is decided here.
// The library's own answer to that (0.9.1) fires an hour late for what is skipped, twice for what comes twice, and leaves out
// the day when the hour that is skipped is midnight, or only half an hour is.
type Expression struct {
	readings  *cron.SpecSchedule // in UTC, whose clock is never put forward or back
	zone      *time.Location
	openHours bool
}

// Cron is a cron expression in a time zone of the IANA database; "" is UTC. An expression is five fields, minute, hour, day of the
// month, month and day of the week, or one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly. A field
// is a list of *, values and ranges, with a step or none; months and days of the week have English names of three letters, 7 is
// Sunday too, and a range that ends below its start goes around. A day of the month may be L (the last), L-3, 15W (the
// weekday nearest to the 15th) or LW, a day of the week FRI#3 (the third Friday) or FRI#L (the last). If both days are
// restricted, either suffices, as in crontab(5). Errors are [*SyntaxError] and [*ZoneError].
func Cron(expression, zone string) (*Expression, error) {
	readings, err := parse(expression)
	if err != nil {
		return nil, err
	}
	if zone == "Local" {
		return nil, &ZoneError{Zone: zone}
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, &ZoneError{zone, err}
	}
	const all = 1<<24 - 1
	e := &Expression{readings: readings, zone: location, openHours: readings.Hour&all == all}
	if readings.Next(time.UnixMilli(0).UTC()).IsZero() {
		return nil, &SyntaxError{expression, 1, "there is no such day in any year"}
	}
	return e, nil
}

// Next is the first occurrence after a time, by the rule of the package, in the expression's zone.
func (e *Expression) Next(after time.Time) time.Time {
	if e.openHours {
		return e.nextShown(after)
	}
	return e.nextReached(after)
}

// nextShown is when the clock next shows a time of the expression.
func (e *Expression) nextShown(after time.Time) time.Time {
	for s := spanAt(after, e.zone); ; s = s.next() {
		reading := e.readings.Next(s.reading(after))
		if reading.IsZero() {
			return time.Time{}
		}
		if t := s.instant(reading); s.holds(t) {
			return t.In(e.zone)
		}
		after = s.end.Add(-1) // so that the first moment of the next span counts
	}
}

// nextReached is when the clock next reaches or passes, for the first time, a time of the expression.
func (e *Expression) nextReached(after time.Time) time.Time {
	s := spanAt(after, e.zone)
	reading := e.readings.Next(s.highest(after))
	if reading.IsZero() {
		return time.Time{}
	}
	for ; ; s = s.next() {
		t := s.instant(reading)
		if t.Before(s.start) { // the clock has passed it as it was put forward
			t = s.start
		}
		if s.holds(t) {
			return t.In(e.zone)
		}
	}
}
