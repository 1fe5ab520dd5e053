package schedule_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/tier/queue/schedule"
)

func TestEvery(t *testing.T) {
	epoch := time.UnixMilli(0).UTC()
	tests := []struct {
		name          string
		every         time.Duration
		anchor, after time.Time
		want          time.Time
	}{
		{"on the grid", 10 * time.Second, time.Time{}, epoch.Add(10 * time.Second), epoch.Add(20 * time.Second)},
		{"between", 10 * time.Second, time.Time{}, epoch.Add(19999 * time.Millisecond), epoch.Add(20 * time.Second)},
		{"below a millisecond", 10 * time.Millisecond, time.Time{}, epoch.Add(10*time.Millisecond - 1), epoch.Add(10 * time.Millisecond)},
		{"an anchor", time.Hour, epoch.Add(time.Minute), epoch.Add(24 * time.Hour), epoch.Add(24*time.Hour + time.Minute)},
		{"before the anchor", time.Hour, epoch.Add(24 * time.Hour), epoch.Add(90 * time.Minute), epoch.Add(2 * time.Hour)},
		{"before the epoch", time.Hour, time.Time{}, epoch.Add(-time.Hour), epoch},
		{"the longest", math.MaxInt64 / time.Millisecond * time.Millisecond, epoch.Add(time.Hour), epoch, epoch.Add(time.Hour)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			times, err := schedule.Every(tt.every, tt.anchor)
			require.NoError(t, err)
			require.Equal(t, tt.want, times.Next(tt.after))
		})
	}
	for _, every := range []time.Duration{0, -time.Second, time.Microsecond, 1500 * time.Microsecond} {
		_, err := schedule.Every(every, time.Time{})
		require.ErrorIs(t, err, schedule.ErrInterval)
	}
	_, err := schedule.Every(time.Second, epoch.Add(1))
	require.ErrorIs(t, err, schedule.ErrInterval)
}

// TestGridDoesNotDrift is B122: whatever time passes between asking, all answers are points of one grid.
func TestGridDoesNotDrift(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		every := rapid.Int64Range(1, 1e10).Draw(rt, "every")
		anchor := rapid.Int64Range(-1e13, 1e13).Draw(rt, "anchor")
		times, err := schedule.Every(time.Duration(every)*time.Millisecond, time.UnixMilli(anchor))
		require.NoError(rt, err)
		now := time.UnixMilli(rapid.Int64Range(-1e13, 1e13).Draw(rt, "now"))
		for _, handling := range rapid.SliceOf(rapid.Int64Range(0, 1e11)).Draw(rt, "handling") {
			next := times.Next(now)
			require.Zero(rt, (next.UnixMilli()-anchor)%every)
			require.Positive(rt, next.Sub(now))
			require.LessOrEqual(rt, next.Sub(now).Milliseconds(), every)
			now = next.Add(time.Duration(handling) * time.Microsecond)
		}
	})
}
