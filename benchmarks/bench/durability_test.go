package bench_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/bench"
)

// TestRunDurability: each server is kept as safe as its work says, and what a writer waits for takes time.
func TestRunDurability(t *testing.T) {
	t.Parallel()
	works := bench.DurabilityGroup().Works
	want := []string{
		`appendonly yes, appendfsync everysec, save ""`, `appendonly yes, appendfsync always, save ""`, `appendonly yes, appendfsync everysec, save "", Fsync`,
		`appendonly yes, appendfsync always, save "", Fsync`, `appendonly no, appendfsync everysec, save "", Replicas 1`,
	}
	var got []bench.Result
	left := -1
	cfg := bench.Config{Size: 64, Count: 40, Rounds: 1, Progress: func(done, total int) { left = total - done }}
	require.NoError(t, bench.RunDurability(t.Context(), cfg, func(r bench.Result) error {
		got = append(got, r)
		return nil
	}))
	require.Zero(t, left)
	require.Len(t, got, len(works))
	for i := range got {
		r := &got[i]
		require.Equal(t, []any{works[i].Name, want[i], "none", 40, 64, 1, 1}, []any{r.Work, r.Durability, r.Ceiling, r.Count, r.Size, r.Rounds, r.Concurrency})
		require.Positive(t, r.PerSecond)
		require.Positive(t, r.CeilingPerSecond)
		require.Greater(t, r.ServerBytes, 64.0)
		require.LessOrEqual(t, *r.P50, *r.P99)
		require.Positive(t, *r.CeilingP50)
	}
	err := bench.RunDurability(t.Context(), bench.Config{Size: 7}, nil)
	require.ErrorIs(t, err, bench.ErrConfig)
}
