package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echomq/pipeline/benchmarks/bench"
	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
)

// growthWork is what bench is asked for when things are to grow.
const growthWork = "growth"

// growing is the flags of bench growth, and what it has measured.
type growing struct {
	axes   []string
	most   int
	points []bench.Point
}

func axisNames() (names []string) {
	for _, a := range bench.Axes() {
		names = append(names, a.Name)
	}
	return names
}

func (g *growing) flags(f *pflag.FlagSet) {
	g.most = bench.DefaultMost
	f.StringArrayVar(&g.axes, "axis", nil, "of growth: what grows, "+orList(axisNames())+"; may be repeated (default all)")
	f.Var(number(&g.most, bench.MinMost, bench.MaxCount), "most", "of growth: how many entries the longest stream has")
}

// notGiven refuses the flags for other works.
func (g *growing) notGiven(cmd *cobra.Command) error {
	for _, name := range []string{"axis", "most"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is of bench growth", name)
		}
	}
	return nil
}

// chosen are the axes that were asked for.
func (g *growing) chosen() (list []bench.Axis, err error) {
	for _, name := range g.axes {
		if !slices.Contains(axisNames(), name) {
			return nil, usagef("--axis %.100q: want %s", name, orList(axisNames()))
		}
	}
	for _, a := range bench.Axes() {
		if len(g.axes) == 0 || slices.Contains(g.axes, a.Name) {
			list = append(list, a)
		}
	}
	return list, nil
}

func (b *benching) grow(cmd *cobra.Command) error {
	axes, err := b.growth.chosen()
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("concurrency") {
		return usagef("--concurrency is of the other works: growth says itself how many are at work")
	}
	url, _, err := b.app.serverURL()
	if err != nil {
		return err
	}
	axes = slices.DeleteFunc(axes, func(axis bench.Axis) bool {
		own := axis.Own && url != ""
		if own && len(axes) > 1 {
			b.app.note("%s takes servers that bench starts itself: leave the URL out to measure it", axis.Name)
		}
		return own
	})
	if len(axes) == 0 {
		return usagef("--axis nodes takes servers that bench starts itself: leave the URL out")
	}
	if err := b.check(); err != nil {
		return err
	}
	cfg := bench.GrowthConfig{Size: b.cfg.Size, Most: b.growth.most, Rounds: b.cfg.Rounds, Progress: b.progress}
	if cmd.Flags().Changed("count") {
		cfg.Count = b.cfg.Count
	}
	return b.run(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
		cfg.Entered = b.cfg.Entered
		return b.growAll(ctx, client, axes, cfg)
	})
}

// growAll measures one axis after the other.
func (b *benching) growAll(ctx context.Context, client *tier.Client, axes []bench.Axis, cfg bench.GrowthConfig) error {
	a, begun := b.app, time.Now()
	defer a.endProgress()
	for _, axis := range axes {
		err := bench.Grow(ctx, client, axis, cfg, func(p bench.Point) error {
			a.done++
			b.growth.points = append(b.growth.points, p)
			if !a.json() {
				return nil
			}
			a.progress.Load().clear()
			return a.printObject(&p)
		})
		a.endProgress()
		if err != nil {
			return err
		}
	}
	points := b.growth.points
	if !a.json() {
		if err := a.print(growthTable(points, a.width())); err != nil {
			return err
		}
	}
	if len(points) > 0 {
		p := &points[0]
		a.note("%s, %s; messages of %s, %s, medians, in %s", p.ServerName, p.Durability, show.Bytes(int64(p.Size)), show.Count(p.Rounds, "round"), show.Duration(time.Since(begun)))
	}
	return b.draw(bench.GrowthChart(points))
}

func growthTable(points []bench.Point, width int) string {
	rows := [][]string{{"WORK", ">AT", ">GROWTH", ">OF ROUNDS", ">SERVER", ">CLIENT", ">PER SECOND", ">P50", ">P99", ">A CALL", ">MEMORY"}}
	what := ""
	for i := range points {
		p := &points[i]
		memory := "-"
		if p.ServerBytes != nil {
			memory = fmt.Sprintf("%.0f B", *p.ServerBytes)
		}
		rows = append(rows, []string{
			p.Work, show.Number(int64(p.At)), fmt.Sprintf("%.2f", p.Growth), fmt.Sprintf("%.2f to %.2f", p.GrowthMin, p.GrowthMax),
			fmt.Sprintf("%.2f us", p.Server), fmt.Sprintf("%.2f us", p.Client), show.Number(int64(p.PerSecond)), milliseconds(p.P50), milliseconds(p.P99), show.Number(int64(p.Call)), memory,
		})
		if i == 0 || points[i-1].Axis != p.Axis {
			name, _, _ := strings.Cut(p.Work, "-")
			what += fmt.Sprintf("%s: %s\n", name, p.Axis)
		}
	}
	return show.Table(narrowed(rows, width, 6)) + "\nGROWTH: the server's CPU time for a message, over that at the least size\n" + what
}
