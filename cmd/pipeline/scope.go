package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func scopeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scope",
		Short: "Give a scope partitions, or change how many it has",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(scopePartition(a))
	return cmd
}

// partitioning is the command that gives a scope partitions.
type partitioning struct {
	confirm
	scope string
	count int
}

func scopePartition(a *app) *cobra.Command {
	p := &partitioning{confirm: confirm{app: a}}
	cmd := &cobra.Command{
		Use:   "partition SCOPE --count N",
		Short: "Give a scope N partitions, or change their number",
		Long: `Give a scope N partitions: scope shop becomes shop.0, shop.1 and so on, each with
a slot of its own. The messages of a stream shop/orders go to the partition of
their key. The scope must hold no streams. What ended half way goes on when it is
run again.

To change the number, all partitions are closed, so that writers wait; groups and
cursors handle what is left, which is waited for; then the partitions are opened
by the new number. So the messages of a key are handled in order, though almost
every key moves to another partition. When it is interrupted the partitions stay
closed: run it again to go on, or with the number from before to go back. On a
terminal a change wants the name typed; elsewhere it needs --yes. --dry-run
changes nothing, and says what there is left to handle.`,
		Example: `  pipeline scope partition shop --count 8
  pipeline scope partition shop --count 16 --dry-run
  pipeline scope partition shop --count 16 --yes`,
		Args: arguments(1, 1, "the name of a scope"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.scope = args[0]
			if err := tier.CheckName("scope", p.scope); err != nil {
				return err
			}
			if p.count == 0 {
				return usagef("want how many partitions: --count N")
			}
			return a.withClient(cmd.Context(), p.run)
		},
	}
	p.flags(cmd)
	cmd.Flags().Var(number(&p.count, 1, codec.MaxPartitions), "count", "how many partitions; each takes one of the 512 node numbers for scopes")
	return cmd
}

func (p *partitioning) run(ctx context.Context, client *tier.Client) error {
	have, err := stream.Partitions(ctx, client, p.scope)
	if err != nil {
		return err
	}
	plan := stream.Change{Scope: p.scope, To: p.count}
	if have.Count > 0 {
		if plan, err = stream.PlanRepartition(ctx, client, p.scope, p.count); err != nil {
			return err
		}
	}
	changes := plan.From != 0 && plan.From != plan.To
	switch {
	case p.dryRun:
		return p.print(&plan, "would have")
	case changes && !plan.Begun:
		if err := p.possible(); err != nil {
			return err
		}
		if err := p.asked(ctx, p.text(&plan, "would have"), p.scope); err != nil {
			return err
		}
	}
	if plan.From == 0 {
		err = stream.Partition(ctx, client, p.scope, p.count)
	} else {
		err = stream.Repartition(ctx, client, p.scope, p.count, p.waiting())
	}
	if err != nil {
		if changes && stoppedWaiting(err) {
			p.app.warn("the partitions of %s may be closed: run it again to go on, or with --count %d to go back", p.scope, plan.From)
		}
		return err
	}
	plan.Undrained = nil
	return p.print(&plan, "has")
}

// waiting tells what is waited for, when that has changed.
func (p *partitioning) waiting() func([]stream.Undrained) {
	told := -1
	return func(left []stream.Undrained) {
		if len(left) != told {
			u := left[0]
			p.app.note("waiting for %s (or cursors), %s of %s first: lag %d, %d pending, %d parked", show.Count(len(left), "group"), u.Name, u.Stream, u.Lag, u.Pending, u.Parked)
		}
		told = len(left)
	}
}

func (p *partitioning) print(c *stream.Change, verb string) error {
	if !p.app.json() {
		return p.app.print(p.text(c, verb))
	}
	type undrained struct {
		Stream  string `json:"stream"`
		Name    string `json:"name"`
		Lag     int64  `json:"lag"`
		Pending int64  `json:"pending"`
		Parked  int64  `json:"parked"`
	}
	left := []undrained{}
	for _, u := range c.Undrained {
		left = append(left, undrained{u.Stream.String(), u.Name, u.Lag, u.Pending, u.Parked})
	}
	return p.app.printObject(struct {
		Action    string      `json:"action"`
		DryRun    bool        `json:"dry_run"`
		Scope     string      `json:"scope"`
		From      int         `json:"from"`
		To        int         `json:"to"`
		Undrained []undrained `json:"undrained"`
	}{"partition", p.dryRun, c.Scope, c.From, c.To, left})
}

func (p *partitioning) text(c *stream.Change, verb string) string {
	text := fmt.Sprintf("%s %s %s", c.Scope, verb, show.Count(c.To, "partition"))
	if c.From != 0 && c.From != c.To {
		text += fmt.Sprintf(", after %d", c.From)
	}
	if len(c.Undrained) > 0 {
		text += "; before that, writers wait until all is handled:\n" + undrainedTable(c.Undrained)
		return text
	}
	return text + "\n"
}

func undrainedTable(left []stream.Undrained) string {
	rows := [][]string{{"STREAM", "NAME", ">LAG", ">PENDING", ">PARKED"}}
	for _, u := range left {
		rows = append(rows, []string{u.Stream.String(), u.Name, show.Number(u.Lag), show.Number(u.Pending), show.Number(u.Parked)})
	}
	return show.Table(rows)
}
