package stage_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/topology/stage"
)

func duration(t time.Duration) stage.Duration { return stage.Duration(t) }

// event is "key time value"; "!" is the end of what there is, "! time" a watermark, "restart" a new owner.
func events(t *testing.T, w *stage.Windows, lines []string) (got []string) {
	for _, line := range lines {
		if line == "restart" {
			w.Restart()
			continue
		}
		r := codec.Record{ID: codec.ID{1}}
		if at, found := strings.CutPrefix(line, "!"); found {
			r.Type = stage.WatermarkType
			if at != "" {
				r.Data = fmt.Appendf(nil, `{"time": %q}`, strings.TrimSpace(at))
			}
		} else {
			parts := strings.Fields(line)
			r.Key, r.Data = parts[0], fmt.Appendf(nil, `{"t": %q, "v": %s}`, parts[1], parts[2])
		}
		out, err := w.Put(r)
		if err != nil {
			got = append(got, "dead: "+err.Error())
			continue
		}
		for _, o := range out {
			switch {
			case o.Message.Type == stage.WatermarkType:
			case o.Target == "s/late":
				got = append(got, "late "+string(o.Message.Data))
			default:
				var v struct {
					Key, Start, End     string
					N                   int
					Sum, Min, Max, Mean any
					Distinct            int
				}
				require.NoError(t, json.Unmarshal(o.Message.Data, &v))
				require.Equal(t, v.Key, o.Message.Key)
				got = append(got, fmt.Sprintf("%s %s %s n=%d sum=%v min=%v max=%v mean=%v distinct=%d", v.Key, v.Start, v.End, v.N, v.Sum, v.Min, v.Max, v.Mean, v.Distinct))
			}
		}
	}
	return got
}

func values() map[string]stage.Aggregate {
	return map[string]stage.Aggregate{
		"n": {Count: true}, "sum": {Sum: "data.v"}, "min": {Min: "data.v"}, "max": {Max: "data.v"}, "mean": {Mean: "data.v"}, "distinct": {Distinct: "data.v"},
	}
}

func TestWindows(t *testing.T) {
	hour := stage.Window{Tumbling: duration(time.Hour)}
	late := stage.Window{Tumbling: duration(time.Hour), Lateness: duration(30 * time.Minute), Late: "s/late"}
	session := stage.Window{Session: duration(10 * time.Minute), Lateness: duration(time.Hour), Late: "s/late"}
	calendar := func(unit, zone string) stage.Window { return stage.Window{Calendar: unit, Zone: zone} }
	tests := []struct {
		name string
		w    stage.Window
		in   []string
		want []string // each is the beginning of a line
	}{
		{"tumbling", hour, []string{"a 2024-01-01T00:10:00Z 1", "b 2024-01-01T00:20:00Z 2", "a 2024-01-01T00:59:59.999Z 3", "a 2024-01-01T01:00:00Z 4"}, []string{
			"a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=2 sum=4 min=1 max=3 mean=2 distinct=2",
			"b 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=1 sum=2 min=2 max=2 mean=2 distinct=1",
		}},
		{"before 1970", hour, []string{"a 1969-12-31T23:30:00Z 1", "!"}, []string{"a 1969-12-31T23:00:00Z 1970-01-01T00:00:00Z n=1"}},
		{"empty windows are not told", hour, []string{"a 2024-01-01T00:10:00Z 1", "a 2024-01-01T09:10:00Z 1", "!"}, []string{
			"a 2024-01-01T00:00:00Z", "a 2024-01-01T09:00:00Z",
		}},
		{"nothing at all", hour, []string{"!", "! 2024-01-01T00:00:00Z"}, nil},
		{"out of order, within the lateness", late, []string{"a 2024-01-01T01:29:00Z 1", "a 2024-01-01T00:59:00Z 2", "a 2024-01-01T01:30:00Z 4", "!"}, []string{
			"a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=1 sum=2", "a 2024-01-01T01:00:00Z 2024-01-01T02:00:00Z n=2 sum=5",
		}},
		{"late", late, []string{"a 2024-01-01T01:30:00Z 1", "a 2024-01-01T00:59:59Z 2", "b 2024-01-01T01:00:00Z 3", "!"}, []string{
			`late {"t": "2024-01-01T00:59:59Z", "v": 2}`, "a 2024-01-01T01:00:00Z 2024-01-01T02:00:00Z n=1", "b 2024-01-01T01:00:00Z 2024-01-01T02:00:00Z n=1",
		}},
		{"late, though an older one came between", late, []string{"a 2024-01-01T02:35:00Z 1", "a 2024-01-01T02:10:00Z 2", "a 2024-01-01T01:50:00Z 3", "!"}, []string{
			"late", "a 2024-01-01T02:00:00Z 2024-01-01T03:00:00Z n=2",
		}},
		{"late, and nobody takes it", hour, []string{"a 2024-01-01T02:30:00Z 1", "a 2024-01-01T00:59:59Z 2", "!"}, []string{"a 2024-01-01T02:00:00Z"}},
		{"a watermark closes", late, []string{"a 2024-01-01T00:10:00Z 1", "! 2024-01-01T00:59:59.999Z", "a 2024-01-01T00:20:00Z 1", "! 2024-01-01T01:00:00Z", "a 2024-01-01T00:20:00Z 1"}, []string{
			"a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=2", "late",
		}},
		{"what follows the end is not added to what it closed", hour, []string{"a 2024-01-01T00:10:00Z 1", "!", "a 2024-01-01T00:20:00Z 1", "a 2024-01-01T01:20:00Z 1", "!"}, []string{
			"a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=1", "a 2024-01-01T01:00:00Z 2024-01-01T02:00:00Z n=1",
		}},
		{"restart in the middle", late, []string{"a 2024-01-01T00:10:00Z 0.1", "restart", "a 2024-01-01T00:20:00Z 0.2", "a 2024-01-01T01:29:00Z 1", "restart", "a 2024-01-01T00:30:00Z 0.1", "restart", "a 2024-01-01T01:30:00Z 7", "restart", "a 2024-01-01T00:30:00Z 1"}, []string{
			"a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=3 sum=0.4 min=0.1 max=0.2 mean=0.13333333333333333 distinct=2", "late",
		}},
		{"hopping", stage.Window{Hopping: &stage.Hopping{Size: duration(time.Hour), Every: duration(20 * time.Minute)}}, []string{"a 2024-01-01T00:10:00Z 1", "a 2024-01-01T00:30:00Z 2", "!"}, []string{
			"a 2023-12-31T23:20:00Z 2024-01-01T00:20:00Z n=1 sum=1", "a 2023-12-31T23:40:00Z 2024-01-01T00:40:00Z n=2 sum=3",
			"a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=2 sum=3", "a 2024-01-01T00:20:00Z 2024-01-01T01:20:00Z n=1 sum=2",
		}},
		{"hopping, late for some", stage.Window{Hopping: &stage.Hopping{Size: duration(time.Hour), Every: duration(30 * time.Minute)}}, []string{"a 2024-01-01T01:00:00Z 1", "a 2024-01-01T00:40:00Z 2", "!"}, []string{
			"a 2024-01-01T00:30:00Z 2024-01-01T01:30:00Z n=2", "a 2024-01-01T01:00:00Z 2024-01-01T02:00:00Z n=1",
		}},
		{"sessions", session, []string{"a 2024-01-01T00:00:00Z 1", "a 2024-01-01T00:09:59Z 2", "b 2024-01-01T00:05:00Z 9", "a 2024-01-01T00:19:59Z 3", "!"}, []string{
			"b 2024-01-01T00:05:00Z 2024-01-01T00:15:00Z n=1", "a 2024-01-01T00:00:00Z 2024-01-01T00:19:59Z n=2", "a 2024-01-01T00:19:59Z 2024-01-01T00:29:59Z n=1",
		}},
		{"a session that two merge into", session, []string{"a 2024-01-01T00:00:00Z 1", "a 2024-01-01T00:16:00Z 2", "restart", "a 2024-01-01T00:08:00Z 3", "restart", "!"}, []string{
			"a 2024-01-01T00:00:00Z 2024-01-01T00:26:00Z n=3 sum=6 min=1 max=3 mean=2 distinct=3",
		}},
		{"a session that begins earlier", session, []string{"a 2024-01-01T00:16:00Z 2", "a 2024-01-01T00:08:00Z 3", "restart", "a 2024-01-01T00:01:00Z 4", "!"}, []string{
			"a 2024-01-01T00:01:00Z 2024-01-01T00:26:00Z n=3 sum=9",
		}},
		{"late for any session", session, []string{"a 2024-01-01T03:00:00Z 1", "a 2024-01-01T01:50:00Z 2", "a 2024-01-01T01:50:01Z 2", "!"}, []string{
			"late", "a 2024-01-01T01:50:01Z 2024-01-01T02:00:01Z n=1", "a 2024-01-01T03:00:00Z",
		}},
		{"the day that clocks go forward", calendar("day", "Europe/Berlin"), []string{"a 2024-03-30T22:59:59Z 1", "a 2024-03-30T23:00:00Z 2", "a 2024-03-31T21:59:59Z 3", "a 2024-03-31T22:00:00Z 4", "!"}, []string{
			"a 2024-03-30T00:00:00+01:00 2024-03-31T00:00:00+01:00 n=1", "a 2024-03-31T00:00:00+01:00 2024-04-01T00:00:00+02:00 n=2", "a 2024-04-01T00:00:00+02:00 2024-04-02T00:00:00+02:00 n=1",
		}},
		{"the day that clocks go back", calendar("day", "America/New_York"), []string{"a 2024-11-03T04:00:00Z 1", "a 2024-11-04T04:59:59Z 2", "a 2024-11-04T05:00:00Z 3", "!"}, []string{
			"a 2024-11-03T00:00:00-04:00 2024-11-04T00:00:00-05:00 n=2", "a 2024-11-04T00:00:00-05:00 2024-11-05T00:00:00-05:00 n=1",
		}},
		{"a day without midnight", calendar("day", "America/Sao_Paulo"), []string{"a 2018-11-04T02:59:59Z 1", "a 2018-11-04T03:00:00Z 2", "a 2018-11-05T01:59:59Z 3", "a 2018-11-05T02:00:00Z 4", "!"}, []string{
			"a 2018-11-03T00:00:00-03:00 2018-11-04T01:00:00-02:00 n=1", "a 2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00 n=2", "a 2018-11-05T00:00:00-02:00",
		}},
		{"a day with two midnights", calendar("day", "America/Havana"), []string{"a 2024-11-03T03:59:59Z 1", "a 2024-11-03T04:00:00Z 2", "a 2024-11-03T05:30:00Z 3", "a 2024-11-04T05:00:00Z 4", "!"}, []string{
			"a 2024-11-02T00:00:00-04:00 2024-11-03T00:00:00-04:00 n=1", "a 2024-11-03T00:00:00-04:00 2024-11-04T00:00:00-05:00 n=2", "a 2024-11-04T00:00:00-05:00",
		}},
		{"a day that was left out", calendar("day", "Pacific/Apia"), []string{"a 2011-12-30T09:59:59Z 1", "a 2011-12-30T10:00:00Z 2", "!"}, []string{
			"a 2011-12-29T00:00:00-10:00 2011-12-31T00:00:00+14:00 n=1", "a 2011-12-31T00:00:00+14:00 2012-01-01T00:00:00+14:00 n=1",
		}},
		{"the leap day", calendar("day", ""), []string{"a 2024-02-28T23:59:59Z 1", "a 2024-02-29T00:00:00Z 2", "a 2024-02-29T23:59:59Z 3", "a 2024-03-01T00:00:00Z 4", "!"}, []string{
			"a 2024-02-28T00:00:00Z 2024-02-29T00:00:00Z n=1", "a 2024-02-29T00:00:00Z 2024-03-01T00:00:00Z n=2", "a 2024-03-01T00:00:00Z",
		}},
		{"February", calendar("month", ""), []string{"a 2024-02-29T23:59:59Z 1", "a 2023-02-28T23:59:59Z 1", "!"}, []string{"a 2024-02-01T00:00:00Z 2024-03-01T00:00:00Z n=1"}},
		{"a month whose offset changes", calendar("month", "Europe/Berlin"), []string{"a 2024-02-29T23:00:00Z 1", "a 2024-03-31T21:59:59Z 1", "a 2024-03-31T22:00:00Z 1", "!"}, []string{
			"a 2024-03-01T00:00:00+01:00 2024-04-01T00:00:00+02:00 n=2", "a 2024-04-01T00:00:00+02:00 2024-05-01T00:00:00+02:00 n=1",
		}},
		{"weeks over the new year", calendar("week", ""), []string{"a 2024-12-29T23:59:59Z 1", "a 2024-12-30T00:00:00Z 1", "a 2025-01-05T23:59:59Z 1", "!"}, []string{
			"a 2024-12-23T00:00:00Z 2024-12-30T00:00:00Z n=1", "a 2024-12-30T00:00:00Z 2025-01-06T00:00:00Z n=2",
		}},
		{"years", calendar("year", ""), []string{"a 2024-12-31T23:59:59Z 1", "a 2025-01-01T00:00:00Z 1", "!"}, []string{"a 2024-01-01T00:00:00Z 2025-01-01T00:00:00Z n=1", "a 2025-01-01T00:00:00Z 2026-01-01T00:00:00Z n=1"}},
		{"what is absent does not count", hour, []string{"a 2024-01-01T00:10:00Z null", "!"}, []string{"a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=1 sum=0 min=<nil> max=<nil> mean=<nil> distinct=0"}},
		{"what is no number", hour, []string{`a 2024-01-01T00:10:00Z 1`, `a 2024-01-01T00:20:00Z "x"`, "!"}, []string{
			`dead: stage: window.values.max.max: "data.v": is string, want a number (data is map)`, "a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=1",
		}},
		{"what sums would not hold", hour, []string{"a 2024-01-01T00:10:00Z 1e290", "a 2024-01-01T00:20:00Z -1.7e308", "!"}, []string{
			`dead: stage: window.values.mean.mean: "data.v": is -1.7e+308, and sums are of numbers up to 1e+290 (data is map)`, "a 2024-01-01T00:00:00Z 2024-01-01T01:00:00Z n=1 sum=1e+290",
		}},
		{"sessions that end together", session, []string{"b 2024-01-01T00:00:00Z 1", "restart", "a 2024-01-01T00:03:00Z 1", "b 2024-01-01T00:05:00Z 1", "a 2024-01-01T00:05:00Z 1", "!"}, []string{
			"a 2024-01-01T00:03:00Z 2024-01-01T00:15:00Z n=2", "b 2024-01-01T00:00:00Z 2024-01-01T00:15:00Z n=2",
		}},
		{"sessions that have too much for one", stage.Window{Session: duration(10 * time.Minute), Lateness: duration(time.Hour), MaxDistinct: 3}, []string{
			"a 2024-01-01T00:00:00Z 1", "a 2024-01-01T00:00:01Z 2", "a 2024-01-01T00:16:00Z 2", "a 2024-01-01T00:16:01Z 3", "a 2024-01-01T00:08:00Z 4", "a 2024-01-01T00:08:00Z 1", "!",
		}, []string{
			"dead: stage: distinct: the window would have more than 3 distinct values, which is max_distinct", "a 2024-01-01T00:00:00Z 2024-01-01T00:26:01Z n=5 sum=9 min=1 max=3 mean=1.8 distinct=3",
		}},
		{"what is no time", hour, []string{"a yesterday 1"}, []string{`dead: stage: window.time: "data.t": "yesterday" is no time`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.w.Time, tt.w.Values = "data.t", values()
			got := events(t, stage.NewWindows(tt.w), tt.in)
			require.Len(t, got, len(tt.want), "%s", strings.Join(got, "\n"))
			for i, want := range tt.want {
				require.True(t, strings.HasPrefix(got[i], want), "got  %s\nwant %s", got[i], want)
			}
		})
	}
}

// TestWindowsAreBounded: what would be one too many goes to the dead letters, and changes nothing.
func TestWindowsAreBounded(t *testing.T) {
	w := stage.NewWindows(stage.Window{Tumbling: duration(time.Hour), Time: "data.t", Values: values(), MaxOpen: 2, MaxDistinct: 2})
	got := events(t, w, []string{
		"a 2024-01-01T00:00:00Z 1", "b 2024-01-01T00:00:01Z 1", "c 2024-01-01T00:00:02Z 1", "a 2024-01-01T00:00:02Z 2", "a 2024-01-01T00:00:02Z 3", "a 2024-01-01T00:00:02Z 2",
	})
	require.Len(t, got, 2)
	require.Contains(t, got[0], "2 windows are open, which is max_open")
	require.Contains(t, got[1], "more than 2 distinct values, which is max_distinct")
	require.Equal(t, 2, w.Open())
	got = events(t, w, []string{"c 2024-01-01T01:00:00Z 1"})
	require.Len(t, got, 2, "two were closed, and there is room")
	require.Contains(t, got[0], "n=3 sum=5")
	require.Equal(t, 1, w.Open())
}

// TestWatermarksAreTimes: a watermark that no calendar has moves nothing: all that follows would be late, for ever.
func TestWatermarksAreTimes(t *testing.T) {
	for _, at := range []string{"9223372036854775807", "-9223372036854775808", "1125899906842625", "1e300", `"soon"`} {
		w := stage.NewWindows(stage.Window{Tumbling: duration(time.Hour), Lateness: duration(time.Minute), Time: "data.t", Values: values()})
		_, err := w.Put(codec.Record{ID: codec.ID{1}, Message: codec.Message{Type: stage.WatermarkType, Data: []byte(`{"time": ` + at + `}`)}})
		require.Error(t, err, at)
		got := events(t, w, []string{"a 2024-01-01T00:00:00Z 1", "!"})
		require.Len(t, got, 1, at)
	}
}

// TestSumsAreExact compares with rational numbers, rounded once; the order, and a restart, make no difference.
func TestSumsAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		w := stage.NewWindows(stage.Window{Session: duration(time.Hour), Values: map[string]stage.Aggregate{"sum": {Sum: "data"}}})
		exact := new(big.Rat)
		for range 2 + rng.IntN(40) {
			x := (rng.Float64() - 0.5) * math.Pow(10, float64(rng.IntN(36)-18))
			text := fmt.Sprint(x)
			if rng.IntN(4) == 0 {
				text = fmt.Sprint(rng.Int64() - math.MaxInt64/2)
				exact.Add(exact, must(new(big.Rat).SetString(text)))
			} else {
				exact.Add(exact, new(big.Rat).SetFloat64(x))
			}
			_, err := w.Put(codec.Record{ID: codec.ID{1}, Message: codec.Message{Key: "a", Data: []byte(text)}})
			require.NoError(t, err)
			if rng.IntN(4) == 0 {
				w.Restart()
			}
		}
		out, err := w.Put(codec.Record{ID: codec.ID{1}, Message: codec.Message{Type: stage.WatermarkType}})
		require.NoError(t, err)
		var got struct{ Sum float64 }
		require.NoError(t, json.Unmarshal(out[0].Message.Data, &got))
		want, _ := exact.Float64()
		require.Equal(t, want, got.Sum)
	}
}

func must(r *big.Rat, ok bool) *big.Rat {
	if !ok {
		panic("no number")
	}
	return r
}
