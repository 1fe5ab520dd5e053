package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/tier/queue/schedule"
)

func asEither(err error, syntax **schedule.SyntaxError, unknown **schedule.ZoneError) bool {
	return errors.As(err, syntax) || errors.As(err, unknown)
}

// twin is an expression, dumb: sets of values, walked minute by minute.
type twin struct {
	minutes, hours, days, months, weekdays map[int]bool // nil: all
	zone                                   *time.Location
}

func (w twin) names(reading time.Time) bool {
	in := func(set map[int]bool, v int) bool { return set == nil || set[v] }
	day, weekday := in(w.days, reading.Day()), in(w.weekdays, int(reading.Weekday()))
	either := day && weekday
	if w.days != nil && w.weekdays != nil {
		either = day || weekday
	}
	return in(w.minutes, reading.Minute()) && in(w.hours, reading.Hour()) && in(w.months, int(reading.Month())) && either
}

// clockAt is what the zone's clock shows, as if it were UTC.
func (w twin) clockAt(t time.Time) time.Time {
	_, offset := t.In(w.zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// occurrences are those after one time and up to another. The walk begins two days earlier, to know what the clock has shown.
func (w twin) occurrences(after, until time.Time) (found []time.Time) {
	t := after.Truncate(time.Minute).Add(-48 * time.Hour)
	for high := w.clockAt(t); !t.After(until); t = t.Add(time.Minute) {
		reading, fires := w.clockAt(t), false
		if w.hours == nil {
			fires = w.names(reading)
		} else {
			for ; high.Before(reading); fires = fires || w.names(high) {
				high = high.Add(time.Minute)
			}
		}
		if fires && t.After(after) {
			found = append(found, t)
		}
	}
	return found
}

func drawSet(t *rapid.T, label string, low, high, most int) (map[int]bool, string) {
	if rapid.Bool().Draw(t, label+" open") {
		return nil, "*"
	}
	set, list := map[int]bool{}, []string{}
	for _, v := range rapid.SliceOfN(rapid.IntRange(low, high), 1, most).Draw(t, label) {
		set[v] = true
		list = append(list, fmt.Sprint(v))
	}
	return set, strings.Join(list, ",")
}

// moments are hours of changes: each zone's clock is put forward, back or away within two days of each.
var moments = map[string][]string{
	"America/New_York":    {"2024-03-10 02:00 -05", "2024-11-03 02:00 -04", "2040-12-31 00:00 -05", "2052-11-03 02:00 -04"},
	"Australia/Lord_Howe": {"2024-04-07 02:00 +11", "2024-10-06 02:00 +1030"},
	"America/Sao_Paulo":   {"2018-02-18 00:00 -02", "2018-11-04 00:00 -03"},
	"Africa/Casablanca":   {"2024-03-10 03:00 +01", "2024-04-14 02:00 +00"},
	"Pacific/Apia":        {"2011-12-30 00:00 -10", "2011-09-24 03:00 -11"},
	"Pacific/Kwajalein":   {"1993-08-21 00:00 -12"},
	"Asia/Pyongyang":      {"2015-08-15 00:00 +09", "2018-05-04 23:30 +0830"},
	"Asia/Kathmandu":      {"2024-01-01 00:00 +0545"},
}

// TestMinuteByMinute compares with a twin that walks from minute to minute: no occurrence is skipped, none comes twice, they ascend,
// and it does not matter from where one asks.
func TestMinuteByMinute(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		zone := rapid.SampledFrom([]string{
			"America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Pyongyang",
			"Asia/Kathmandu",
		}).Draw(rt, "zone")
		moment := at(t, rapid.SampledFrom(moments[zone]).Draw(rt, "moment"))
		var w twin
		var err error
		w.zone, err = time.LoadLocation(zone)
		require.NoError(rt, err)
		field := make([]string, 5)
		w.minutes, field[0] = drawSet(rt, "minutes", 0, 59, 5)
		w.hours, field[1] = drawSet(rt, "hours", 0, 23, 6)
		w.days, field[2] = drawSet(rt, "days", 1, 31, 12)
		w.months, field[3] = drawSet(rt, "months", 1, 12, 12)
		w.weekdays, field[4] = drawSet(rt, "weekdays", 0, 6, 5)
		expression := strings.Join(field, " ")
		times, err := schedule.Cron(expression, zone)
		if err != nil {
			require.ErrorContains(rt, err, "no such day")
			return
		}
		after := moment.Add(time.Duration(rapid.IntRange(-36*3600, 12*3600).Draw(rt, "after")) * time.Second)
		until := moment.Add(60 * time.Hour)
		want := w.occurrences(after, until)
		last := after
		for _, o := range want {
			next := times.Next(last)
			require.Equal(rt, o, next.UTC(), "%s in %s after %v", expression, zone, last)
			between := last.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(last))-1).Draw(rt, "between")))
			require.Equal(rt, o, times.Next(between).UTC(), "%s in %s after %v", expression, zone, between)
			last = next
		}
		require.True(rt, times.Next(last).After(until), "%s in %s after %v", expression, zone, last)
	})
}
