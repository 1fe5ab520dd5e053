package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func hydrateCommand(a *app) *cobra.Command {
	r := &replaying{app: a}
	var into string
	cmd := &cobra.Command{
		Use:   "hydrate ADDR --into NAME",
		Short: "Put the newest value of each key of a stream into a hash",
		Long: `Put the newest value of each key, the data of its newest message, into a hash:
emq:{SCOPE}:state:NAME, in the scope of the stream. A value is replaced by that of
a newer message only, so it can be run again, in parts, and while others do. A
PLACE is that of 'pipeline range'; messages without a key are left out.`,
		Example: `  pipeline hydrate shop/orders --into last-order
  pipeline hydrate shop/orders --into last-order --from 1d --type paid`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.addr, err = tier.ParseAddress(args[0]); err != nil {
				return err
			}
			if into == "" {
				return usagef("want the name of the hash: pipeline hydrate %s --into NAME", r.addr)
			}
			if r.from.from().Ms > r.to.to().Ms {
				return r.behind()
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return r.hydrate(ctx, client, into)
			})
		},
	}
	r.from.flag(cmd, "from", "where to begin (default: at the oldest message)")
	r.to.flag(cmd, "to", "where to end (default: at the newest message)")
	cmd.Flags().Var(name(&into, "state"), "into", "name of the hash")
	cmd.Flags().Var(texts(&r.cfg.Types, "TYPE", codec.MaxType), "type", "messages of this type; several: of any of them")
	storeFlag(cmd, &r.store)
	return cmd
}

func (r *replaying) hydrate(ctx context.Context, client *tier.Client, into string) error {
	source, err := r.open(ctx, client)
	if err != nil {
		return err
	}
	if err := source.onlyOne("hydrate"); err != nil {
		return err
	}
	job, err := replay.New(source, r.cfg)
	if err != nil {
		return err
	}
	begun := time.Now()
	r.file = into // the progress is not in the way of messages
	h, err := job.Hydrate(ctx, func(ctx context.Context, latest []stream.Latest) (int, error) {
		return stream.Hydrate(ctx, client, r.addr.Scope, into, latest)
	}, func(h replay.Hydrated) { r.progress(h.Last, h.Messages) })
	r.app.endProgress()
	r.app.done = h.Messages
	took := time.Since(begun)
	if r.app.output == "json" {
		err = errors.Join(err, r.app.printObject(struct {
			Messages int     `json:"messages"`
			Keyless  int     `json:"keyless"`
			Written  int     `json:"written"`
			Seconds  float64 `json:"seconds"`
		}{h.Messages, h.Keyless, h.Written, took.Seconds()}))
	}
	r.app.note("%s of %s read in %s, %d of them without a key; %s written to %s", show.Count(h.Messages, "message"), r.addr, show.Duration(took), h.Keyless, show.Count(h.Written, "value"), tier.StateKey(r.addr.Scope, into))
	return err
}
