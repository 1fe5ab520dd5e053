package peers_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// payload is of 200 bytes.
var payload = bytes.Repeat([]byte("x"), 200)

// parallel calls f for 0 to n-1 on so many goroutines.
func parallel(goroutines, n int, f func(i int)) {
	var wg sync.WaitGroup
	var at atomic.Int64
	for range goroutines {
		wg.Go(func() {
			for i := at.Add(1) - 1; i < int64(n); i = at.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

// countdown closes none when so many were seen.
type countdown struct {
	left atomic.Int64
	none chan struct{}
}

func newCountdown(n int) *countdown {
	c := &countdown{none: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) saw() {
	if c.left.Add(-1) == 0 {
		close(c.none)
	}
}

// wait is for what is slow, and not for what does not come.
func (c *countdown) wait(b *testing.B) {
	b.Helper()
	select {
	case <-c.none:
	case <-time.After(2 * time.Minute):
		b.Fatalf("%d have not come", c.left.Load())
	}
}

const (
	jobsASecond = 1000
	seconds     = 5
)

// latency is from when a job was to be sent to when its handler starts: a sender that is late, or waits for the one before, shortens
// nothing.
type latency struct {
	mu   sync.Mutex
	took []time.Duration
	late []time.Duration
	all  chan struct{}
}

func newLatency() *latency { return &latency{all: make(chan struct{})} }

func (l *latency) started(data []byte) {
	ns, err := strconv.ParseInt(string(data[:19]), 10, 64)
	if err != nil {
		panic(err)
	}
	took := time.Since(time.Unix(0, ns))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.took = append(l.took, took); len(l.took) == jobsASecond*seconds {
		close(l.all)
	}
}

// run sends at a fixed rate, each job by a goroutine of its own.
func (l *latency) run(a *arena, send func(data []byte)) outcome {
	const n = jobsASecond * seconds
	o := a.measured(n, func() {
		var wg sync.WaitGroup
		for i, began := 0, time.Now(); i < n; i++ {
			at := began.Add(time.Duration(i) * time.Second / jobsASecond)
			time.Sleep(time.Until(at))
			wg.Go(func() {
				late := time.Since(at)
				send(append(fmt.Appendf(nil, "%019d", at.UnixNano()), payload[19:]...))
				l.mu.Lock()
				defer l.mu.Unlock()
				l.late = append(l.late, late)
			})
		}
		wg.Wait()
		<-l.all
	})
	slices.Sort(l.took)
	slices.Sort(l.late)
	o.value, o.p99, o.late = ms(l.took[n/2]), l.took[n*99/100], l.late[n/2]
	return o
}

// idles counts the commands a second that a worker sends, which work starts on the arena that it is given: what scripts call is not sent.
func (a *arena) idles(work func(a *arena) (stop func())) outcome {
	const span = 10 * time.Second
	proxy := tiertest.NewProxy(a.b, a.server)
	counting := *a
	counting.url, counting.network, counting.addr = proxy.URL(), "tcp", strings.TrimPrefix(proxy.URL(), "valkey://")
	defer work(&counting)()
	time.Sleep(3 * time.Second) // the first looks
	sent := func() (n int) {
		for _, of := range proxy.Commands() {
			n += of
		}
		return n
	}
	before := sent()
	time.Sleep(span)
	return outcome{value: float64(sent()-before) / span.Seconds()}
}

// BenchmarkJobs compares the product with asynq, with River, and with itself. ROUNDS and MATCH are those of compare; PERSISTENCE=everysec has the server of the first two
// write an append-only file.
func BenchmarkJobs(b *testing.B) {
	a := newArena(b)
	us, aq, rv := own{a}, asynqPeer{a}, newRiver(a)
	named := func(name string, run func() outcome) contestant {
		return contestant{name: name, run: func(*arena) outcome { return run() }}
	}
	ours := func(run func() outcome) contestant { return named("pipeline", run) }
	synced := func(run func() outcome) contestant {
		return contestant{"pipeline, fsync of each write", a.synced(func(*arena) outcome { return run() }), strings.ReplaceAll(a.on, "in memory only", "append-only file, fsync always")}
	}
	theirs := func(run func() outcome) contestant { return named("asynq", run) }
	var matches []match
	for _, n := range []int{10, 100} {
		matches = append(matches, match{name: fmt.Sprintf("drain, %d at once", n), unit: "jobs/s", goal: 12, contestants: []contestant{
			ours(func() outcome { return us.drains(consumer.Config{Concurrency: n}, 200_000, 1, 0) }), theirs(func() outcome { return aq.drains(n, 20_000) }),
		}})
	}
	workers, hundred := consumer.Config{Concurrency: 10}, consumer.Config{Concurrency: 100}
	matches = append(matches,
		match{name: "drain against River, 100 at once", unit: "jobs/s", goal: 6, contestants: []contestant{
			ours(func() outcome { return us.drains(hundred, 200_000, 1, 0) }),
			rv.does("River, FetchCooldown 1 ms", func() outcome { return rv.drains(100, 20_000, time.Millisecond) }),
			rv.does("River", func() outcome { return rv.drains(100, 2_000, 0) }),
			synced(func() outcome { return us.drains(hundred, 100_000, 1, 0) }),
		}},
		match{name: "enqueue against River, 16 goroutines", unit: "jobs/s", contestants: []contestant{
			ours(func() outcome { return us.enqueues(16, 100_000) }),
			rv.does("River", func() outcome { return rv.enqueues(16, 10_000) }),
			synced(func() outcome { return us.enqueues(16, 10_000) }),
		}},
		match{name: "enqueue one by one", unit: "jobs/s", contestants: []contestant{
			ours(func() outcome { return us.enqueues(1, 5_000) }), theirs(func() outcome { return aq.enqueues(1, 5_000) }),
		}},
		match{name: "enqueue, 16 goroutines", unit: "jobs/s", goal: 3, contestants: []contestant{
			ours(func() outcome { return us.enqueues(16, 100_000) }), theirs(func() outcome { return aq.enqueues(16, 20_000) }),
		}},
		match{name: "EnqueueMany of 1,000, one caller", unit: "jobs/s", goal: 8, contestants: []contestant{
			ours(func() outcome { return us.enqueuesMany(200_000, 1000) }),
			theirs(func() outcome { return aq.enqueues(1, 5_000) }),
			named("asynq, 16 goroutines", func() outcome { return aq.enqueues(16, 20_000) }),
			rv.does("River, InsertManyFast of 1,000", func() outcome { return rv.enqueuesMany(50_000, 1000) }),
		}},
		match{name: "from enqueue to start, 1,000 jobs/s", unit: "ms at the median", lower: true, goal: 1, alone: true, contestants: []contestant{
			ours(func() outcome { return us.latency(10) }),
			theirs(func() outcome { return aq.latency(10, 0) }),
			named("asynq, TaskCheckInterval 10 ms", func() outcome { return aq.latency(10, 10*time.Millisecond) }),
			rv.does("River, 100 at once, FetchCooldown 1 ms", func() outcome { return rv.latency(100, time.Millisecond) }),
		}},
		match{name: "fairness: drain 100,000", unit: "jobs/s", goal: 0.667, contestants: []contestant{
			named("1,000 lanes", func() outcome { return us.drains(workers, 100_000, 1000, 0) }),
			named("1 lane", func() outcome { return us.drains(workers, 100_000, 1, 0) }),
			named("10,000 lanes", func() outcome { return us.drains(workers, 100_000, 10_000, 0) }),
		}},
		match{name: "ceiling: drain 100,000, 100 at once, 500 active", unit: "jobs/s", goal: 0.9, contestants: []contestant{
			named("ceiling 1,000", func() outcome {
				return us.drains(consumer.Config{Concurrency: 100, MaxInFlight: 500}, 100_000, 1, 1000)
			}),
			named("none", func() outcome { return us.drains(consumer.Config{Concurrency: 100, MaxInFlight: 500}, 100_000, 1, 0) }),
		}},
		match{name: "a waiting job of 200 bytes, 10,000 in a lane", unit: "bytes", lower: true, goal: 450, alone: true, contestants: []contestant{
			ours(func() outcome { return us.waiting(10_000) }), theirs(func() outcome { return aq.waiting(10_000) }),
		}},
		match{name: "an idle worker", unit: "commands/s", lower: true, goal: 1, alone: true, contestants: []contestant{
			ours(func() outcome { return a.idles(idle) }), theirs(func() outcome { return a.idles(asynqIdle) }),
		}},
	)
	a.compare("jobs", matches)
}
