package main

import (
	"context"
	"errors"
	"math"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// tail is the command's flags.
type tail struct {
	app     *app
	addr    tier.Address
	lines   int
	follow  bool
	store   string
	metrics metrics
}

func tailCommand(a *app) *cobra.Command {
	t := &tail{app: a, lines: 10}
	cmd := &cobra.Command{
		Use:   "tail ADDR",
		Short: "Show the newest messages of a stream, and go on with new ones",
		Long: `Show the newest messages of a stream, oldest first; when it has less than --lines,
also those of its archive. With --follow it goes on
with what is appended until it is interrupted or --timeout is over; the stream
need not exist yet then. Nothing is acknowledged and nobody else gets less: to
share the work use 'pipeline consume'.

Of a stream with partitions, the newest of all of them are shown in the order of
their ids, as range does; what is appended then is shown as it comes.`,
		Example: `  pipeline tail shop/orders -n 3
  pipeline tail shop/orders --follow`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if t.addr, err = tier.ParseAddress(args[0]); err != nil {
				return err
			}
			if t.metrics.addr != "" && !t.follow {
				return usagef("--metrics %s: it needs --follow, without it the command ends at once", t.metrics.addr)
			}
			return t.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.VarP(number(&t.lines, 0, math.MaxInt), "lines", "n", "how many messages to begin with")
	f.BoolVarP(&t.follow, "follow", "f", false, "go on with what is appended")
	storeFlag(cmd, &t.store)
	t.metrics.flag(cmd)
	return cmd
}

func (t *tail) run(ctx context.Context) error {
	stop, err := t.metrics.serve(ctx, t.app)
	if err != nil {
		return err
	}
	defer stop()
	t.app.logs = t.follow
	return t.app.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		all, err := addresses(ctx, client, t.addr)
		if err != nil {
			return err
		}
		if all[0] != t.addr {
			return t.parts(ctx, client, all)
		}
		r, err := newPartReader(ctx, client, t.addr, t.store)
		if err != nil {
			return err
		}
		out := t.app.sink()
		next, err := t.last(ctx, r, out)
		if err == nil && t.follow {
			defer t.app.watch(ctx, func(ctx context.Context) error {
				_, err := r.Last(ctx, 0)
				return err
			})()
			err = t.goOn(ctx, r, out, next)
		}
		return err
	})
}

// last shows the newest messages and returns the address behind them.
func (t *tail) last(ctx context.Context, r partReader, out *sink) (next codec.EntryID, err error) {
	records, err := r.Last(ctx, t.lines)
	if errors.Is(err, stream.ErrNoStream) && t.follow {
		t.app.note("%s does not exist yet: waiting for it", t.addr)
		return next, nil
	}
	if err != nil {
		return next, err
	}
	for i := range records {
		if next = records[i].Addr.Next(); t.lines == 0 {
			continue
		}
		if err := out.put(&records[i], 0); err != nil {
			return next, err
		}
	}
	return next, out.flush()
}

// goOn shows what is appended, until ctx ends.
func (t *tail) goOn(ctx context.Context, r partReader, out *sink, next codec.EntryID) error {
	for record, err := range r.Tail(ctx, next) {
		if err == nil {
			err = out.show(&record)
		}
		if err != nil {
			return err
		}
	}
	if t.app.done == 0 {
		return context.Cause(ctx)
	}
	return nil
}
