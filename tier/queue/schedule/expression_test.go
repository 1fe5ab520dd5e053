package schedule_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the tests do not depend on what the machine has

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue/schedule"
)

// at reads "2024-03-10 03:00 -04", in UTC.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse("2006-01-02 15:04 -07", text)
	if err != nil {
		v, err = time.Parse("2006-01-02 15:04 -0700", text)
	}
	require.NoError(t, err)
	return v.UTC()
}

func utc(times []time.Time) []time.Time {
	for i := range times {
		times[i] = times[i].UTC()
	}
	return times
}

// following are the next occurrences, n of them.
func following(times schedule.Times, after time.Time, n int) (found []time.Time) {
	for range n {
		after = times.Next(after)
		found = append(found, after)
	}
	return found
}

// TestDaylightSaving is the rule of the package, by example: New York (an hour, at 2), Lord Howe (half an hour, at 2), Sao
// Paulo (an hour, at midnight), Apia (a whole day).
func TestDaylightSaving(t *testing.T) {
	const york, howe, paulo, apia = "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia"
	tests := []struct {
		name, expression, zone, after string
		want                          []string
	}{
		{"skipped: at the moment of the change", "30 2 * * *", york, "2024-03-09 12:00 -05", []string{"2024-03-10 03:00 -04", "2024-03-11 02:30 -04"}},
		{"several skipped: once", "0,15,30 2 * * *", york, "2024-03-09 12:00 -05", []string{"2024-03-10 03:00 -04", "2024-03-11 02:00 -04"}},
		{"skipped, and the moment of the change: once", "0,30 2,3 * * *", york, "2024-03-09 12:00 -05", []string{"2024-03-10 03:00 -04", "2024-03-10 03:30 -04", "2024-03-11 02:00 -04"}},
		{"around what is skipped", "59 1,3 * * *", york, "2024-03-10 00:00 -05", []string{"2024-03-10 01:59 -05", "2024-03-10 03:59 -04"}},
		{"twice: the first", "30 1 * * *", york, "2024-11-02 12:00 -04", []string{"2024-11-03 01:30 -04", "2024-11-04 01:30 -05"}},
		{"twice: asked between the two", "30 1 * * *", york, "2024-11-03 01:45 -04", []string{"2024-11-04 01:30 -05"}},
		{"twice: asked in the second pass, before it", "30 1 * * *", york, "2024-11-03 01:10 -05", []string{"2024-11-04 01:30 -05"}},
		{"the end of what comes twice", "0 2 * * *", york, "2024-11-03 01:59 -04", []string{"2024-11-03 02:00 -05"}},
		{"hours by a step are named", "*/30 */1,0-22 * * *", york, "2024-11-03 00:45 -04", []string{"2024-11-03 01:00 -04", "2024-11-03 01:30 -04", "2024-11-03 01:00 -05"}},
		{"every second hour", "0 */2 * * *", york, "2024-03-10 00:30 -05", []string{"2024-03-10 03:00 -04", "2024-03-10 04:00 -04"}},
		{"open hours: both passes", "*/30 * * * *", york, "2024-11-03 00:45 -04", []string{"2024-11-03 01:00 -04", "2024-11-03 01:30 -04", "2024-11-03 01:00 -05", "2024-11-03 01:30 -05", "2024-11-03 02:00 -05"}},
		{"open hours: what is skipped is not there", "*/30 * * * *", york, "2024-03-10 01:10 -05", []string{"2024-03-10 01:30 -05", "2024-03-10 03:00 -04", "2024-03-10 03:30 -04"}},
		{"half an hour skipped", "15 2 * * *", howe, "2024-10-05 12:00 +1030", []string{"2024-10-06 02:30 +11", "2024-10-07 02:15 +11"}},
		{"not in the half hour", "45 2 * * *", howe, "2024-10-05 12:00 +1030", []string{"2024-10-06 02:45 +11", "2024-10-07 02:45 +11"}},
		{"half an hour skipped, open hours", "15,45 * * * *", howe, "2024-10-06 01:20 +1030", []string{"2024-10-06 01:45 +1030", "2024-10-06 02:45 +11", "2024-10-06 03:15 +11"}},
		{"half an hour twice", "45 1 * * *", howe, "2024-04-06 12:00 +11", []string{"2024-04-07 01:45 +11", "2024-04-08 01:45 +1030"}},
		{"half an hour twice: the start of it", "30 1 * * *", howe, "2024-04-07 01:59 +11", []string{"2024-04-08 01:30 +1030"}},
		{"half an hour twice, open hours", "15,45 * * * *", howe, "2024-04-07 01:00 +11", []string{"2024-04-07 01:15 +11", "2024-04-07 01:45 +11", "2024-04-07 01:45 +1030", "2024-04-07 02:15 +1030"}},
		{"midnight skipped", "0 0 * * *", paulo, "2018-11-03 12:00 -03", []string{"2018-11-04 01:00 -02", "2018-11-05 00:00 -02"}},
		{"half past midnight skipped", "30 0 * * *", paulo, "2018-11-03 12:00 -03", []string{"2018-11-04 01:00 -02", "2018-11-05 00:30 -02"}},
		{"the midnight of that day only", "0 0 4 11 *", paulo, "2018-11-03 12:00 -03", []string{"2018-11-04 01:00 -02", "2019-11-04 00:00 -03"}},
		{"the day before stays", "59 23 * * *", paulo, "2018-11-03 12:00 -03", []string{"2018-11-03 23:59 -03", "2018-11-04 23:59 -02"}},
		{"the hour before midnight twice", "30 23 * * *", paulo, "2018-02-17 12:00 -02", []string{"2018-02-17 23:30 -02", "2018-02-18 23:30 -03"}},
		{"the midnight after it", "0 0 * * *", paulo, "2018-02-17 12:00 -02", []string{"2018-02-18 00:00 -03", "2018-02-19 00:00 -03"}},
		{"a day skipped", "0 12 * * *", apia, "2011-12-29 13:00 -10", []string{"2011-12-31 00:00 +14", "2011-12-31 12:00 +14"}},
		{"years ahead", "0 12 29 2 *", york, "2096-03-01 00:00 -05", []string{"2104-02-29 12:00 -05"}},
		{"years ahead, open hours", "0 * 29 2 *", howe, "2096-03-01 00:00 +11", []string{"2104-02-29 00:00 +11"}},
		{"the end of a leap year", "0 12 * * *", york, "2040-12-30 13:00 -05", []string{"2040-12-31 12:00 -05", "2041-01-01 12:00 -05"}},
		{"a day skipped, open hours", "0 * 30 12 *", apia, "2011-12-29 13:00 -10", []string{"2012-12-30 00:00 +14"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			times, err := schedule.Cron(tt.expression, tt.zone)
			require.NoError(t, err)
			var want []time.Time
			for _, w := range tt.want {
				want = append(want, at(t, w))
			}
			require.Equal(t, want, utc(following(times, at(t, tt.after), len(want))))
		})
	}
}

func TestExpressions(t *testing.T) {
	tests := []struct {
		name, expression, after string
		want                    []string
	}{
		{"minutes", "*/20 * * * *", "2024-01-01 00:00", []string{"2024-01-01 00:20", "2024-01-01 00:40", "2024-01-01 01:00"}},
		{"a list", "5,1 3 * * *", "2024-01-01 00:00", []string{"2024-01-01 03:01", "2024-01-01 03:05"}},
		{"from a value by a step", "50/5 3 * * *", "2024-01-01 00:00", []string{"2024-01-01 03:50", "2024-01-01 03:55", "2024-01-02 03:50"}},
		{"around midnight", "0 22-1 * * *", "2024-01-01 12:00", []string{"2024-01-01 22:00", "2024-01-01 23:00", "2024-01-02 00:00", "2024-01-02 01:00"}},
		{"names", "0 0 * feb,DEC Mon", "2024-02-20 00:00", []string{"2024-02-26 00:00", "2024-12-02 00:00"}},
		{"sunday is 7 too", "0 0 * * 7", "2024-01-01 00:00", []string{"2024-01-07 00:00"}},
		{"either day", "0 0 13 * FRI", "2024-09-07 00:00", []string{"2024-09-13 00:00", "2024-09-20 00:00", "2024-09-27 00:00", "2024-10-04 00:00", "2024-10-11 00:00", "2024-10-13 00:00"}},
		{"the last day", "0 0 L * *", "2024-02-01 00:00", []string{"2024-02-29 00:00", "2024-03-31 00:00"}},
		{"before the last day", "0 0 L-2 * *", "2024-02-01 00:00", []string{"2024-02-27 00:00"}},
		{"the weekday nearest to a day", "0 0 15W 6 *", "2024-01-01 00:00", []string{"2024-06-14 00:00", "2025-06-16 00:00"}},
		{"the last weekday", "0 0 LW 6 *", "2024-01-01 00:00", []string{"2024-06-28 00:00"}},
		{"the third friday", "0 0 * * FRI#3", "2024-01-01 00:00", []string{"2024-01-19 00:00", "2024-02-16 00:00"}},
		{"the last friday", "0 0 * * FRI#L", "2024-01-01 00:00", []string{"2024-01-26 00:00"}},
		{"leap days, and none in 2100", "0 0 29 2 *", "2093-01-01 00:00", []string{"2096-02-29 00:00", "2104-02-29 00:00"}},
		{"a fifth monday of february", "0 0 * 2 MON#5", "2072-01-01 00:00", []string{"2072-02-29 00:00", "2112-02-29 00:00"}},
		{"by name", "@weekly", "2024-01-01 00:00", []string{"2024-01-07 00:00", "2024-01-14 00:00"}},
		{"with blanks", " \t@daily ", "2024-01-01 00:00", []string{"2024-01-02 00:00"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			times, err := schedule.Cron(tt.expression, "")
			require.NoError(t, err)
			var want []time.Time
			for _, w := range tt.want {
				want = append(want, at(t, w+" +00"))
			}
			require.Equal(t, want, following(times, at(t, tt.after+" +00"), len(want)))
		})
	}
}

// TestSyntax: what is wrong is told with where.
func TestSyntax(t *testing.T) {
	tests := []struct {
		name, expression string
		column           int
		reason           string
	}{
		{"nothing", "", 1, "minute is missing"},
		{"a field missing", "0 0 * *", 8, "day of the week is missing"},
		{"a field too many", "0 0 * * * 2024", 11, "a field too many"},
		{"seconds", "*/5 0 1 * * *", 13, "a field too many"},
		{"too high", "60 * * * *", 1, "minute: end of range (60) above maximum (59)"},
		{"too high in a list", "0,15,75 * * * *", 6, "minute: end of range (75) above maximum (59)"},
		{"too low", "0  12  0 * *", 8, "day of the month: beginning of range (0) below minimum (1)"},
		{"no number", "0 noon * * *", 3, `hour: failed to parse int from "noon"`},
		{"no month", "0 0 * foo *", 7, "month: failed to parse"},
		{"empty element", "0,,5 * * * *", 3, "minute: an empty element"},
		{"only empty elements", "* , * * *", 3, "hour: an empty element"},
		{"a sign", "+5 * * * *", 1, `minute: "+5" is no element`},
		{"a range from everything", "0 *-5 * * *", 3, `hour: "*-5" is no element`},
		{"no step", "*/0 * * * *", 1, "minute: step of range must be a positive number"},
		{"a step beyond the range", "0 */25 * * *", 3, "hour: step (25) must be less than range size (24)"},
		{"two steps", "1/2/3 * * * *", 1, `minute: "1/2/3" is no element`},
		{"L at the minute", "L * * * *", 1, "minute: failed to parse"},
		{"the sixth monday", "0 0 * * MON#6", 9, "day of the week: occurrence must be 1-5"},
		{"a zone", "TZ=UTC 0 0 * * *", 1, `minute: "TZ=UTC" is no element`},
		{"hashed", "H * * * *", 1, "minute: h expressions require"},
		{"no such day", "0 0 31 2,4 *", 1, "there is no such day"},
		{"an interval", "@every 5m", 1, "an interval is no cron expression"},
		{"an unknown word", "  @reboot", 3, `unknown word "@reboot"`},
		{"a blank that is none", "0\u00a00 * * *", 1, "is no element"},
		{"too long", string(make([]byte, 513)), 513, "513 bytes, more than 512"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schedule.Cron(tt.expression, "Europe/Berlin")
			var syntax *schedule.SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.Equal(t, tt.column, syntax.Column, syntax.Reason)
			require.Contains(t, syntax.Reason, tt.reason)
			require.Contains(t, err.Error(), "column")
		})
	}
}

func TestZones(t *testing.T) {
	for _, zone := range []string{"Mars/Olympus", "Local", "../etc/passwd", "EST5EDT6"} {
		_, err := schedule.Cron("0 0 * * *", zone)
		var unknown *schedule.ZoneError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, zone, unknown.Zone)
		require.Contains(t, err.Error(), zone)
	}
	times, err := schedule.Cron("0 9 * * *", "Asia/Kathmandu")
	require.NoError(t, err)
	require.Equal(t, at(t, "2024-01-01 09:00 +0545"), times.Next(at(t, "2024-01-01 00:00 +00")).UTC())
}

// FuzzCron: what is refused is refused with its place, what is taken has occurrences that ascend.
func FuzzCron(f *testing.F) {
	for _, s := range []string{
		"* * * * *", "0 0 29 2 *", "*/7 22-4 L-3,15W * FRI#2,1", "@hourly", "@", "0 0 31 2 *", "60 * * * *", ",", "\xff * * * *",
		"59 23 31 12 7", "0 0 1-31/2 JAN-MAR sun-SAT", "? ? ? ? ?",
	} {
		f.Add(s, "America/New_York", int64(1541249640))
		f.Add(s, "Australia/Lord_Howe", int64(4101000000))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, after int64) {
		times, err := schedule.Cron(expression, zone)
		if err != nil {
			var syntax *schedule.SyntaxError
			var unknown *schedule.ZoneError
			require.True(t, asEither(err, &syntax, &unknown), err)
			if syntax != nil {
				require.GreaterOrEqual(t, syntax.Column, 1)
				require.LessOrEqual(t, syntax.Column, len(expression)+1)
			}
			return
		}
		last := time.Unix(after%1e10, 0) // up to the year 2286
		for range 3 {
			next := times.Next(last)
			require.True(t, next.After(last), "%v after %v", next, last)
			require.Zero(t, next.Second())
			last = next
		}
	})
}
