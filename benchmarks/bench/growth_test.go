package bench_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestGrow: each axis has all its sizes, each work is compared with itself at the least, and nothing is left behind.
func TestGrow(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, axis := range bench.Axes() {
			if axis.Own {
				continue
			}
			t.Run(axis.Name, func(t *testing.T) {
				t.Parallel()
				client := tiertest.Dial(t, s)
				for _, scope := range requireGrows(t, client, axis) {
					left, err := client.KeysBelow(t.Context(), "emq:{"+scope+"}")
					require.NoError(t, err)
					require.Empty(t, left)
				}
			})
		}
	})
}

// TestGrowOwn: axes that need servers of their own start them.
func TestGrowOwn(t *testing.T) {
	t.Parallel()
	for _, axis := range bench.Axes() {
		if axis.Own {
			require.Empty(t, requireGrows(t, nil, axis))
		}
	}
}

func requireGrows(t *testing.T, client *tier.Client, axis bench.Axis) (scopes []string) {
	t.Helper()
	left := -1
	cfg := bench.GrowthConfig{
		Size: 64, Most: bench.MinMost, Count: 60, Rounds: 2,
		Entered:  func(scope string) { scopes = append(scopes, scope) },
		Progress: func(done, total int) { left = total - done },
	}
	sizes, works := map[string][]int{}, map[string]*bench.Point{}
	require.NoError(t, bench.Grow(t.Context(), client, axis, cfg, func(p bench.Point) error {
		sizes[p.Work] = append(sizes[p.Work], p.At)
		if works[p.Work] == nil {
			works[p.Work] = &p
			require.InDelta(t, 1, p.Growth, 0, "the least size, against itself")
		}
		require.Equal(t, []any{axis.What, 64, 2}, []any{p.Axis, p.Size, p.Rounds})
		for name, value := range map[string]float64{"growth": p.Growth, "rate": p.PerSecond, "server": p.Server, "client": p.Client, "allocs": p.Allocs} {
			require.Positive(t, value, "%s of %s", name, p.Work)
		}
		require.LessOrEqual(t, p.GrowthMin, p.Growth)
		require.LessOrEqual(t, p.Growth, p.GrowthMax)
		if p.P50 != nil {
			require.LessOrEqual(t, *p.P50, *p.P99)
		}
		if axis.Name == "length" || axis.Name == "lanes" || axis.Name == "groups" {
			require.Greater(t, *p.ServerBytes, 64.0)
		}
		return nil
	}))
	require.Zero(t, left)
	require.NotEmpty(t, sizes)
	for work, list := range sizes {
		require.GreaterOrEqual(t, len(list), 2, work)
		require.IsIncreasing(t, list, work)
	}
	return scopes
}

func TestAxisSizes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		axis string
		most int
		want []int
	}{
		{"length", bench.MaxCount, []int{10_000, 100_000, 1_000_000, 10_000_000}},
		{"pending", bench.DefaultMost, []int{10_000, 100_000, 1_000_000}},
		{"length", 1000, []int{10, 100, 1000}},
		{"lanes", bench.DefaultMost, []int{1, 1000, 10_000, 100_000}},
		{"lanes", 50_000, []int{1, 1000, 5000}},
		{"groups", 1000, []int{1, 10}},
		{"groups", bench.DefaultMost, []int{1, 10, 100}},
		{"consumers", 1000, []int{1, 8}},
		{"consumers", bench.DefaultMost, []int{1, 8, 64, 256}},
		{"nodes", 1000, []int{1, 2, 3}},
	} {
		require.Equal(t, tc.want, bench.SizesOf(tc.axis, tc.most), "%s up to %d", tc.axis, tc.most)
	}
}

// TestEvenScope ends, for all numbers of nodes that are measured.
func TestEvenScope(t *testing.T) {
	t.Parallel()
	for nodes := 1; nodes <= 3; nodes++ {
		_, keys := bench.EvenScope(nodes)
		require.Len(t, keys, nodes)
		require.IsIncreasing(t, append([]int{-1}, slotsOf(keys)...))
	}
}

func slotsOf(keys []string) (list []int) {
	for _, key := range keys {
		list = append(list, tier.Slot(key))
	}
	return list
}
