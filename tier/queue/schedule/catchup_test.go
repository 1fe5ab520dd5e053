package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/tier/queue/schedule"
)

// TestCatchUp is the rest of B120: after a stop, or a clock that was put forward, what fires is what the policy says.
func TestCatchUp(t *testing.T) {
	five, err := schedule.Every(5*time.Second, time.Time{})
	require.NoError(t, err)
	nightly, err := schedule.Cron("0 0 * * *", "")
	require.NoError(t, err)
	midnight := at(t, "2024-06-01 00:00 +00")
	second := func(n int) time.Time { return midnight.Add(time.Duration(n) * time.Second) }
	day := func(n int) time.Time { return midnight.AddDate(0, 0, n) }
	tests := []struct {
		name      string
		times     schedule.Times
		policy    schedule.CatchUp
		limit     int
		now       time.Time
		due       []time.Time
		following time.Time
	}{
		{"on time, once", five, schedule.Once, 1, second(0), []time.Time{second(0)}, second(5)},
		{"on time, skip", five, schedule.Skip, 1, second(1), []time.Time{second(0)}, second(5)},
		{"on time, all", five, schedule.All, 100, second(4), []time.Time{second(0)}, second(5)},
		{"an hour, once", five, schedule.Once, 100, second(3601), []time.Time{second(3600)}, second(3605)},
		{"an hour, skip: the latest is on time", five, schedule.Skip, 100, second(3601), []time.Time{second(3600)}, second(3605)},
		{"an hour, all up to the limit", five, schedule.All, 3, second(3601), []time.Time{second(3590), second(3595), second(3600)}, second(3605)},
		{"all within the limit", five, schedule.All, 100, second(12), []time.Time{second(0), second(5), second(10)}, second(15)},
		{"a night, once", nightly, schedule.Once, 1, second(7200), []time.Time{midnight}, day(1)},
		{"a night, skip", nightly, schedule.Skip, 1, second(7200), nil, day(1)},
		{"a minute late, skip", nightly, schedule.Skip, 1, second(60), []time.Time{midnight}, day(1)},
		{"three nights, all", nightly, schedule.All, 100, day(2).Add(time.Hour), []time.Time{day(0), day(1), day(2)}, day(3)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			due, following := tt.policy.Due(tt.times, midnight, tt.now, tt.limit)
			require.Equal(t, tt.due, utc(due))
			require.Equal(t, tt.following, following.UTC())
		})
	}
}

// TestCatchUpIsWhatWasMissed compares with all that was due, one by one.
func TestCatchUpIsWhatWasMissed(t *testing.T) {
	weekdays, err := schedule.Cron("*/10 9,17 1-7 * MON-FRI", "America/New_York")
	require.NoError(t, err)
	minute, err := schedule.Every(7*time.Minute, time.Time{})
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		times := rapid.SampledFrom([]schedule.Times{weekdays, minute}).Draw(rt, "times")
		start := at(t, "2024-02-27 00:00 +00").Add(time.Duration(rapid.IntRange(0, 30*86400).Draw(rt, "start")) * time.Second)
		next := times.Next(start)
		now := next.Add(time.Duration(rapid.IntRange(0, 20*86400).Draw(rt, "stop")) * time.Second)
		limit := rapid.IntRange(1, 300).Draw(rt, "limit")
		var all []time.Time
		for o := next; !o.After(now); o = times.Next(o) {
			all = append(all, o)
		}
		due, following := schedule.All.Due(times, next, now, limit)
		require.Equal(rt, all[max(0, len(all)-limit):], due)
		require.Equal(rt, times.Next(all[len(all)-1]), following)
		due, _ = schedule.Once.Due(times, next, now, limit)
		require.Equal(rt, all[len(all)-1:], due)
	})
}

// TestLongStop: a grid of a millisecond that was left for ten years costs what its limit says, not 3 * 10^11 steps.
func TestLongStop(t *testing.T) {
	times, err := schedule.Every(time.Millisecond, time.Time{})
	require.NoError(t, err)
	next := at(t, "2014-01-01 00:00 +00")
	now := at(t, "2024-01-01 00:00 +00")
	due, following := schedule.All.Due(times, next, now, 1000)
	require.Len(t, due, 1000)
	require.Equal(t, now, due[999])
	require.Equal(t, now.Add(time.Millisecond), following)
}

func TestParseCatchUp(t *testing.T) {
	for text, want := range map[string]schedule.CatchUp{"": schedule.Once, "once": schedule.Once, "skip": schedule.Skip, "all": schedule.All} {
		c, err := schedule.ParseCatchUp(text)
		require.NoError(t, err)
		require.Equal(t, want, c)
	}
	_, err := schedule.ParseCatchUp("twice")
	require.ErrorContains(t, err, "once, skip or all")
}
