package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// restoring is the flags of archive restore.
type restoring struct {
	app     *app
	addr    tier.Address
	part    bool // the address is that of a partition
	store   string
	from    place
	confirm confirm
}

func archiveRestore(a *app) *cobra.Command {
	r := &restoring{app: a, confirm: confirm{app: a}}
	cmd := &cobra.Command{
		Use:   "restore ADDR",
		Short: "Put what a stream has lost back into it, out of its archive",
		Long: `Put the entries of the archive that a stream has no more back into it, with the ids
that they had: all, when the stream is empty or the server knows nothing of it, or
those above its newest, when it has lost its end. Stop what appends to it first: when
an id is given meanwhile, nothing is put back.

It ends where the archive does, since a stream with a hole in it would be read as if
it were whole; --from leaves out what is older. What is below entries that the stream
has is not put back: 'pipeline range' and 'pipeline replay' read it where it is. Cut
off, the same command goes on; done once, it does nothing more. Keyed streams, whose
versions would be wrong, are refused, and so is what a policy would let go at once.`,
		Example: `  pipeline archive restore shop/orders --dry-run
  pipeline archive restore shop/orders --store file:///tmp/archive --from 7d --yes`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.addr, err = tier.ParseAddress(args[0]); err != nil {
				return err
			}
			r.part = strings.Contains(args[0], "@")
			if err := r.confirm.possible(); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), r.run)
		},
	}
	r.from.flag(cmd, "from", "where to begin (default: with the oldest of the archive)")
	storeFlag(cmd, &r.store)
	r.confirm.flags(cmd)
	return cmd
}

func (r *restoring) run(ctx context.Context, client *tier.Client) error {
	all, err := addresses(ctx, client, r.addr)
	if err != nil {
		return err
	}
	if all[0] != r.addr {
		return usagef("%s has partitions: restore one after another, as in %s@0", r.addr, r.addr)
	}
	if err := r.marked(ctx, client); err != nil {
		return err
	}
	archived, err := openArchive(ctx, client, r.addr, r.store)
	if err != nil {
		return err
	}
	if archived == nil {
		return noArchive(r.addr, r.addr)
	}
	segments, err := archived.Segments(ctx)
	if err != nil {
		return err
	}
	if segments.Last().IsZero() {
		return notFound(fmt.Sprintf("%s: the store has no archive of it: check its address (--store); that of a stream with partitions is one of each, as in %s@0", r.addr, r.addr))
	}
	if err := r.from.countBack(ctx, client, r.addr); err != nil {
		return err
	}
	if err := r.from.belongs(ctx, client, r.addr); err != nil {
		return err
	}
	plan, err := retention.PlanRestore(ctx, client, retention.RestoreConfig{
		Address: r.addr.String(), Archive: archived, From: r.from.from(), Progress: func(n int64) { r.app.progress.Load().at(n, int(n)) },
	})
	if err != nil {
		return err
	}
	if plan.Entries > 0 && !r.confirm.dryRun {
		if err := r.confirm.asked(ctx, r.text(plan, "go back")+"\n", r.addr.String()); err != nil {
			return err
		}
		r.app.startProgress(plan.Entries, "entry")
	}
	if !r.confirm.dryRun {
		err = plan.Run(ctx)
		r.app.endProgress()
		if err != nil {
			return err
		}
	}
	return r.tell(plan)
}

// marked refuses a partition of a scope that has none: restored there, the stream would keep the scope from getting them.
func (r *restoring) marked(ctx context.Context, client *tier.Client) error {
	if !r.part {
		return nil
	}
	of, k := r.addr.Scope[:strings.LastIndexByte(r.addr.Scope, '.')], r.addr.Scope[strings.LastIndexByte(r.addr.Scope, '.')+1:]
	layout, err := stream.Partitions(ctx, client, of)
	if err == nil && layout.Count == 0 {
		err = usagef("scope %s has no partitions, of which this would be number %s: give it as many as it had first, 'pipeline scope partition %s --count N'", of, k, of)
	}
	return err
}

// text says what goes back.
func (r *restoring) text(plan *retention.Restore, does string) string {
	return fmt.Sprintf("%s of %s, %s of messages, %s: %s to %s", count(plan.Entries, "entry", "entries"), r.addr, show.Number(plan.Messages), does, plan.First, plan.Last)
}

func (r *restoring) tell(plan *retention.Restore) error {
	if r.app.json() {
		first, last := "", ""
		if plan.Entries > 0 {
			first, last = plan.First.String(), plan.Last.String()
		}
		return r.app.printObject(struct {
			Stream   string `json:"stream"`
			Entries  int64  `json:"entries"`
			Messages int64  `json:"messages"`
			First    string `json:"first,omitempty"`
			Last     string `json:"last,omitempty"`
			Restored bool   `json:"restored"`
		}{r.addr.String(), plan.Entries, plan.Messages, first, last, plan.Entries > 0 && !r.confirm.dryRun})
	}
	switch {
	case plan.Entries == 0:
		r.app.note("%s: the archive has nothing above what the stream has", r.addr)
		return nil
	case r.confirm.dryRun:
		return r.app.print(r.text(plan, "would go back") + "\n")
	}
	return r.app.print(r.text(plan, "are back") + "\n")
}

// storeFlag is where the archive is of what a command reads.
func storeFlag(cmd *cobra.Command, store *string) {
	cmd.Flags().StringVar(store, "store", "", "the store of the archive, as in file:///path or s3://bucket/prefix (default: the policy's)")
}

// openArchive opens the archive of a stream at a store, or, when none is given, at that of its policy; nil: it has none.
func openArchive(ctx context.Context, client *tier.Client, addr tier.Address, store string) (*archive.Reader, error) {
	given := store != ""
	if !given {
		policy, err := stream.RetentionOf(ctx, client, addr.String())
		if absent(err) || err == nil && policy.Archive == "" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		store = policy.Archive
	}
	opened, err := openStore(ctx, store)
	if err != nil && given {
		return nil, &usageError{err}
	}
	if err != nil {
		return nil, fmt.Errorf("the archive of %s, %s: %w", addr, store, err)
	}
	return archive.NewReader(opened, archive.ReaderConfig{Address: addr.String()})
}
