package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// history is the range command's flags.
type history struct {
	app      *app
	addr     tier.Address
	from, to place
	limit    int
	count    bool
	key      string // of a keyed stream: its messages only
	version  int    // from which on
	store    string // of the archive
}

func rangeCommand(a *app) *cobra.Command {
	h := &history{app: a}
	cmd := &cobra.Command{
		Use:   "range ADDR",
		Short: "Read the history of a stream, or a part of it",
		Long: `Read the history of a stream, oldest first, both ends included: also what lies in
its archive, when its policy names one or --store does.

A PLACE is an id (ORD0STCa4O4Feq), an entry (1795957200000-0, or with the
message of a pack 1795957200000-99#3), a time by the server's clock
(2026-11-29T13:00:00Z, or in UTC: 2026-11-29, 2026-11-29 13:00), or how long ago
(90s, 15m, 2h, 7d). An entry without # is the whole pack. A day, a minute or a
second given to --to is included to its end.

Of a stream with partitions all are read at once, in the order of their ids: by
the servers' milliseconds, in the same one by the partitions' node numbers, and in
a partition by its own order, which is that of each key. Places are times then;
a partition, shop/orders@3, has ids and entries of its own. --key reads the
partition of the key.`,
		Example: `  pipeline range shop/orders --from 1h
  pipeline range shop/orders --from 2026-11-28 --to 2026-11-28 --count
  pipeline range bank/accounts --key ann`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if h.addr, err = tier.ParseAddress(args[0]); err != nil {
				return err
			}
			if h.key != "" && (h.from.text != "" || h.to.text != "") || h.key == "" && cmd.Flags().Changed("from-version") {
				return usagef("--key reads by versions: with it, give --from-version, and without it --from and --to")
			}
			if h.from.from().Ms > h.to.to().Ms {
				return h.behind()
			}
			return a.withClient(cmd.Context(), h.run)
		},
	}
	h.from.flag(cmd, "from", "where to begin (default: at the oldest message)")
	h.to.flag(cmd, "to", "where to end (default: at the newest message)")
	cmd.Flags().Var(number(&h.limit, 1, math.MaxInt), "limit", "read this many messages at most")
	cmd.Flags().Var(word(&h.key, "KEY", codec.MaxKey), "key", "read the messages of this key, with their versions (keyed streams)")
	h.version = 1
	cmd.Flags().Var(number(&h.version, 1, math.MaxInt), "from-version", "with --key: the version to begin at")
	storeFlag(cmd, &h.store)
	cmd.Flags().BoolVar(&h.count, "count", false, "print only how many messages there are")
	return cmd
}

func (h *history) run(ctx context.Context, client *tier.Client) error {
	all, err := addresses(ctx, client, h.addr)
	if err != nil {
		return err
	}
	if all[0] != h.addr {
		return h.parts(ctx, client, all)
	}
	return h.one(ctx, client)
}

// one reads a stream without partitions, or one of them.
func (h *history) one(ctx context.Context, client *tier.Client) error {
	r, err := newPartReader(ctx, client, h.addr, h.store)
	if err != nil {
		return err
	}
	for _, p := range []*place{&h.from, &h.to} {
		if err := errors.Join(p.countBack(ctx, client, h.addr), p.belongs(ctx, client, h.addr)); err != nil {
			return err
		}
	}
	if err := errors.Join(h.from.enter(ctx, r, true), h.to.enter(ctx, r, false)); err != nil {
		return err
	}
	if h.from.from().Compare(h.to.to()) > 0 {
		return h.behind()
	}
	if h.key != "" {
		return h.show(r.ReadKey(ctx, h.key, uint64(h.version)))
	}
	return h.show(unversioned(r.Range(ctx, h.from.from(), h.to.to())))
}

// parts reads the partitions of a stream, or that of a key.
func (h *history) parts(ctx context.Context, client *tier.Client, all []tier.Address) error {
	if h.key != "" {
		h.addr = all[codec.Partition(h.key, len(all))]
		return h.one(ctx, client)
	}
	for _, p := range []*place{&h.from, &h.to} {
		if err := p.isTimeOf(ctx, client, h.addr, all); err != nil {
			return err
		}
	}
	readers, err := partReaders(ctx, client, all, h.store)
	if err != nil {
		return err
	}
	return h.show(unversioned(merged(ctx, readers, h.from.from(), h.to.to())))
}

func (h *history) behind() error {
	return usagef("--from %q is behind --to %q", h.from.text, h.to.text)
}

// show shows messages, or only their number.
func (h *history) show(messages iter.Seq2[stream.Versioned, error]) error {
	n, err := h.read(messages)
	if err == nil && h.count {
		return h.app.print(strconv.Itoa(n) + "\n")
	}
	return err
}

// read shows the messages, or only counts them.
func (h *history) read(messages iter.Seq2[stream.Versioned, error]) (n int, err error) {
	out := h.app.sink()
	defer func() { err = cmp.Or(err, out.flush()) }()
	if h.count || !isTerminal(h.app.out) {
		h.app.startProgress(int64(cmp.Or(h.limit, -1)), "message")
		defer h.app.endProgress()
	}
	for v, err := range messages {
		if err == nil && !h.count {
			err = out.put(&v.Record, v.Version)
		}
		if err != nil {
			return n, err
		}
		if n++; n%1000 == 0 {
			h.app.progress.Load().at(int64(n), n)
		}
		if n == h.limit {
			break
		}
	}
	return n, nil
}

// unversioned are messages that were not read by key.
func unversioned(records iter.Seq2[codec.Record, error]) iter.Seq2[stream.Versioned, error] {
	return func(yield func(stream.Versioned, error) bool) {
		for record, err := range records {
			if !yield(stream.Versioned{Record: record}, err) {
				return
			}
		}
	}
}
