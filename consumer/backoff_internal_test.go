package consumer

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// B113: a pause that is doubled often enough overflows.
func TestBackoff(t *testing.T) {
	for _, tc := range []struct {
		name  string
		try   int
		limit time.Duration
		want  time.Duration
	}{
		{"first", 1, time.Minute, time.Second},
		{"none is as the first", 0, time.Minute, time.Second},
		{"second", 2, time.Minute, 2 * time.Second},
		{"sixth", 6, time.Minute, 32 * time.Second},
		{"clamped", 7, time.Minute, time.Minute},
		{"B113", 10_000, time.Hour, time.Hour},
		{"B113 with no number left to double", math.MaxInt, 100 * 365 * 24 * time.Hour, 100 * 365 * 24 * time.Hour},
		{"limit below the base", 1, 500 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, backoff(tc.try, time.Second, tc.limit)) })
	}
}

func TestDelays(t *testing.T) {
	seen := map[time.Duration]bool{}
	for try := 1; try < 200; try++ {
		d := callDelay(try)
		longest := backoff(try, callPause, maxCallPause)
		require.LessOrEqual(t, d, longest+1)
		require.GreaterOrEqual(t, d, longest/2)
		seen[d] = true

		d = retryDelay(try, 30*time.Second)
		require.LessOrEqual(t, d, 30*time.Second+1)
		require.GreaterOrEqual(t, d, time.Millisecond)
		seen[d] = true
	}
	require.Greater(t, len(seen), 300, "pauses are drawn")
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.True(t, pause(t.Context(), 3*time.Second))
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}
