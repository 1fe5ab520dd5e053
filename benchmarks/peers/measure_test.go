package peers_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/benchmarks/report"
	"github.com/echomq/pipeline/tier/tiertest"
)

// match is what contestants do by turns. The first is the one that has the goal.
type match struct {
	name, unit  string
	lower       bool    // is better
	goal        float64 // of the first against the second, or of the first alone
	alone       bool
	contestants []contestant
}

// contestant does its part of a match on an empty server: it sets up, and calls measured once for what counts.
type contestant struct {
	name string
	run  func(a *arena) outcome
	on   string // the server, and what it keeps; "": that of the arena
}

// outcome of a run: how many messages; and a value, where it is not their rate.
type outcome struct {
	count     int
	value     float64
	p99, late time.Duration
	cost      bench.Cost
}

// arena is the server, and what is measured there.
type arena struct {
	b       *testing.B
	server  *tiertest.Server
	url     string
	network string
	addr    string
	on      string
	db      rueidis.Client
	meter   *bench.Meter
	beside  []*child // other servers
}

// newArena starts Valkey on loopback, where the other servers are too.
func newArena(b *testing.B) *arena {
	persistence := cmp.Or(os.Getenv("PERSISTENCE"), "no") // or "everysec"
	args := []string{"--bind", "127.0.0.1", "--port", freePort(b), "--save", "", "--appendonly", "no"}
	on := "in memory only"
	if persistence != "no" {
		args = append(args[:6:6], "--appendonly", "yes", "--appendfsync", persistence)
		on = "append-only file, fsync " + persistence
	}
	a := &arena{b: b, server: tiertest.Private(b, tiertest.Valkey, args...), network: "tcp", addr: "127.0.0.1:" + args[3]}
	a.url = "valkey://" + a.addr
	db, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{a.addr}, DisableCache: true})
	must(b, err)
	b.Cleanup(db.Close)
	a.db = db
	client := own{a}.dial()
	b.Cleanup(client.Close)
	a.on = "Valkey " + client.Server().Version + ", " + on
	a.meter, err = bench.NewMeter(b.Context(), client, "meter")
	must(b, err)
	b.Cleanup(a.meter.Close)
	fmt.Fprintf(os.Stderr, "# %s, %s, %d CPUs\n", a.on, runtime.Version(), runtime.NumCPU())
	return a
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// info is a number that the server tells of itself.
func (a *arena) info(name string) float64 {
	text, err := a.db.Do(a.b.Context(), a.db.B().Info().Section("everything").Build()).ToString()
	must(a.b, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.ParseFloat(value, 64)
			must(a.b, err)
			return n
		}
	}
	a.b.Fatalf("INFO has no %s", name)
	return 0
}

// stored is how much memory the server uses beside the buffers of its connections.
func (a *arena) stored() float64 { return a.info("used_memory") - a.info("mem_clients_normal") }

// synced does what a contestant does with each write on disk before it is answered.
func (a *arena) synced(run func(a *arena) outcome) func(a *arena) outcome {
	set := func(name, value string) {
		must(a.b, a.db.Do(a.b.Context(), a.db.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error())
	}
	return func(a *arena) outcome {
		set("appendfsync", "always")
		set("appendonly", "yes")
		defer set("appendonly", "no")
		for a.info("aof_rewrite_in_progress") > 0 {
			time.Sleep(time.Millisecond)
		}
		return run(a)
	}
}

// measured does what counts.
func (a *arena) measured(count int, work func()) outcome {
	others := a.others()
	cost, err := a.meter.Measure(a.b.Context(), func(context.Context) error {
		work()
		return nil
	})
	must(a.b, err)
	cost.Server += a.others() - others
	return outcome{count: count, cost: cost}
}

// others is what the servers beside have used.
func (a *arena) others() (total time.Duration) {
	for _, c := range a.beside {
		total += c.cpu(a.b)
	}
	return total
}

// compare lets the contestants of all matches take turns, writes what each did as lines of JSON, and prints a table. ROUNDS is how many rounds there are, 3
// without it; MATCH picks matches by a part of their names.
func (a *arena) compare(set string, matches []match) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("ROUNDS"), "3"))
	must(a.b, err)
	matches = slices.DeleteFunc(matches, func(m match) bool { return !strings.Contains(m.name, os.Getenv("MATCH")) })
	var turns []report.Turn
	for round := range n {
		for _, m := range matches {
			for k := range m.contestants {
				c := m.contestants[(k+round)%len(m.contestants)] // nobody is always the first
				must(a.b, a.db.Do(a.b.Context(), a.db.B().Flushall().Sync().Build()).Error())
				o := c.run(a)
				t := report.Turn{
					Set: set, Match: m.name, Who: c.name, On: cmp.Or(c.on, a.on), Round: round + 1, Count: o.count, Value: o.value,
					Unit: m.unit, Lower: m.lower, Goal: m.goal, Alone: m.alone, P99: ms(o.p99), Late: ms(o.late),
				}
				if o.value == 0 {
					t.Value = float64(o.count) / o.cost.Elapsed.Seconds()
				}
				if o.count > 0 {
					t.Server, t.Client = us(o.cost.Server)/float64(o.count), us(o.cost.Client)/float64(o.count)
				}
				must(a.b, json.NewEncoder(os.Stdout).Encode(t))
				turns = append(turns, t)
			}
		}
	}
	fmt.Fprintf(os.Stderr, "\n%s\n", report.Table(report.Matches(turns)))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
func us(d time.Duration) float64 { return d.Seconds() * 1e6 }
