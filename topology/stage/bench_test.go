package stage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// BenchmarkStages has one stage in this process and the server handle b.N messages of 1,000 keys.
func BenchmarkStages(b *testing.B) {
	for _, bb := range []struct {
		name string
		cfg  stage.Config
	}{
		{"filter", stage.Config{Filter: "data.mag >= 5"}},
		{"map", stage.Config{Map: &stage.Map{Data: "{mag: data.mag, strong: data.mag >= 5}"}}},
		{"window", stage.Config{Window: &stage.Window{Tumbling: duration(time.Minute), Time: "data.t", Values: map[string]stage.Aggregate{"n": {Count: true}, "max": {Max: "data.mag"}}}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s := newBench(b, tiertest.Shared(b, tiertest.Valkey))
			ms := make([]codec.Message, b.N)
			for i := range ms {
				ms[i] = event(fmt.Sprint("k", i%1000), fmt.Sprintf(`{"t": %d, "mag": %d.5, "place": "12 km NNE of somewhere"}`, i, i%7))
			}
			s.append("in", ms...)
			cfg := bb.cfg
			cfg.From, cfg.To = s.address("in"), s.address("out")
			b.ResetTimer()
			s.run("stage", cfg, stage.Options{})
			s.settled("in", "stage")
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
