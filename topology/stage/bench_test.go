package stage_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// BenchmarkStages has one stage in this process and a server of its own handle b.N messages of 1,000 keys. Beside the rate, which tells
// little on a machine with other work, it says what CPU time a message takes of each.
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
			s := newBench(b, tiertest.Private(b, tiertest.Valkey))
			ms := make([]codec.Message, b.N)
			for i := range ms {
				ms[i] = event(fmt.Sprint("k", i%1000), fmt.Sprintf(`{"t": %d, "mag": %d.5, "place": "12 km NNE of somewhere"}`, i, i%7))
			}
			s.append("in", ms...)
			cfg := bb.cfg
			cfg.From, cfg.To = s.address("in"), s.address("out")
			b.ReportAllocs()
			server, client := s.serverCPU(), clientCPU(b)
			b.ResetTimer()
			s.run("stage", cfg, stage.Options{})
			s.settled("in", "stage")
			b.StopTimer()
			n := float64(b.N)
			b.ReportMetric(n/b.Elapsed().Seconds(), "messages/s")
			b.ReportMetric((s.serverCPU()-server)*1e6/n, "server-us/op")
			b.ReportMetric((clientCPU(b)-client)*1e6/n, "client-us/op")
		})
	}
}

// serverCPU is what the server has used, in seconds.
func (b *bench) serverCPU() (seconds float64) {
	reply := b.server.Command(b.t, "INFO", "cpu")
	text, err := reply.ToString()
	require.NoError(b.t, err)
	for line := range strings.Lines(text) {
		var s float64
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "used_cpu_user:%f", &s); err == nil {
			seconds += s
		}
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "used_cpu_sys:%f", &s); err == nil {
			seconds += s
		}
	}
	return seconds
}

// clientCPU is what this process has used, in seconds.
func clientCPU(b testing.TB) float64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
