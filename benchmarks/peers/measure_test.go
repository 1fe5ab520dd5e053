package peers_test

import (
	"encoding/json"
	"fmt"
	"os"
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

// result is what one contestant did in one round of a match. It is printed as one line of JSON.
type result struct {
	Match  string  `json:"match"`
	Who    string  `json:"who"`
	Round  int     `json:"round"`
	Jobs   int     `json:"jobs"`
	Value  float64 `json:"value"` // in the unit of the match
	Unit   string  `json:"unit"`
	Server float64 `json:"server_us_per_job"` // CPU time
	Client float64 `json:"client_us_per_job"` // CPU time of this process
	P99    float64 `json:"p99_ms,omitempty"`
	Late   float64 `json:"generator_late_p50_ms,omitempty"` // how late jobs were sent, which counts
}

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
}

// outcome of a run: how many jobs; and a value, where it is not their rate.
type outcome struct {
	jobs       int
	value      float64
	p99, late  time.Duration
	from, till mark
}

// arena is the server, and what is measured there.
type arena struct {
	b       *testing.B
	server  *tiertest.Server
	url     string
	network string
	addr    string
	db      rueidis.Client
	beside  func() time.Duration // what another server has used, if there is one
}

func newArena(b *testing.B) *arena {
	persistence := os.Getenv("PERSISTENCE") // "no" or "everysec"
	if persistence == "" {
		persistence = "no"
	}
	args := []string{"--save", "", "--appendonly", "no"}
	if persistence == "everysec" {
		args = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "everysec"}
	}
	server := tiertest.Private(b, tiertest.Valkey, args...)
	opt, err := rueidis.ParseURL(server.URL())
	must(b, err)
	opt.DisableCache = true
	db, err := rueidis.NewClient(opt)
	must(b, err)
	b.Cleanup(db.Close)
	a := &arena{b: b, server: server, url: server.URL(), network: "tcp", addr: opt.InitAddress[0], db: db}
	if strings.HasPrefix(a.url, "unix:") {
		a.network = "unix"
	}
	fmt.Printf("# Valkey, persistence %s, %s, %d CPUs, load %s\n", persistence, runtime.Version(), runtime.NumCPU(), load())
	return a
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// mark is a point in time, with what was used up to it.
type mark struct {
	at             time.Time
	server, client time.Duration
}

func (a *arena) mark() mark {
	var u syscall.Rusage
	must(a.b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	cpu := time.Duration((a.info("used_cpu_user") + a.info("used_cpu_sys")) * float64(time.Second))
	if a.beside != nil {
		cpu += a.beside()
	}
	return mark{time.Now(), cpu, time.Duration(u.Utime.Nano() + u.Stime.Nano())}
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

// measured does what counts.
func (a *arena) measured(jobs int, work func()) outcome {
	runtime.GC()
	from := a.mark()
	work()
	return outcome{jobs: jobs, from: from, till: a.mark()}
}

// rounds lets the contestants of all matches take turns, and prints what each did, and a table.
func (a *arena) rounds(n int, matches []match) {
	all := map[string][]result{}
	for round := range n {
		for _, m := range matches {
			for k := range m.contestants {
				c := m.contestants[(k+round)%len(m.contestants)] // nobody is always the first
				must(a.b, a.db.Do(a.b.Context(), a.db.B().Flushall().Sync().Build()).Error())
				o := c.run(a)
				r := result{Match: m.name, Who: c.name, Round: round + 1, Jobs: o.jobs, Value: o.value, Unit: m.unit, P99: ms(o.p99), Late: ms(o.late)}
				if o.value == 0 {
					r.Value = float64(o.jobs) / o.till.at.Sub(o.from.at).Seconds()
				}
				if o.jobs > 0 {
					r.Server = us(o.till.server-o.from.server) / float64(o.jobs)
					r.Client = us(o.till.client-o.from.client) / float64(o.jobs)
				}
				line, err := json.Marshal(r)
				must(a.b, err)
				fmt.Println(string(line))
				all[m.name+"/"+c.name] = append(all[m.name+"/"+c.name], r)
			}
		}
	}
	fmt.Printf("\n# medians of %d rounds, in brackets the least and the most; load %s\n\n", n, load())
	fmt.Println("| | who | | server us/job | client us/job | to the second, of the same round | goal |\n|---|---|---|---|---|---|---|")
	for _, m := range matches {
		for k, c := range m.contestants {
			fmt.Println(m.row(k, all[m.name+"/"+c.name], all[m.name+"/"+m.contestants[min(1, len(m.contestants)-1)].name]))
		}
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
func us(d time.Duration) float64 { return d.Seconds() * 1e6 }

func (m *match) row(k int, list, second []result) string {
	ratio, goal := "", ""
	if len(m.contestants) > 1 && k != 1 {
		ratio = spread(len(list), "%.2f", func(i int) float64 { return list[i].Value / second[i].Value })
	}
	if k == 0 && m.goal > 0 {
		got, sign := median(len(list), func(i int) float64 { return list[i].Value / second[i].Value }), ">="
		if m.alone {
			got = median(len(list), func(i int) float64 { return list[i].Value })
		}
		if m.lower {
			sign = "<="
		}
		goal = fmt.Sprintf("%s %g: missed", sign, m.goal)
		if m.lower == (got <= m.goal) || got == m.goal {
			goal = fmt.Sprintf("%s %g: met", sign, m.goal)
		}
	}
	of := func(f func(r *result) float64) func(i int) float64 { return func(i int) float64 { return f(&list[i]) } }
	format := "%.0f"
	if m.lower {
		format = "%.2f"
	}
	return fmt.Sprintf("| %s | %s | %s %s | %.1f | %.1f | %s | %s |", m.name, m.contestants[k].name,
		spread(len(list), format, of(func(r *result) float64 { return r.Value })), m.unit,
		median(len(list), of(func(r *result) float64 { return r.Server })), median(len(list), of(func(r *result) float64 { return r.Client })), ratio, goal)
}

func sorted(n int, of func(i int) float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = of(i)
	}
	slices.Sort(values)
	return values
}

func median(n int, of func(i int) float64) float64 { return sorted(n, of)[n/2] }

func spread(n int, format string, of func(i int) float64) string {
	v := sorted(n, of)
	return fmt.Sprintf(format+" ("+format+" to "+format+")", v[n/2], v[0], v[n-1])
}
