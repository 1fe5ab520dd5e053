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

// get is the command's arguments.
type get struct {
	app  *app
	id   codec.ID       // or
	at   codec.Position // the entry
	addr tier.Address   // zero: found out by the id
}

func getCommand(a *app) *cobra.Command {
	g := &get{app: a}
	return &cobra.Command{
		Use:   "get ID [ADDR]",
		Short: "Show one message by its id",
		Long: `Show one message by its id. An id says which stream it is of, so that the
address is not needed; with one, ID may also be an entry as the other commands
show it (1795957200000-0, 1795957200000-99#3). What the stream's archive has is
found as well.`,
		Example: `  pipeline get ORD0STCa4O4Feq
  pipeline get 1795957200000-0 shop/orders`,
		Args: arguments(1, 2, "an id, and perhaps the address of its stream"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.parse(args); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), g.run)
		},
	}
}

func (g *get) parse(args []string) (err error) {
	if len(args) > 1 {
		if g.addr, err = tier.ParseAddress(args[1]); err != nil {
			return err
		}
	}
	if g.id, err = codec.Parse(args[0]); err == nil {
		return nil
	}
	if g.at, err = codec.ParsePosition(args[0]); err != nil {
		return usagef("%.64q is no id: want 14 characters (ORD0STCa4O4Feq), or an entry (1795957200000-0) with an address behind it", args[0])
	}
	if g.addr.Stream == "" {
		return usagef("%q is an entry: want the address of its stream behind it, as in 'pipeline get %s shop/orders'", args[0], args[0])
	}
	return nil
}

func (g *get) run(ctx context.Context, client *tier.Client) (err error) {
	if g.addr.Stream == "" {
		if g.addr, err = streamOf(ctx, client, g.id); err != nil {
			return err
		}
	}
	r, err := newPartReader(ctx, client, g.addr, "")
	if err != nil {
		return err
	}
	var record codec.Record
	if g.id.IsZero() {
		record, err = readAt(ctx, r, g.at)
	} else {
		record, err = r.Get(ctx, g.id)
	}
	if err != nil {
		return err
	}
	if !g.app.json() {
		return g.app.print(show.Detail(&record))
	}
	return g.app.sink().show(&record)
}

// streamOf finds the stream of an id: its node number is that of the scope, its
// brand that of the stream.
func streamOf(ctx context.Context, client *tier.Client, id codec.ID) (tier.Address, error) {
	if id.Node() >= tier.MaxScopes {
		return tier.Address{}, notFound(fmt.Sprintf("%s: its node number %d is that of a process that mints ids, which does not tell where it is: give its address",
			id, id.Node()))
	}
	scope, err := client.ScopeOfNode(ctx, id.Node())
	if err != nil {
		return tier.Address{}, err
	}
	if scope == "" {
		return tier.Address{}, notFound(fmt.Sprintf("%s: no scope of this server has node number %d: it is of another server, or give its address", id, id.Node()))
	}
	for s, err := range stream.Streams(ctx, client, scope) {
		if err != nil {
			return tier.Address{}, err
		}
		if s.Brand == id.Brand() {
			return s.Address, nil
		}
	}
	return tier.Address{}, notFound(fmt.Sprintf("%s: no stream of scope %s has brand %s ('pipeline streams %s' lists them)", id, scope, id.Brand(), scope))
}
