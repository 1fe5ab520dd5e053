package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

// The test binary, started again with this in its environment, runs a topology until all is through: the server's URL and the
// document.
const childEnv = "EXAMPLES_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	tiertest.Main(m)
}

func child(text string) error {
	url, document, _ := strings.Cut(text, " ")
	doc, err := topology.Load(document, topology.LoadOptions{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := tier.Dial(ctx, url, tier.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	lease := stage.Duration(time.Second) // so that the next process need not wait for long
	for name, s := range doc.Stages {
		s.Lease = lease
		doc.Stages[name] = s
	}
	for name, p := range doc.Projections {
		p.Lease = lease
		doc.Projections[name] = p
	}
	for name, s := range doc.Sinks {
		s.Lease = lease
		doc.Sinks[name] = s
	}
	run, err := topology.NewRun(client, doc, topology.RunOptions{})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Run(ctx) }()
	if err := run.Drained(ctx); err != nil {
		return err
	}
	stop()
	return <-ended
}

// record is a line of a sink.
type record struct {
	Key  string
	Data json.RawMessage
}

// outcome is what the last process has left.
type outcome struct {
	t      *testing.T
	client *tier.Client
	dir    string
}

// lines are those of a sink's file: each is read into data, and told by a function.
func lines[T any](o *outcome, name string, tell func(key string, data T) string) (all []string) {
	text, err := os.ReadFile(filepath.Join(o.dir, name+".jsonl"))
	require.NoError(o.t, err)
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var r record
		var data T
		require.NoError(o.t, json.Unmarshal(line, &r), "%s", line)
		require.NoError(o.t, json.Unmarshal(r.Data, &data), "%s", line)
		all = append(all, tell(r.Key, data))
	}
	return all
}

// dead is a line for each dead letter of a stage.
func (o *outcome) dead(address, name string) (all []string) {
	for range o.reasons(address, name) {
		all = append(all, "dead")
	}
	return all
}

// reasons are those of the dead letters of a stage.
func (o *outcome) reasons(address, name string) (all []string) {
	for l, err := range stream.DeadLetters(o.t.Context(), o.client, address, name) {
		require.NoError(o.t, err)
		all = append(all, l.Reason)
	}
	return all
}

// states are lines for the keys of a projection: each state is read into data, and told by a function.
func states[T any](o *outcome, scope, name string, tell func(key string, data T) string) (all []string) {
	fields, err := o.client.StateAll(o.t.Context(), scope, name)
	require.NoError(o.t, err)
	for key, state := range fields {
		var data T
		if key != "" { // which is the declaration that they are for
			require.NoError(o.t, json.Unmarshal([]byte(state), &data))
			all = append(all, tell(key, data))
		}
	}
	return all
}

// examples are the topologies, with what each leaves, in the words of its check.awk.
var examples = []struct {
	document string
	left     func(o *outcome) []string
}{
	{"earthquakes/quakes.yaml", func(o *outcome) []string {
		type window struct {
			Key, Start         any
			N, Cents, Networks int
			Min, Max           json.Number
		}
		return slices.Concat(
			states(o, "quakes", "latest.1", func(network string, quake struct{ ID, Mag json.Number }) string { // some have no id
				return fmt.Sprintf("latest %s %s %s", network, quake.ID, quake.Mag)
			}),
			lines(o, "daily", func(_ string, w window) string {
				return fmt.Sprintf("daily %s %s %d %d %s", slashed(w.Start)[:10], w.Key, w.N, w.Cents, w.Max)
			}),
			lines(o, "monthly", func(_ string, w window) string {
				return fmt.Sprintf("monthly %s %v %d %s %d", slashed(w.Start)[:7], w.Key, w.N, w.Min, w.Networks)
			}),
			lines(o, "strong", func(_ string, q struct{ ID, Mag json.Number }) string {
				return fmt.Sprintf("strong %s %s", q.ID, q.Mag)
			}),
		)
	}},
	{"orderflow/orders.yaml", func(o *outcome) []string {
		all := o.dead("orders/rows", "price")
		for _, reason := range o.reasons("orders/commands", "accounts") {
			var network, month string
			_, err := fmt.Sscanf(reason, "stage: refused: %s has used up its credit of %s", &network, &month)
			require.NoError(o.t, err, reason)
			all = append(all, fmt.Sprintf("refused %s %s", network, slashed(month)))
		}
		all = append(all, states(o, "orders", "account.1", func(network string, account struct {
			Month         string
			Cents, Orders int
		},
		) string {
			return fmt.Sprintf("account %s %s %d %d", network, slashed(account.Month), account.Cents, account.Orders)
		})...)
		jobs, err := queue.NewClient(o.client, queue.Config{Queue: "inspections"})
		require.NoError(o.t, err)
		for job, err := range jobs.List(o.t.Context(), queue.Selection{}) {
			require.NoError(o.t, err)
			var data struct {
				Order string
				Cents int
			}
			require.NoError(o.t, json.Unmarshal(job.Message.Data, &data))
			all = append(all, fmt.Sprintf("job %s %s %d", job.Lane, data.Order, data.Cents))
		}
		type sum struct{ parcels, orders, cents int }
		sums := map[string]sum{}
		lines(o, "parcels", func(network string, orders []struct{ Cents int }) string {
			s := sums[network]
			s.parcels++
			for _, order := range orders {
				s.orders, s.cents = s.orders+1, s.cents+order.Cents
			}
			sums[network] = s
			return ""
		})
		for network, s := range sums {
			all = append(all, fmt.Sprintf("parcels %s %d %d %d", network, s.parcels, s.orders, s.cents))
		}
		return append(all, lines(o, "bills", func(network string, b struct {
			Start                  string
			Orders, Cents, Largest int
		},
		) string {
			return fmt.Sprintf("bill %s %s %d %d %d", slashed(b.Start)[:7], network, b.Orders, b.Cents, b.Largest)
		})...)
	}},
	{"logs/logs.yaml", func(o *outcome) []string {
		type window struct {
			Start                  time.Time
			Lines, Networks, Kinds int
			Worst                  json.Number
		}
		return slices.Concat(
			o.dead("logs/lines", "parse"),
			lines(o, "errors", func(network string, r struct{ Mag json.Number }) string {
				return fmt.Sprintf("error %s %s", network, r.Mag)
			}),
			lines(o, "swarms", func(network string, w window) string {
				return fmt.Sprintf("swarm %s %d %d %s", network, w.Start.UnixMilli()/10, w.Lines, w.Worst)
			}),
			lines(o, "load", func(_ string, w window) string {
				return fmt.Sprintf("load %d %d %d %d %s", w.Start.Unix()/21600, w.Lines, w.Networks, w.Kinds, w.Worst)
			}),
		)
	}},
}

func slashed(date any) string { return strings.ReplaceAll(fmt.Sprint(date), "-", "/") }

// TestTopologies: processes that run each topology are killed at random, and what the last one leaves is what check.awk makes of the
// same file (B74).
func TestTopologies(t *testing.T) {
	server := tiertest.Shared(t, tiertest.Valkey)
	for _, example := range examples {
		t.Run(example.document, func(t *testing.T) {
			out := t.TempDir()
			spawn := func() *exec.Cmd {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), childEnv+"="+server.URL()+" "+example.document, "OUT="+out, "DATA=earthquakes")
				cmd.Stderr = os.Stderr
				require.NoError(t, cmd.Start())
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				return cmd
			}
			for range 4 {
				cmd := spawn()
				select {
				case <-time.After(time.Duration(200+rand.IntN(1300)) * time.Millisecond):
				case <-t.Context().Done():
				}
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
			}
			require.NoError(t, spawn().Wait())

			awk, err := exec.Command("awk", "-F", ",", "-f", filepath.Join(filepath.Dir(example.document), "check.awk"), "earthquakes/quakes.csv").Output()
			require.NoError(t, err)
			want := strings.Split(strings.TrimSpace(string(awk)), "\n")
			got := example.left(&outcome{t, tiertest.Dial(t, server), out})
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got)
		})
	}
}
