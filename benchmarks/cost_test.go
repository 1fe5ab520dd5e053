package benchmarks_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/tier/tiertest"
)

// measure runs work and tells what it took.
func measure(b *testing.B, m *bench.Meter, work func()) bench.Cost {
	c, err := m.Measure(b.Context(), func(context.Context) error {
		work()
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// rawClient is the client library as a program would use it that knows nothing of this one.
func rawClient(b *testing.B, server *tiertest.Server) rueidis.Client {
	opt, err := rueidis.ParseURL(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	opt.DisableCache = true
	db, err := rueidis.NewClient(opt)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	return db
}

// report prints, of each contestant, medians per message over the rounds, and the median of its ratios to the first one.
func report(b *testing.B, messages int, names []string, rounds map[string][]bench.Cost) {
	median := func(n int, of func(i int) float64) float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = of(i)
		}
		slices.Sort(values)
		return values[n/2]
	}
	base := rounds[names[0]]
	b.Logf("%d messages a round, %d rounds, medians per message; in brackets the ratio to %s of the same round", messages, len(base), names[0])
	for _, name := range names {
		list := rounds[name]
		us := func(of func(c bench.Cost) time.Duration) (value, ratio float64) {
			value = median(len(list), func(i int) float64 { return of(list[i]).Seconds() * 1e6 / float64(messages) })
			return value, median(len(list), func(i int) float64 { return of(list[i]).Seconds() / of(base[i]).Seconds() })
		}
		server, serverRatio := us(func(c bench.Cost) time.Duration { return c.Server })
		client, clientRatio := us(func(c bench.Cost) time.Duration { return c.Client })
		allocs := median(len(list), func(i int) float64 { return float64(list[i].Allocs) / float64(messages) })
		bytes := median(len(list), func(i int) float64 { return float64(list[i].Bytes) / float64(messages) })
		rate := median(len(list), func(i int) float64 { return float64(messages) / list[i].Elapsed.Seconds() })
		b.Logf("%-16s server %.2f us (%.2f)  client %.2f us (%.2f)  %.2f allocations  %.0f bytes  %.0f messages/s",
			name, server, serverRatio, client, clientRatio, allocs, bytes, rate)
		if name == names[len(names)-1] {
			b.ReportMetric(serverRatio, "server-ratio")
			b.ReportMetric(clientRatio, "client-ratio")
			b.ReportMetric(allocs, "allocs/message")
		}
	}
}
