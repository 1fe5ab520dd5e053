package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// dead is what the commands about dead letters have in common: whose letters, and which.
type dead struct {
	confirm
	addr  tier.Address
	group string // or cursor
	whose string // "group g" or "cursor g", once it was asked
	ids   []string
	match string
	all   bool
	limit int
}

func deadCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "See what a group or cursor has given up, and give it back or drop it",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(deadList(a), deadShow(a), deadRedrive(a), deadDrop(a))
	return cmd
}

func deadRedrive(a *app) *cobra.Command {
	d := &dead{confirm: confirm{app: a}}
	return d.changing(&cobra.Command{
		Use:   "redrive ADDR --group NAME",
		Short: "Give dead letters back to their group, to be tried again at once",
		Long: `Give dead letters back to their group: --id, those that --match a text, or --all
that there are now. Their messages are due at once, and their attempts begin at 1.
Each is given back in one step: a command that is interrupted leaves every message
either dead or with the group, and can be run again.

What stays is said: a letter whose message was trimmed from the stream; one of a
pack of which other messages are being handled just now (run it again later); one
that the group, which was moved back, is still to come to.

On a terminal it says how many and wants the group's name typed; elsewhere it
needs --yes. --dry-run changes nothing.`,
		Example: `  pipeline dead redrive shop/orders --group mailer --match "connection refused" --dry-run
  pipeline dead redrive shop/orders --group mailer --all --yes`,
	}, d.redrive)
}

func deadDrop(a *app) *cobra.Command {
	d := &dead{confirm: confirm{app: a}}
	return d.changing(&cobra.Command{
		Use:   "drop ADDR --group NAME",
		Short: "Delete dead letters for good",
		Long: `Delete dead letters for good: --id, those that --match a text, or --all that there
are now. The messages stay in the stream as long as it keeps them, and the group
does not handle them any more.

On a terminal it says how many and wants the group's name typed; elsewhere it
needs --yes. --dry-run changes nothing.`,
		Example: `  pipeline dead drop shop/orders --group mailer --id 1795957200000-0 --yes
  pipeline dead drop shop/orders --group mailer --all --dry-run`,
	}, d.drop)
}

// flagged makes a command of one with an address and the name of a group.
func (d *dead) flagged(cmd *cobra.Command, run func(context.Context, *tier.Client) error, check func() error) *cobra.Command {
	cmd.Args = arguments(1, 1, "the address of a stream, as in shop/orders")
	cmd.Flags().Var(name(&d.group, "group"), "group", "name of the group, or of a cursor")
	cmd.Flags().Var(&value{kind: "ID", set: d.addID}, "id", "the letter, or the message, with this id; may be given again")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if d.addr, err = tier.ParseAddress(args[0]); err != nil {
			return err
		}
		if d.group == "" {
			return usagef("want the name of a group: --group NAME ('pipeline groups %s' lists them)", d.addr)
		}
		if err := check(); err != nil {
			return err
		}
		return d.app.withClient(cmd.Context(), run)
	}
	return cmd
}

// choosing adds the flags that choose among letters.
func (d *dead) choosing(cmd *cobra.Command) {
	cmd.Flags().Var(word(&d.match, "TEXT", 1024), "match", "those whose reason, type or key contains this")
	cmd.Flags().Var(number(&d.limit, 1, math.MaxInt), "limit", "this many at most, oldest first")
}

// changing is a command that changes letters.
func (d *dead) changing(cmd *cobra.Command, change func(context.Context, *tier.Client, []codec.EntryID) error) *cobra.Command {
	run := func(ctx context.Context, client *tier.Client) error {
		ids, err := d.chosen(ctx, client)
		if err != nil {
			return err
		}
		d.ask(ctx, client)
		return change(ctx, client, ids)
	}
	d.flagged(cmd, run, func() error {
		if len(d.ids) == 0 && d.match == "" && !d.all {
			return usagef("want which dead letters: --id ID, --match TEXT or --all ('pipeline dead ls %s --group %s' lists them)", d.addr, d.group)
		}
		if d.all && (len(d.ids) > 0 || d.match != "") {
			return usagef("--all is all of them: leave it out, or --id and --match")
		}
		return d.possible()
	})
	d.choosing(cmd)
	cmd.Flags().BoolVar(&d.all, "all", false, "all that there are")
	d.flags(cmd)
	return cmd
}

// addID takes the id of a letter or of a message.
func (d *dead) addID(s string) error {
	_, err := codec.ParseEntryID(s)
	if err != nil {
		_, err = codec.Parse(s)
	}
	if err != nil {
		return fmt.Errorf("want the id of a letter (1795957200000-0), or of a message (ORD0STCa4O4Feq)")
	}
	d.ids = append(d.ids, s)
	return nil
}

// each calls f with the letters that were chosen, oldest first. What was asked for by its id and is not there is an error.
func (d *dead) each(ctx context.Context, client *tier.Client, f func(*stream.DeadLetter) error) error {
	found, n, any := map[string]bool{}, 0, false
	for l, err := range stream.DeadLetters(ctx, client, d.addr.String(), d.group) {
		if err != nil {
			return err
		}
		any = true
		if !d.chooses(&l, found) {
			continue
		}
		if err := f(&l); err != nil {
			return err
		}
		if n++; n == d.limit {
			return nil
		}
	}
	for _, id := range d.ids {
		if !found[id] {
			d.ask(ctx, client)
			return notFound(fmt.Sprintf("%s of %s has no dead letter %s: 'pipeline dead ls %s --group %s' lists them", d.whose, d.addr, id, d.addr, d.group))
		}
	}
	switch {
	case !any:
		return d.none(ctx, client)
	case n == 0:
		d.ask(ctx, client)
		d.app.note("no dead letter of %s of %s matches", d.whose, d.addr)
	}
	return nil
}

func (d *dead) chooses(l *stream.DeadLetter, found map[string]bool) bool {
	if len(d.ids) > 0 {
		letter, message := l.ID.String(), l.Record.ID.String()
		if !slices.Contains(d.ids, letter) && !slices.Contains(d.ids, message) {
			return false
		}
		found[letter], found[message] = true, true
	}
	return d.match == "" || strings.Contains(l.Reason, d.match) || strings.Contains(l.Record.Type, d.match) || strings.Contains(l.Record.Key, d.match)
}

// none tells a group without dead letters from one that there is not.
func (d *dead) none(ctx context.Context, client *tier.Client) error {
	is, err := d.exists(ctx, client)
	if err == nil && !is {
		err = d.noGroup()
	}
	if err == nil {
		d.ask(ctx, client)
		d.app.note("%s of %s has no dead letters", d.whose, d.addr)
	}
	return err
}

func (d *dead) exists(ctx context.Context, client *tier.Client) (bool, error) {
	if c, err := cursorNamed(ctx, client, d.addr, d.group); c != nil || err != nil {
		return c != nil, err
	}
	groups, err := stream.Groups(ctx, client, d.addr.String())
	return slices.ContainsFunc(groups, func(g stream.GroupInfo) bool { return g.Name == d.group }), err
}

// ask finds out what the name is one of. Of one that was deleted, or may not be looked at, it says group.
func (d *dead) ask(ctx context.Context, client *tier.Client) {
	d.whose = "group " + d.group
	if c, err := cursorNamed(ctx, client, d.addr, d.group); c != nil && err == nil {
		d.whose = "cursor " + d.group
	}
}

func (d *dead) noGroup() error {
	return notFound(fmt.Sprintf("%s has no group or cursor %s: 'pipeline groups %s' lists them", d.addr, d.group, d.addr))
}

// chosen are the ids of the letters that were chosen, 16 bytes of memory for each.
func (d *dead) chosen(ctx context.Context, client *tier.Client) (ids []codec.EntryID, err error) {
	err = d.each(ctx, client, func(l *stream.DeadLetter) error {
		ids = append(ids, l.ID)
		return nil
	})
	return ids, err
}

// agreed asks about a change, unless it is to be none; then, and when there is nothing to change, it is false.
func (d *dead) agreed(ctx context.Context, verb string, n int) (bool, error) {
	if n == 0 || d.dryRun {
		return false, nil
	}
	err := d.asked(ctx, d.line("would "+verb, n), d.group)
	return err == nil, err
}

func (d *dead) line(did string, n int) string {
	return fmt.Sprintf("%s %s of %s of %s\n", did, show.Count(n, "dead letter"), d.whose, d.addr)
}
