package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func streamCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stream",
		Short: "Remove a stream, or reset it to an empty one",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(removal(a), reset(a))
	return cmd
}

// runParent runs when a command is given without one of its own.
func runParent(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return usagef("unknown command %q of %s (%s --help lists them)", args[0], cmd.CommandPath(), cmd.CommandPath())
}

// loss is a command that takes from a stream.
type loss struct {
	confirm
	action     string // in JSON
	would, did string
	all        bool // the groups go as well
	plan, do   func(ctx context.Context, client *tier.Client, address string) (stream.Removed, error)
}

func removal(a *app) *cobra.Command {
	l := &loss{
		confirm: confirm{app: a}, action: "remove", would: "would remove", did: "removed", all: true,
		plan: stream.PlanRemove, do: stream.Remove,
	}
	return l.command(&cobra.Command{
		Use:   "rm ADDR",
		Short: "Remove a stream with everything that belongs to it",
		Long: `Remove a stream: its log, its groups with what they hold, their dead letters, and
what is known of producers. Writers, readers and consumers at work end. The name
keeps its brand: whoever appends to it anew makes the stream again.

On a terminal it shows what would go and wants the address typed; elsewhere it
needs --yes. --dry-run changes nothing.`,
		Example: `  pipeline stream rm shop/orders --dry-run
  pipeline stream rm shop/orders --yes`,
	})
}

func reset(a *app) *cobra.Command {
	l := &loss{
		confirm: confirm{app: a}, action: "reset", would: "would empty", did: "emptied",
		plan: stream.PlanPurge, do: stream.Purge,
	}
	return l.command(&cobra.Command{
		Use:   "reset ADDR",
		Short: "Delete all entries of a stream, and nothing else",
		Long: `Delete all entries of a stream. Ids go on above the old ones; groups stay, forget
what they hold and go on with what comes next, and so do writers and consumers at
work. Dead letters stay.

On a terminal it shows what would go and wants the address typed; elsewhere it
needs --yes. --dry-run changes nothing.`,
		Example: `  pipeline stream reset shop/orders --dry-run
  pipeline stream reset shop/orders --yes`,
	})
}

func (l *loss) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args = arguments(1, 1, "the address of a stream, as in shop/orders")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		addr, err := tier.ParseAddress(args[0])
		if err == nil {
			err = l.possible()
		}
		if err != nil {
			return err
		}
		return l.app.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
			return l.run(ctx, client, addr.String())
		})
	}
	l.flags(cmd)
	return cmd
}

func (l *loss) run(ctx context.Context, client *tier.Client, address string) error {
	going, err := l.plan(ctx, client, address)
	if err != nil {
		return err
	}
	if l.dryRun {
		return l.print(&going, l.would)
	}
	if err := l.asked(ctx, l.would+" "+l.describe(&going)+groupsOf(&going), address); err != nil {
		return err
	}
	gone, err := l.do(ctx, client, address)
	if err != nil {
		return err
	}
	return l.print(&gone, l.did)
}

func (l *loss) print(r *stream.Removed, verb string) error {
	if !l.app.json() {
		text := verb + " " + l.describe(r)
		if l.dryRun {
			text += groupsOf(r)
		}
		return l.app.print(text)
	}
	type group struct {
		Group     string `json:"group"`
		Lag       int64  `json:"lag"`
		LagExact  bool   `json:"lag_exact"`
		Pending   int64  `json:"pending"`
		Dead      int64  `json:"dead"`
		Consumers int64  `json:"consumers"`
	}
	groups := []group{}
	for _, g := range r.Groups {
		groups = append(groups, group{g.Name, g.Lag, g.LagExact, g.Pending, g.Dead, g.Consumers})
	}
	return l.app.printObject(struct {
		Action      string      `json:"action"`
		DryRun      bool        `json:"dry_run"`
		Stream      string      `json:"stream"`
		Brand       codec.Brand `json:"brand"`
		Entries     int64       `json:"entries"`
		Bytes       int64       `json:"bytes,omitempty"`
		DeadLetters int64       `json:"dead_letters"`
		Producers   int         `json:"producers"`
		Keys        int         `json:"keys"`
		Groups      []group     `json:"groups"`
	}{l.action, l.dryRun, r.Stream.String(), r.Brand, r.Entries, r.Bytes, r.DeadLetters, r.Producers, r.Keys, groups})
}

// describe is what goes, in a line.
func (l *loss) describe(r *stream.Removed) string {
	parts := []string{count(r.Entries, "entry", "entries")}
	if r.Bytes > 0 {
		parts[0] += " (" + show.Bytes(r.Bytes) + ")"
	}
	if n := len(r.Groups); n > 0 && l.all {
		parts = append(parts, show.Count(n, "group"))
	}
	if r.DeadLetters > 0 {
		parts = append(parts, show.Count(int(r.DeadLetters), "dead letter"))
	}
	if r.Keys > 0 {
		parts = append(parts, "the versions of "+show.Count(r.Keys, "key"))
	}
	if r.Producers > 0 {
		parts = append(parts, "the receipts of "+show.Count(r.Producers, "producer"))
	}
	return fmt.Sprintf("%s: %s\n", r.Stream, strings.Join(parts, ", "))
}

func count(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return show.Number(n) + " " + more
}

// groupsOf is a table of the groups that go, or that forget what they hold.
func groupsOf(r *stream.Removed) string {
	if len(r.Groups) == 0 {
		return ""
	}
	rows := [][]string{{"GROUP", ">LAG", ">PENDING", ">CONSUMERS", ">DEAD"}}
	for _, g := range r.Groups {
		rows = append(rows, []string{g.Name, lagText(&g), show.Number(g.Pending), show.Number(g.Consumers), show.Number(g.Dead)})
	}
	return show.Table(rows)
}
