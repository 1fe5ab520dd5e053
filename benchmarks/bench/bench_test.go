package bench_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRun: each work does all of its messages, is compared with its ceiling, and leaves nothing behind.
func TestRun(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, group := range bench.Groups() {
			t.Run(group.Name, func(t *testing.T) {
				t.Parallel()
				client := tiertest.Dial(t, s)
				var scope string
				last := 0
				cfg := bench.Config{
					Size: 100, Count: 60, Rounds: 2, Concurrency: 3,
					Entered:  func(in string) { scope = in },
					Progress: func(done, total int) { last = total - done },
				}
				var got []bench.Result
				require.NoError(t, bench.Run(t.Context(), client, group, cfg, func(r bench.Result) error {
					got = append(got, r)
					return nil
				}))
				require.Zero(t, last, "the progress has come to its end")
				require.Len(t, got, len(group.Works))
				for i := range got {
					requireSound(t, &got[i], &group.Works[i])
				}
				left, err := client.KeysBelow(t.Context(), "emq:{"+scope+"}")
				require.NoError(t, err)
				require.Empty(t, left)
				number, err := client.RegisteredNode(t.Context(), scope)
				require.NoError(t, err)
				require.Equal(t, -1, number)
			})
		}
	})
}

func requireSound(t *testing.T, r *bench.Result, w *bench.Work) {
	t.Helper()
	ceiling, _ := w.Ceiling()
	require.Equal(t, []any{w.Name, ceiling, 2, 60, 100, w.Concurrency(3)}, []any{r.Work, r.Ceiling, r.Rounds, r.Count, r.Size, r.Concurrency})
	for name, value := range map[string]float64{
		"per_second": r.PerSecond, "ceiling_per_second": r.CeilingPerSecond, "server": r.Server, "ceiling_server": r.CeilingServer,
		"client": r.Client, "allocs": r.Allocs,
	} {
		require.Positive(t, value, "%s of %s", name, w.Name)
	}
	require.InEpsilon(t, r.PerSecond/r.CeilingPerSecond, r.Ratio, 1e-9)
	require.LessOrEqual(t, r.RatioMin, r.RatioMax)
	require.Len(t, r.EachRound, r.Rounds)
	require.Greater(t, r.ServerBytes, 50.0, "memory of %s", w.Name)
	if r.P50 != nil {
		require.Positive(t, *r.P50)
		require.LessOrEqual(t, *r.P50, *r.P99)
		require.LessOrEqual(t, *r.P99, *r.P999)
		require.LessOrEqual(t, *r.CeilingP50, *r.CeilingP99)
	}
	require.Regexp(t, `^(valkey|redis) \d`, r.ServerName)
	require.Regexp(t, `^appendonly (no|yes), appendfsync \w+, save ".*"$`, r.Durability)
}

// TestRunEnds: a run that is cut short removes its scope.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	client := tiertest.Dial(t, tiertest.Shared(t, tiertest.Valkey))
	group, ok := bench.Find("stream")
	require.True(t, ok)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var scope string
	steps := 0
	cfg := bench.Config{Count: 1000, Entered: func(in string) { scope = in }, Progress: func(int, int) {
		if steps++; steps == 3 {
			cancel(enough)
		}
	}}
	err := bench.Run(ctx, client, group, cfg, func(bench.Result) error { return nil })
	require.Error(t, err)
	require.Equal(t, 3, steps)
	left, err := client.KeysBelow(t.Context(), "emq:{"+scope+"}")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  bench.Config
		want string
	}{
		{"size", bench.Config{Size: 7}, "Size is 7, want 8 to 1048576"},
		{"count", bench.Config{Count: -1}, "Count is -1, want 1 to"},
		{"concurrency", bench.Config{Concurrency: 1025}, "Concurrency is 1025, want 0 to 1024"},
		{"rounds", bench.Config{Rounds: 101}, "Rounds is 101, want 1 to 100"},
		{"memory", bench.Config{Size: 1 << 20, Count: 1025}, "more than 1 GiB of the server's memory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := bench.Run(t.Context(), nil, bench.Group{}, tc.cfg, nil)
			require.ErrorIs(t, err, bench.ErrConfig)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// TestOpenLoop: what one message holds up counts for each that it has held up.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const stall = 500 * time.Millisecond
			times, err := bench.OpenLoop(t.Context(), 1000, wait, func(_ context.Context, i int, arrived func(int)) error {
				if i == 0 {
					<-time.After(stall)
				}
				arrived(i)
				arrived(i) // once more, which does not count
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, stall, times[0])
			late := 0
			for _, took := range times[1:] {
				if took > time.Millisecond {
					late++
				}
			}
			if wait { // each is sent by itself
				require.Zero(t, late)
			} else {
				require.Equal(t, 498, late, "those that were to be sent meanwhile")
				require.Equal(t, stall-time.Millisecond, times[1])
			}
		})
	}
}

func TestOpenLoopLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := bench.OpenLoop(t.Context(), 10, false, func(_ context.Context, i int, arrived func(int)) error {
			if i != 4 {
				arrived(i)
			}
			return nil
		})
		require.ErrorContains(t, err, "1 of 10 messages have not come within 30s")
	})
}

func TestMedians(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2, bench.Median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 3, bench.Median([]float64{9, 1, 2, 4}), 0)
	list := make([]time.Duration, 1000)
	for i := range list {
		list[i] = time.Duration(1000-i) * time.Microsecond
	}
	require.InDeltaSlice(t, []float64{501, 991, 1000}, bench.Quantiles(list, 0.5, 0.99, 0.999), 1e-6)
	require.InDeltaSlice(t, []float64{1000}, bench.Quantiles(list[:1], 0.999), 1e-6)

	cost := func(elapsed, server, client time.Duration, allocs uint64) bench.Cost {
		return bench.Cost{Elapsed: elapsed, Server: server, Client: client, Allocs: allocs}
	}
	got := bench.Medians(1000,
		[]bench.Cost{cost(2*time.Second, time.Second, time.Millisecond, 10), cost(4*time.Second, 3*time.Second, 3*time.Millisecond, 30), cost(8*time.Second, 2*time.Second, 2*time.Millisecond, 20)},
		[]bench.Cost{cost(time.Second, time.Second, 0, 0), cost(time.Second, time.Second, 0, 0), cost(2*time.Second, time.Second, 0, 0)}, 5000)
	require.Len(t, got.EachRound, 3)
	require.Equal(t, bench.Round{PerSecond: 125, CeilingPerSecond: 500, Server: 2000, CeilingServer: 1000, Client: 2, Allocs: 0.02}, got.EachRound[2])
	got.EachRound = nil
	require.Equal(t, bench.Result{
		PerSecond: 250, CeilingPerSecond: 1000, Ratio: 0.25, RatioMin: 0.25, RatioMax: 0.5,
		Server: 2000, CeilingServer: 1000, Client: 2, Allocs: 0.02, ServerBytes: 5, Rounds: 3, Count: 1000,
	}, got)
}

// TestChart: bars are as long as their rates, and what is text stays text.
func TestChart(t *testing.T) {
	t.Parallel()
	got := bench.Chart([]bench.Result{
		{Work: "a", PerSecond: 1_234_567, Ceiling: "P", CeilingPerSecond: 617_283.5, Ratio: 2, Durability: `save "<&>"`},
		{Work: "b", PerSecond: 0, Ceiling: "C", CeilingPerSecond: 1},
	})
	require.True(t, strings.HasPrefix(got, "<svg ") && strings.HasSuffix(got, "</svg>\n"))
	require.Contains(t, got, `<rect class="w" x="150" y="58.0" width="420.0" height="15"/>`)
	require.Contains(t, got, `<rect class="c" x="150" y="75.0" width="210.0" height="15"/>`)
	require.Contains(t, got, ">1,234,567/s, ratio 2.00<")
	require.Contains(t, got, "save &#34;&lt;&amp;&gt;&#34;")
	require.Equal(t, 4, strings.Count(got, "<rect "))
}

// TestGrowthChart: a line rises as much as its work's costs, over the logarithm of the size.
func TestGrowthChart(t *testing.T) {
	t.Parallel()
	got := bench.GrowthChart([]bench.Point{
		{Work: "a-x", Axis: "a & b", At: 10, Growth: 1, Server: 2},
		{Work: "a-x", Axis: "a & b", At: 100, Growth: 1.5, Server: 3},
		{Work: "a-x", Axis: "a & b", At: 1000, Growth: 2, Server: 4},
		{Work: "c-x", Axis: "c", At: 1, Growth: 1},
	})
	require.True(t, strings.HasPrefix(got, "<svg ") && strings.HasSuffix(got, "</svg>\n"))
	require.Contains(t, got, `d="M44.0 141.0 254.0 108.5 464.0 76.0"`)
	require.Contains(t, got, ">a-x 4.00 us, × 2.00<")
	require.Contains(t, got, "a &amp; b")
	require.Contains(t, got, ">1,000<")
}

// TestPoint: growth is that of costs for a message, round for round.
func TestPoint(t *testing.T) {
	t.Parallel()
	server := func(list ...time.Duration) (costs []bench.Cost) {
		for _, d := range list {
			costs = append(costs, bench.Cost{Server: d * time.Second, Elapsed: time.Second})
		}
		return costs
	}
	got := bench.PointOf(server(4, 6, 20), 200, server(1, 2, 5), 100)
	require.InDeltaSlice(t, []float64{2, 1.5, 2, 200, 3e4}, []float64{got.Growth, got.GrowthMin, got.GrowthMax, got.PerSecond, got.Server}, 1e-9)
}
