package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func groupCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Move a group or a cursor to another place, pause it, or delete it",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(groupReset(a), groupPause(a), groupResume(a), groupDelete(a))
	return cmd
}

// groupChange is a command that changes a group.
type groupChange struct {
	confirm
	addr  tier.Address
	group string
	to    start
	move  *stream.Move // of a reset that was not made yet
}

func groupReset(a *app) *cobra.Command {
	c := &groupChange{confirm: confirm{app: a}}
	cmd := &cobra.Command{
		Use:   "reset ADDR --group NAME --to PLACE",
		Short: "Move a group to another place in its stream",
		Long: `Move a group to another place: head is the oldest message, new what is appended
from now on; or an id, an entry or a time as in 'pipeline range --from'. What its
consumers hold is forgotten, and they go on from there at once; messages that
they have handled may come again. Dead letters stay. Of a cursor the owner goes on
there, and what the stream has now counts as a replay.

On a terminal it shows the group and wants its name typed; elsewhere it needs
--yes. --dry-run changes nothing.`,
		Example: `  pipeline group reset shop/orders --group mailer --to head --dry-run
  pipeline group reset shop/orders --group mailer --to 1h --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.to.text == "" {
				return usagef("want the place to go to: --to head, new, an id, an entry, or a time")
			}
			return c.run(cmd.Context(), args[0], "move", c.reset)
		},
	}
	c.command(cmd)
	cmd.Flags().Var(&value{kind: "new|head|ID|TIME", set: c.to.set}, "to", "where the group goes on: head is the oldest message, new what is appended from now on")
	return cmd
}

func groupDelete(a *app) *cobra.Command {
	c := &groupChange{confirm: confirm{app: a}}
	cmd := &cobra.Command{
		Use:   "delete ADDR --group NAME",
		Short: "Delete a group: where it is, and what it holds",
		Long: `Delete a group: where it is in the stream, and what its consumers hold. Consumers
at work end. The messages and its dead letters stay.

On a terminal it shows the group and wants its name typed; elsewhere it needs
--yes. --dry-run changes nothing.`,
		Example: `  pipeline group delete shop/orders --group mailer --dry-run
  pipeline group delete shop/orders --group mailer --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), args[0], "delete", c.delete)
		},
	}
	c.command(cmd)
	return cmd
}

func (c *groupChange) command(cmd *cobra.Command) {
	cmd.Args = arguments(1, 1, "the address of a stream, as in shop/orders")
	cmd.Flags().Var(name(&c.group, "group"), "group", "name of the group")
	c.flags(cmd)
}

func (c *groupChange) run(ctx context.Context, address, verb string, change func(context.Context, *tier.Client, *stream.GroupInfo) error) (err error) {
	if c.addr, err = tier.ParseAddress(address); err != nil {
		return err
	}
	if c.group == "" {
		return wantsGroup(c.addr)
	}
	if err := c.possible(); err != nil {
		return err
	}
	return c.app.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		cursor, err := cursorNamed(ctx, client, c.addr, c.group)
		if err != nil {
			return err
		}
		if cursor != nil {
			return c.changeCursor(ctx, client, verb, cursor)
		}
		was, err := groupNamed(ctx, client, c.addr, c.group)
		if err != nil {
			return err
		}
		return change(ctx, client, was)
	})
}

func wantsGroup(addr tier.Address) error {
	return usagef("want the name of a group: --group NAME ('pipeline groups %s' lists them)", addr)
}

// groupNamed finds a group of a stream.
func groupNamed(ctx context.Context, client *tier.Client, addr tier.Address, name string) (*stream.GroupInfo, error) {
	groups, err := stream.Groups(ctx, client, addr.String())
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(groups, func(g stream.GroupInfo) bool { return g.Name == name })
	if i >= 0 {
		return &groups[i], nil
	}
	if err := declared(ctx, client, addr); err != nil {
		return nil, err
	}
	return nil, notFound(fmt.Sprintf("%s has no group %s: 'pipeline groups %s' lists them", addr, name, addr))
}

func (c *groupChange) reset(ctx context.Context, client *tier.Client, was *stream.GroupInfo) error {
	start, err := c.to.resolve(ctx, client, c.addr)
	if err != nil {
		return err
	}
	if c.dryRun || !c.yes {
		g, err := stream.NewGroup(client, stream.GroupConfig{Address: c.addr.String(), Name: c.group, Start: start})
		if err != nil {
			return err
		}
		move, err := g.PlanReset(ctx, start)
		if err != nil {
			return err
		}
		c.move = &move
	}
	return c.agreed(ctx, client, start, "move", was, func(g *stream.Group) error {
		forgotten, err := g.Reset(ctx, start)
		c.move = nil
		was.Parked = min(was.Parked, int64(forgotten))
		was.Pending = int64(forgotten) - was.Parked
		return err
	})
}

func (c *groupChange) delete(ctx context.Context, client *tier.Client, was *stream.GroupInfo) error {
	return c.agreed(ctx, client, stream.Head(), "delete", was, func(g *stream.Group) error { return g.Delete(ctx) })
}

// agreed makes a change that was confirmed, or says what it would be.
func (c *groupChange) agreed(ctx context.Context, client *tier.Client, start stream.Start, verb string, was *stream.GroupInfo, change func(*stream.Group) error) error {
	if c.dryRun {
		return c.print(verb, was)
	}
	if err := c.asked(ctx, c.line("would "+verb, was), c.group); err != nil {
		return err
	}
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: c.addr.String(), Name: c.group, Start: start})
	if err == nil {
		err = change(g)
	}
	if err != nil {
		return err
	}
	return c.print(verb, was)
}

// line says what happens to the group, as it was.
func (c *groupChange) line(verb string, was *stream.GroupInfo) string {
	to := ""
	if c.to.text != "" {
		to = " to " + c.to.text
	}
	parts := []string{"lag " + lagText(was), show.Number(was.Pending) + " pending, which it forgets", show.Count(int(was.Consumers), "consumer")}
	if was.Parked > 0 {
		parts[1] = show.Number(was.Pending) + " pending and " + show.Number(was.Parked) + " parked, which it forgets"
	}
	if was.Dead > 0 {
		parts = append(parts, show.Count(int(was.Dead), "dead letter")+", which stay")
	}
	if c.move != nil {
		parts = append(parts, moveText(c.move)...)
	}
	return fmt.Sprintf("%s group %s of %s%s: %s\n", verb, c.group, c.addr, to, strings.Join(parts, "; "))
}

// moveText says what comes again or is skipped, and where the group would go on.
func moveText(m *stream.Move) (parts []string) {
	least := ""
	if m.More {
		least = "at least "
	}
	if m.Skipped > 0 {
		parts = append(parts, least+show.Count(m.Skipped, "message")+" skipped")
	} else {
		parts = append(parts, least+show.Count(m.Again, "message")+" again")
	}
	if m.Next.IsZero() {
		return append(parts, "on with what is appended next")
	}
	return append(parts, "on at "+m.Next.String())
}

// moveJSON is a Move; exact says that all were counted.
type moveJSON struct {
	Again   int    `json:"again"`
	Skipped int    `json:"skipped"`
	Exact   bool   `json:"exact"`
	Next    string `json:"next"`
}

func (c *groupChange) print(verb string, was *stream.GroupInfo) error {
	if !c.app.json() {
		did := strings.TrimSuffix(verb, "e") + "ed"
		if c.dryRun {
			did = "would " + verb
		}
		return c.app.print(c.line(did, was))
	}
	return c.app.printObject(struct {
		Action    string    `json:"action"`
		DryRun    bool      `json:"dry_run"`
		Stream    string    `json:"stream"`
		Group     string    `json:"group"`
		To        string    `json:"to,omitempty"`
		Lag       int64     `json:"lag"`
		LagExact  bool      `json:"lag_exact"`
		Pending   int64     `json:"pending"`
		Parked    int64     `json:"parked"`
		Dead      int64     `json:"dead"`
		Consumers int64     `json:"consumers"`
		Move      *moveJSON `json:"move,omitempty"`
	}{verb + "-group", c.dryRun, c.addr.String(), c.group, c.to.text, was.Lag, was.LagExact, was.Pending, was.Parked, was.Dead, was.Consumers, c.moveJSON()})
}

func (c *groupChange) moveJSON() *moveJSON {
	if c.move == nil {
		return nil
	}
	return &moveJSON{c.move.Again, c.move.Skipped, !c.move.More, entryText(c.move.Next)}
}
