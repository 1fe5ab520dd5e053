package when_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/codec"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestParsePoint(t *testing.T) {
	id, err := codec.Parse("EVT000xY9Wvvcd")
	require.NoError(t, err)
	for _, tc := range []struct {
		name string
		in   string
		want when.Point
	}{
		{"id", "EVT000xY9Wvvcd", when.Point{ID: id}},
		{"entry id", "1704117200000-7", when.Point{Entry: codec.EntryID{Ms: 1704117200000, Seq: 7}}},
		{"message of a pack", "1704117200000-7#3", when.Point{Entry: codec.EntryID{Ms: 1704117200000, Seq: 7}, Index: 3}},
		{"RFC 3339", "2026-11-29T13:04:05+01:00", when.Point{Time: now.Add(4*time.Minute + 5*time.Second), Lasts: time.Second}},
		{"RFC 3339 with a fraction", "2026-11-29T12:00:00.25Z", when.Point{Time: now.Add(250 * time.Millisecond)}},
		{"day", "2026-11-29", when.Point{Time: now.Add(-12 * time.Hour), Lasts: 24 * time.Hour}},
		{"minute", "2026-11-29 12:01", when.Point{Time: now.Add(time.Minute), Lasts: time.Minute}},
		{"second", "2026-11-29 12:00:01", when.Point{Time: now.Add(time.Second), Lasts: time.Second}},
		{"fraction", "2026-11-29 12:00:01.5", when.Point{Time: now.Add(1500 * time.Millisecond)}},
		{"ago", "90m", when.Point{Time: now.Add(-90 * time.Minute)}},
		{"days ago", "7d", when.Point{Time: now.AddDate(0, 0, -7)}},
		{"weeks, days and hours ago", "1w2d3h", when.Point{Time: now.Add(-(9*24 + 3) * time.Hour)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := when.ParsePoint(tc.in, now)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want.ID.IsZero() && tc.want.Entry.IsZero(), got.IsTime())
		})
	}
}

func TestParsePointRefuses(t *testing.T) {
	for _, in := range []string{
		"", "yesterday", "evt000xY9Wvvcd", "EVT000xY9Wvvc", "EVTzzzzzzzzzzz", "1704117200000", "1704117200000-", "017-0", "1704117200000-7#0", "1704117200000-7#4096", "2026-13-01",
		"2026-11-29 25:00", "2026-11-29T12:00:00", "-5m", "0s", "5", "7d-1h", "1d2w", "d", "9999999d", "36501d", "999999w",
	} {
		t.Run(in, func(t *testing.T) {
			_, err := when.ParsePoint(in, now)
			require.EqualError(t, err, when.PointRule)
		})
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "2h30m": 150 * time.Minute, "7d": 168 * time.Hour, "2w": 336 * time.Hour,
		"1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute, "36500d": 36500 * 24 * time.Hour,
	} {
		got, err := when.ParseDuration(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "0", "0d", "-1s", "1", "1y", "1d-1h", "1h1d"} {
		_, err := when.ParseDuration(in)
		require.EqualError(t, err, when.DurationRule, in)
	}
}

func TestParseEvent(t *testing.T) {
	want := time.Date(2016, 1, 1, 0, 30, 4, 910_000_000, time.UTC)
	for _, in := range []string{
		"2016/01/01 00:30:04.91", "2016-01-01 00:30:04.91", "2016-01-01T00:30:04.91", "2016-01-01T00:30:04.91Z",
		"2015-12-31T19:30:04.91-05:00",
	} {
		got, err := when.ParseEvent(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "soon", "1451608204", "01/02/2016", "2016-02-30"} {
		_, err := when.ParseEvent(in)
		require.EqualError(t, err, when.EventRule, in)
	}
}
