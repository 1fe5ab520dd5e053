package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func groupPause(a *app) *cobra.Command {
	return groupTurn(a, "pause", &cobra.Command{
		Short: "Let the consumers of a group fetch nothing more",
		Long: `Let all consumers of a group fetch nothing more, whichever process they run in:
nothing new, nothing that another left behind, nothing that is to be tried again.
What they hold they finish. Each learns of it within three seconds, one that joins
later before it begins. The pause stays until 'pipeline group resume', whatever
ends or starts meanwhile. Consumers of other programs do not heed it.

Once more, it does nothing.`,
		Example: `  pipeline group pause shop/orders --group mailer`,
	}, (*stream.Group).Pause, (*stream.Cursor).Pause)
}

func groupResume(a *app) *cobra.Command {
	return groupTurn(a, "resume", &cobra.Command{
		Short: "Let a paused group go on",
		Long: `Let a paused group go on. Its consumers do so within a second or two. Of a group
that is not paused it changes nothing.`,
		Example: `  pipeline group resume shop/orders --group mailer`,
	}, (*stream.Group).Resume, (*stream.Cursor).Resume)
}

// turn is a change of a group, or a cursor, that can be taken back.
type turn struct {
	app    *app
	verb   string
	name   string
	group  func(*stream.Group, context.Context) error
	cursor func(*stream.Cursor, context.Context) error
}

// groupTurn is a command of a turn, which asks nobody.
func groupTurn(a *app, verb string, cmd *cobra.Command, group func(*stream.Group, context.Context) error, cursor func(*stream.Cursor, context.Context) error) *cobra.Command {
	t := &turn{app: a, verb: verb, group: group, cursor: cursor}
	cmd.Use = verb + " ADDR --group NAME"
	cmd.Args = arguments(1, 1, "the address of a stream, as in shop/orders")
	cmd.Flags().Var(name(&t.name, "group"), "group", "name of the group, or of a cursor")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		addr, err := tier.ParseAddress(args[0])
		if err != nil {
			return err
		}
		if t.name == "" {
			return wantsGroup(addr)
		}
		return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error { return t.run(ctx, client, addr) })
	}
	return cmd
}

// run turns it in each partition that has it, or in the stream itself.
func (t *turn) run(ctx context.Context, client *tier.Client, addr tier.Address) error {
	all, err := addresses(ctx, client, addr)
	if err != nil {
		return err
	}
	var missing error
	found := false
	for _, one := range all {
		err := t.one(ctx, client, one)
		switch {
		case err == nil:
			found = true
		case codeOf(err) == exitNotFound:
			missing = err
		default:
			return err
		}
	}
	if !found {
		return missing
	}
	return nil
}

func (t *turn) one(ctx context.Context, client *tier.Client, addr tier.Address) error {
	cursor, err := cursorNamed(ctx, client, addr, t.name)
	if err != nil {
		return err
	}
	if cursor != nil {
		c, err := stream.NewCursor(client, stream.CursorConfig{Address: addr.String(), Name: t.name, Start: stream.Head()})
		if err == nil {
			err = t.cursor(c, ctx)
		}
		if err != nil {
			return err
		}
		return t.app.printTurn(t.verb, "cursor", addr, &stream.GroupInfo{
			Name: cursor.Name, Lag: cursor.Lag, LagExact: cursor.LagExact, Parked: cursor.Parked, Paused: cursor.Paused,
		})
	}
	was, err := groupNamed(ctx, client, addr, t.name)
	if err != nil {
		return err
	}
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: addr.String(), Name: t.name, Start: stream.Head()})
	if err == nil {
		err = t.group(g, ctx)
	}
	if err != nil {
		return err
	}
	return t.app.printTurn(t.verb, "group", addr, was)
}

func (a *app) printTurn(verb, kind string, addr tier.Address, was *stream.GroupInfo) error {
	paused := verb == "pause"
	if !a.json() {
		did := map[string]string{"pause": "paused", "resume": "resumed"}[verb]
		if was.Paused == paused {
			return a.print(fmt.Sprintf("%s %s of %s was %s already\n", kind, was.Name, addr, map[bool]string{true: "paused", false: "not paused"}[paused]))
		}
		return a.print(fmt.Sprintf("%s %s %s of %s: lag %s, %d pending, %d parked\n", did, kind, was.Name, addr, lagText(was), was.Pending, was.Parked))
	}
	return a.printObject(struct {
		Action  string `json:"action"`
		Stream  string `json:"stream"`
		Group   string `json:"group"`
		Changed bool   `json:"changed"`
	}{verb + "-" + kind, addr.String(), was.Name, was.Paused != paused})
}
