package benchmarks_test

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier/tiertest"
)

// cost is what some work took: of CPU time of the server and of this process, which a busy machine blurs less than
// elapsed time, and of allocations of this process.
type cost struct {
	server, client, elapsed time.Duration
	allocs, bytes           uint64
}

// meter measures against one server, over a connection of its own.
type meter struct {
	b  *testing.B
	db rueidis.Client
}

func newMeter(b *testing.B, server *tiertest.Server) *meter {
	return &meter{b, rawClient(b, server)}
}

// measure runs work and tells what it took.
func (m *meter) measure(work func()) cost {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	server, client, start := m.serverCPU(), clientCPU(m.b), time.Now()
	work()
	c := cost{elapsed: time.Since(start), client: clientCPU(m.b) - client}
	c.server = m.serverCPU() - server
	runtime.ReadMemStats(&after)
	c.allocs, c.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return c
}

// serverCPU is what the server has used so far.
func (m *meter) serverCPU() (total time.Duration) {
	text, err := m.db.Do(m.b.Context(), m.db.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		m.b.Fatal(err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				m.b.Fatal(err)
			}
			total += time.Duration(s * float64(time.Second))
		}
	}
	return total
}

func clientCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
func report(b *testing.B, messages int, names []string, rounds map[string][]cost) {
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
		us := func(of func(c cost) time.Duration) (value, ratio float64) {
			value = median(len(list), func(i int) float64 { return of(list[i]).Seconds() * 1e6 / float64(messages) })
			return value, median(len(list), func(i int) float64 { return of(list[i]).Seconds() / of(base[i]).Seconds() })
		}
		server, serverRatio := us(func(c cost) time.Duration { return c.server })
		client, clientRatio := us(func(c cost) time.Duration { return c.client })
		allocs := median(len(list), func(i int) float64 { return float64(list[i].allocs) / float64(messages) })
		bytes := median(len(list), func(i int) float64 { return float64(list[i].bytes) / float64(messages) })
		rate := median(len(list), func(i int) float64 { return float64(messages) / list[i].elapsed.Seconds() })
		b.Logf("%-16s server %.2f us (%.2f)  client %.2f us (%.2f)  %.2f allocations  %.0f bytes  %.0f messages/s",
			name, server, serverRatio, client, clientRatio, allocs, bytes, rate)
		if name == names[len(names)-1] {
			b.ReportMetric(serverRatio, "server-ratio")
			b.ReportMetric(clientRatio, "client-ratio")
			b.ReportMetric(allocs, "allocs/message")
		}
	}
}
