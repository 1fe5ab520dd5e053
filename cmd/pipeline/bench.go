package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
)

// benching is the command's flags.
type benching struct {
	app         *app
	group       bench.Group
	cfg         bench.Config
	persistence string
	chart       string
	json        bool
	results     []bench.Result
	growth      growing
}

func benchCommand(a *app) *cobra.Command {
	b := &benching{app: a, cfg: bench.Config{Size: bench.DefaultSize, Count: 100_000, Rounds: 5}}
	var names, list []string
	for _, g := range bench.Groups() {
		names = append(names, g.Name)
		list = append(list, fmt.Sprintf("  %-11s%s", g.Name, g.What))
	}
	durability := bench.DurabilityGroup()
	names = append(names, durability.Name, growthWork)
	list = append(list, fmt.Sprintf("  %-11s%s", durability.Name, durability.What),
		fmt.Sprintf("  %-11s%s", growthWork, "what works cost while streams, queues, groups, clusters grow"))
	cmd := &cobra.Command{
		Use:   "bench WORK",
		Short: "Measure how fast this machine is, and how near to what its server can do",
		Long: `Measure how fast this machine is, and how near to what its server can do. WORK is
one of

` + strings.Join(list, "\n") + `

Each is measured by turns with a ceiling, in the same minute on the same server: a
loop of raw bytes over one connection that makes the server do the same commands.
What is reported is medians of --rounds: messages a second, the ratio to the
ceiling, CPU time of the server and of this process, allocations, the server's
memory. How long a message takes is measured at 1,000 a second, from when each was
to be sent.

It runs a server of its own, which keeps nothing unless --persistence says so, and
leaves nothing behind. With a URL it measures that server, in a scope of its own
that it removes: at full speed, so not one that others need now.

durability runs servers of its own, each kept safe in another way, and compares
Publish there with Publish at one that keeps nothing; P50 is until a message is
acknowledged.

growth has no ceiling: it compares a work with itself where there is less. --axis
says what grows, --most how far, --count how many messages are measured at each
size, in a round (5,000).`,
		Example: `  pipeline bench stream
  pipeline bench pack --size 1000 --rounds 9 --chart pack.svg
  pipeline bench stream --persistence everysec --json
  pipeline bench growth --axis length --axis pending --chart growth.svg`,
		Args: arguments(1, 1, "what to measure: "+orList(names)), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == growthWork {
				return b.grow(cmd)
			}
			if err := b.growth.notGiven(cmd); err != nil {
				return err
			}
			if args[0] == durability.Name {
				b.group = durability
				return b.durability(cmd)
			}
			var ok bool
			if b.group, ok = bench.Find(args[0]); !ok {
				return usagef("%.100q cannot be measured: want %s", args[0], orList(names))
			}
			if err := bench.CheckPayload(b.cfg.Size, b.cfg.Count); err != nil {
				return &usageError{err}
			}
			if err := b.check(); err != nil {
				return err
			}
			return b.run(cmd.Context(), b.measure)
		},
	}
	f := cmd.Flags()
	f.Var(number(&b.cfg.Size, bench.MinSize, bench.MaxSize), "size", "bytes of data of a message")
	f.Var(number(&b.cfg.Count, 1, bench.MaxCount), "count", "messages of a round")
	f.Var(number(&b.cfg.Concurrency, 1, bench.MaxAtOnce), "concurrency", "callers, or handlers, at work at once (default: what suits the work)")
	f.Var(number(&b.cfg.Rounds, 1, bench.MaxRounds), "rounds", "how often each work and its ceiling take turns")
	f.Var(choice(&b.persistence, "no", "everysec", "always"), "persistence", "what the server of its own keeps: no, or an append-only file, synced each second or always (default no)")
	f.Var(given(&b.chart, "the name of a file"), "chart", "draw the rates and the ceilings into this file, as SVG")
	f.BoolVar(&b.json, "json", false, "the same as --output json")
	b.growth.flags(f)
	_ = cmd.MarkFlagFilename("chart", "svg")
	return cmd
}

// orList is "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// check refuses what would fail only after minutes.
func (b *benching) check() error {
	if b.json && b.app.output == "text" {
		return usagef("--json and --output text: give one of them")
	}
	if b.json {
		b.app.output = "json"
	}
	if b.chart == "" {
		return nil
	}
	if !strings.HasSuffix(b.chart, ".svg") {
		return usagef("--chart %s: want a name that ends in .svg", b.chart)
	}
	if _, err := os.Stat(filepath.Dir(b.chart)); err != nil {
		return &usageError{fileError("--chart "+b.chart, err)}
	}
	return nil
}

// run measures at the server of the URL, or at one of its own.
func (b *benching) run(ctx context.Context, measure func(context.Context, *tier.Client) error) error {
	url, _, err := b.app.serverURL()
	if err != nil {
		return err
	}
	if url == "" {
		return b.onOwnServer(ctx, measure)
	}
	if b.persistence != "" {
		return usagef("--persistence is of the server that bench runs itself: the one at the URL has its own")
	}
	b.cfg.Entered = func(scope string) {
		b.app.note("measuring at full speed, in the scope %s, which is removed at the end", scope)
	}
	return b.app.withClient(ctx, measure)
}

// onOwnServer measures on a server of which nothing is left behind.
func (b *benching) onOwnServer(ctx context.Context, measure func(context.Context, *tier.Client) error) (err error) {
	ctx, cancel := b.app.bounded(ctx)
	defer cancel()
	defer func() { err = b.app.late(ctx, err) }()
	dir, err := os.MkdirTemp("", "pipeline-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg := embedded.Config{Dir: dir, Listen: "127.0.0.1:0"} // TCP, as between machines: a socket costs both sides less
	if b.persistence != "" && b.persistence != "no" {
		cfg.AppendOnly, cfg.Args = true, []string{"--appendfsync", b.persistence}
	}
	server, err := embedded.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, server.Stop(stop))
	}()
	client, err := tier.Dial(ctx, "valkey://"+server.Addr(), tier.Options{ClientName: "pipeline-bench"})
	if err != nil {
		return err
	}
	defer client.Close()
	return measure(ctx, client)
}

func (b *benching) measure(ctx context.Context, client *tier.Client) error {
	a := b.app
	begun := time.Now()
	defer a.endProgress()
	b.cfg.Progress = b.progress
	if err := bench.Run(ctx, client, b.group, b.cfg, b.came); err != nil {
		return err
	}
	a.endProgress()
	return b.report(time.Since(begun))
}

// came takes a result when it is there.
func (b *benching) came(r bench.Result) error {
	b.app.done++
	b.results = append(b.results, r)
	if !b.app.json() {
		return nil
	}
	b.app.progress.Load().clear()
	return b.app.printObject(&r)
}

// durability has servers of its own.
func (b *benching) durability(cmd *cobra.Command) error {
	for _, name := range []string{"persistence", "concurrency"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is of the other works: durability says itself what it compares", name)
		}
	}
	if url, _, err := b.app.serverURL(); err != nil || url != "" {
		return errors.Join(err, usagef("bench durability runs servers of its own: leave the URL out"))
	}
	if err := b.check(); err != nil {
		return err
	}
	cfg := bench.Config{Size: b.cfg.Size, Progress: b.progress}
	if cmd.Flags().Changed("count") {
		cfg.Count = b.cfg.Count
	}
	if cmd.Flags().Changed("rounds") {
		cfg.Rounds = b.cfg.Rounds
	}
	ctx, cancel := b.app.bounded(cmd.Context())
	defer cancel()
	begun := time.Now()
	defer b.app.endProgress()
	if err := bench.RunDurability(ctx, cfg, b.came); err != nil {
		return b.app.late(ctx, err)
	}
	b.app.endProgress()
	return b.report(time.Since(begun))
}

func (b *benching) progress(done, total int) {
	a := b.app
	if a.progress.Load() == nil {
		a.startProgress(int64(total), "message")
	}
	a.progress.Load().at(int64(done), done)
}

// report prints the table, when that is for people, and draws the chart.
func (b *benching) report(took time.Duration) error {
	a := b.app
	if !a.json() {
		if err := a.print(b.table()); err != nil {
			return err
		}
	}
	if len(b.results) > 0 {
		r := &b.results[0]
		if i := slices.IndexFunc(b.results, func(r bench.Result) bool { return r.RatioMax > 2*r.RatioMin }); i >= 0 {
			a.note("rounds of %s lie more than a factor of two apart: something else is at work on this machine, and only ratios of CPU time are of use", b.results[i].Work)
		}
		a.note("%s, %s; %s of %s, %s, medians, in %s", r.ServerName, r.Durability, show.Count(r.Count, "message"), show.Bytes(int64(r.Size)), show.Count(r.Rounds, "round"), show.Duration(took))
	}
	return b.draw(bench.Chart(b.results))
}

// draw writes the chart, if there is to be one.
func (b *benching) draw(picture string) error {
	if b.chart == "" {
		return nil
	}
	if err := os.WriteFile(b.chart, []byte(picture), 0o644); err != nil {
		return fileError("--chart "+b.chart, err)
	}
	return nil
}

// table is what was measured, and below it what it was compared with.
func (b *benching) table() string {
	rows := [][]string{{"WORK", ">PER SECOND", ">CEILING", ">RATIO", ">OF ROUNDS", ">P50", ">P99", ">P99.9", ">SERVER", ">CLIENT", ">ALLOCS", ">MEMORY"}}
	for i := range b.results {
		r := &b.results[i]
		rows = append(rows, []string{
			r.Work, show.Number(int64(r.PerSecond)), r.Ceiling + " " + show.Number(int64(r.CeilingPerSecond)),
			fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.2f to %.2f", r.RatioMin, r.RatioMax),
			milliseconds(r.P50), milliseconds(r.P99), milliseconds(r.P999),
			fmt.Sprintf("%.2f us (%.2f)", r.Server, r.Server/r.CeilingServer), fmt.Sprintf("%.2f us", r.Client), fmt.Sprintf("%.1f", r.Allocs), fmt.Sprintf("%.0f B", r.ServerBytes),
		})
	}
	text := show.Table(narrowed(rows, b.app.width(), 6)) + "\nSERVER, CLIENT: CPU time for a message; in brackets the ratio to the server's of the ceiling\n"
	told := map[string]bool{}
	for i := range b.group.Works {
		if name, what := b.group.Works[i].Ceiling(); !told[name] {
			told[name] = true
			text += fmt.Sprintf("%s: %s\n", name, what)
		}
	}
	against := "raw commands"
	if b.group.Name == bench.DurabilityGroup().Name {
		against = "a server that keeps nothing"
	}
	for i := range b.results {
		if r := &b.results[i]; r.CeilingP50 != nil {
			text += fmt.Sprintf("%s at %s a second, with %s: P50 %s, P99 %s\n", r.Work, show.Number(bench.Rate), against, milliseconds(r.CeilingP50), milliseconds(r.CeilingP99))
		}
	}
	return text
}

func milliseconds(us *float64) string {
	if us == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f ms", *us/1000)
}
