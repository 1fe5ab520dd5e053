package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
)

// projectionChange is a command that changes a version of a projection.
type projectionChange struct {
	confirm
	verb    string
	addr    tier.Address
	name    string
	version int
	change  func(ctx context.Context, client *tier.Client, address, name string, version int) error
}

func projectionSwitch(a *app) *cobra.Command {
	c := &projectionChange{confirm: confirm{app: a}, verb: "switch to", change: projection.Switch}
	return c.command(&cobra.Command{
		Use:   "switch ADDR --name NAME --version N",
		Short: "Make a version of a projection the one that readers use",
		Long: `Make a version of a projection the live one: readers use it from their next call
on. Look at its lag before, with --dry-run.`,
		Example: `  pipeline projections switch shop/orders --name balances --version 2 --dry-run`,
	})
}

func projectionReset(a *app) *cobra.Command {
	c := &projectionChange{confirm: confirm{app: a}, verb: "reset", change: projection.Reset}
	return c.command(&cobra.Command{
		Use:   "reset ADDR --name NAME --version N",
		Short: "Make a version of a projection anew, from the first message",
		Long: `Make a version of a projection anew: its owner goes on at the head of the stream,
and its state is deleted with the first commit. Messages that were trimmed are
missing in it then. Dead letters stay.`,
		Example: `  pipeline projections reset shop/orders --name balances --version 1 --dry-run`,
	})
}

func projectionDrop(a *app) *cobra.Command {
	c := &projectionChange{confirm: confirm{app: a}, verb: "drop", change: projection.Drop}
	return c.command(&cobra.Command{
		Use:   "drop ADDR --name NAME --version N",
		Short: "Delete a version of a projection, and its state",
		Long: `Delete a version of a projection with its state; whoever folds it ends. The live
one is refused while there are others. Dead letters stay.`,
		Example: `  pipeline projections drop shop/orders --name balances --version 1 --dry-run`,
	})
}

func (c *projectionChange) command(cmd *cobra.Command) *cobra.Command {
	cmd.Long += `

On a terminal it wants the name typed; elsewhere it needs --yes. --dry-run changes
nothing.`
	cmd.Args = arguments(1, 1, "the address of a stream, as in shop/orders")
	cmd.Flags().Var(name(&c.name, "projection"), "name", "name of the projection")
	cmd.Flags().Var(number(&c.version, 1, 9999), "version", "which version of it")
	c.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if c.addr, err = tier.ParseAddress(args[0]); err != nil {
			return err
		}
		if c.name == "" || c.version == 0 {
			return usagef("want a version of a projection: --name NAME --version N ('pipeline projections %s' lists them)", c.addr)
		}
		if err := c.possible(); err != nil {
			return err
		}
		return c.app.withClient(cmd.Context(), c.run)
	}
	return cmd
}

func (c *projectionChange) run(ctx context.Context, client *tier.Client) error {
	list, err := projection.List(ctx, client, c.addr.String())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(i projection.Info) bool { return i.Projection == c.name && i.Version == c.version })
	if i < 0 {
		return notFound(fmt.Sprintf("%s has no version %d of %s: 'pipeline projections %s' lists them", c.addr, c.version, c.name, c.addr))
	}
	was := &list[i]
	if !c.dryRun {
		if err := c.asked(ctx, c.line("would "+c.verb, was), c.name); err != nil {
			return err
		}
		if err := c.change(ctx, client, c.addr.String(), c.name, c.version); err != nil {
			return err
		}
	}
	if !c.app.json() {
		verb := c.verb
		if c.dryRun {
			verb = "would " + verb
		}
		return c.app.print(c.line(verb, was))
	}
	return c.app.printObject(struct {
		Action string `json:"action"`
		DryRun bool   `json:"dry_run"`
		projectionJSON
	}{c.verb, c.dryRun, projectionOf(c.addr, was)})
}

func (c *projectionChange) line(verb string, was *projection.Info) string {
	live := ""
	if was.Live {
		live = ", the live one"
	}
	return fmt.Sprintf("%s version %d of %s%s: lag %s; %s, which stay\n", verb, c.version, c.name, live, show.Number(was.Lag), show.Count(int(was.Dead), "dead letter"))
}
