package tier_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

// B113: a pause that is doubled often enough overflows.
func TestDoubled(t *testing.T) {
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
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tier.Doubled(tc.try, time.Second, tc.limit)) })
	}
}

func TestCallDelay(t *testing.T) {
	seen := map[time.Duration]bool{}
	for try := 1; try < 200; try++ {
		d := tier.CallDelay(try)
		longest := tier.Doubled(try, 50*time.Millisecond, 3*time.Second)
		require.LessOrEqual(t, d, longest)
		require.GreaterOrEqual(t, d, longest/2)
		seen[d] = true
	}
	require.Greater(t, len(seen), 150, "pauses are drawn")
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.True(t, tier.Pause(t.Context(), 3*time.Second))
		require.Equal(t, 3*time.Second, time.Since(start))
		require.True(t, tier.Pause(t.Context(), 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, tier.Pause(ctx, time.Hour))
		require.Equal(t, 4*time.Second, time.Since(start))
	})
}

// TestRegister (B152): two components of a process share a series; another's metric of the same name is no obstacle.
func TestRegister(t *testing.T) {
	opts := prometheus.CounterOpts{Name: "counted_total", Help: "Counted."}
	reg := prometheus.NewRegistry()
	first := tier.Register(reg, prometheus.NewCounter(opts))
	require.Same(t, first, tier.Register(reg, prometheus.NewCounter(opts)))
	gauge := prometheus.NewGauge(prometheus.GaugeOpts(opts))
	require.Same(t, gauge, tier.Register(reg, gauge))
	alone := prometheus.NewCounter(opts)
	require.Same(t, alone, tier.Register(nil, alone))
}
