package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkEvents is what it costs to tell what becomes of jobs, as many of them in a call as the name says: to enqueue them, and
// to hand them out and settle them, by one worker. The server has no persistence; an iteration is a job. What it costs the server
// of CPU time, a busy machine blurs less than what it takes.
func BenchmarkEvents(b *testing.B) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, atOnce := range []int{1, 100, 1000} {
			for _, keep := range []int{0, 100_000} {
				name := map[bool]string{true: "on", false: "off"}[keep > 0]
				b.Run(fmt.Sprintf("%s/enqueue=%d/%s", kind, atOnce, name), func(b *testing.B) {
					f := benched(b, kind, keep)
					f.measured(b, func() { f.filled(b, b.N, atOnce) })
				})
				b.Run(fmt.Sprintf("%s/drain=%d/%s", kind, atOnce, name), func(b *testing.B) {
					f := benched(b, kind, keep)
					m := f.join(f.workers)
					f.filled(b, b.N, 1000)
					f.measured(b, func() {
						for left := b.N; left > 0; {
							leased, err := m.Read(b.Context(), min(left, atOnce), 0)
							require.NoError(b, err)
							_, err = m.Settle(b.Context(), entriesOf(leased))
							require.NoError(b, err)
							left -= len(leased)
						}
					})
					if keep > 0 {
						f.weigh(b)
					}
				})
			}
		}
	}
}

// measured runs what is measured, and tells the server's CPU time as well.
func (f *fixture) measured(b *testing.B, run func()) {
	before := f.serverTime(b)
	b.ResetTimer()
	run()
	b.StopTimer()
	b.ReportMetric((f.serverTime(b)-before)*1e9/float64(b.N), "server-cpu-ns/job")
}

// serverTime is the CPU time that the server has used, in seconds.
func (f *fixture) serverTime(b *testing.B) (total float64) {
	text := f.text("INFO", "cpu")
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		_, value, _ := strings.Cut(text, name+":")
		value, _, _ = strings.Cut(value, "\r")
		s, err := strconv.ParseFloat(value, 64)
		require.NoError(b, err)
		total += s
	}
	return total
}

func benched(b *testing.B, kind tiertest.Kind, keep int) *fixture {
	f := setUp(b, tiertest.Private(b, kind))
	if keep > 0 {
		require.NoError(b, f.jobs.DeclareEvents(f.ctx, keep))
	}
	return f
}

func (f *fixture) filled(b *testing.B, n, atOnce int) {
	jobs := make([]queue.Job, atOnce)
	for i := range jobs {
		jobs[i] = queue.Job{Message: codec.Message{Type: "t", Data: make([]byte, 100)}}
	}
	for ; n > 0; n -= len(jobs) {
		_, err := f.jobs.EnqueueMany(b.Context(), jobs[:min(n, len(jobs))])
		require.NoError(b, err)
	}
}

// weigh tells how many bytes the messages of events take.
func (f *fixture) weigh(b *testing.B) {
	key := f.queue.Events().LogKey()
	bytes, err := strconv.ParseFloat(f.text("MEMORY", "USAGE", key, "SAMPLES", "0"), 64)
	require.NoError(b, err)
	n, err := strconv.ParseFloat(f.text("XLEN", key), 64)
	require.NoError(b, err)
	b.ReportMetric(bytes/n, "B/message")
}
