package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/retention/archive/s3"
	"github.com/echomq/pipeline/tier"
)

func archiveCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Move what is old into an object store, and look at what is there",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(archiveRun(a), archiveList(a), archiveVerify(a), archiveRestore(a))
	return cmd
}

// openStore opens the store at an address.
func openStore(_ context.Context, address string) (archive.Store, error) {
	scheme, _, _ := strings.Cut(address, "://")
	switch scheme {
	case "file":
		return archive.OpenDirectory(address)
	case "s3":
		return s3.Open(address)
	}
	return nil, fmt.Errorf("%w: want file:///path or s3://bucket/prefix", archive.ErrStore)
}

// archives are the archives of a stream, one of each partition.
type archives struct {
	app   *app
	store string // empty: that of the policy
}

func (r *archives) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.store, "store", "", "the store, as in file:///path or s3://bucket/prefix (default: the policy's); with it no server is asked")
}

// each calls f with the reader of each archive. With a store no server is asked: there may be none any more.
func (r *archives) each(ctx context.Context, address string, f func(context.Context, tier.Address, *archive.Reader) error) error {
	addr, err := tier.ParseAddress(address)
	if err != nil {
		return err
	}
	if r.store != "" {
		return r.open(ctx, nil, addr, addr, f)
	}
	return r.app.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		all, err := addresses(ctx, client, addr)
		for _, one := range all {
			if err == nil {
				err = r.open(ctx, client, one, addr, f)
			}
		}
		return err
	})
}

// open calls f with the reader of the archive of a stream, or of one of its partitions.
func (r *archives) open(ctx context.Context, client *tier.Client, one, addr tier.Address, f func(context.Context, tier.Address, *archive.Reader) error) error {
	reader, err := openArchive(ctx, client, one, r.store)
	if err == nil && reader == nil {
		err = noArchive(one, addr)
	}
	if err != nil {
		return err
	}
	return f(ctx, one, reader)
}

// noArchive says of a stream, or of a partition of one, that its policy names no archive.
func noArchive(one, addr tier.Address) error {
	return notFound(fmt.Sprintf("%s has no archive: name one, --store URL, or have it made, 'pipeline retention set %s --archive URL'", one, addr))
}

func archiveList(a *app) *cobra.Command {
	r := &archives{app: a}
	cmd := &cobra.Command{
		Use:   "ls ADDR",
		Short: "List the segments of a stream's archive",
		Example: `  pipeline archive ls shop/orders
  pipeline archive ls shop/orders --store file:///tmp/archive`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.each(cmd.Context(), args[0], r.list)
		},
	}
	r.flag(cmd)
	return cmd
}

func (r *archives) list(ctx context.Context, addr tier.Address, reader *archive.Reader) error {
	segments, err := reader.Segments(ctx)
	if err != nil {
		return err
	}
	if len(segments.List) == 0 {
		r.app.note("%s has no segments yet", addr)
		return nil
	}
	t := segmentTable{app: r.app, address: addr}
	for _, s := range segments.List {
		if err := t.add(archive.Checked{Segment: s}); err != nil {
			return err
		}
	}
	return t.end()
}

func archiveVerify(a *app) *cobra.Command {
	r := &archives{app: a}
	cmd := &cobra.Command{
		Use:   "verify ADDR",
		Short: "Read a stream's archive, and say what is missing or damaged",
		Long: `Read every object of a stream's archive, and compare it with what was written. What
is missing, cut or changed, gaps, overlaps, and objects that the manifest does not
list are shown, with the entries that they concern; then the exit code is 1.`,
		Example: `  pipeline archive verify shop/orders`,
		Args:    arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.each(cmd.Context(), args[0], r.verify)
		},
	}
	r.flag(cmd)
	return cmd
}

func (r *archives) verify(ctx context.Context, addr tier.Address, reader *archive.Reader) error {
	t := segmentTable{app: r.app, address: addr}
	problems := 0
	for c, err := range reader.Verify(ctx, "") {
		if err == nil {
			err = t.add(c)
		}
		if err != nil {
			return err
		}
		if c.Problem != "" {
			problems++
			if !r.app.json() {
				r.app.warn("%s to %s: %s (%s)", c.First, c.Last, c.Problem, c.Name)
			}
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	if problems > 0 {
		return fmt.Errorf("%s: %s with the archive", addr, count(int64(problems), "problem", "problems"))
	}
	if t.n == 0 {
		return notFound(fmt.Sprintf("%s: the store has no archive of it: check its address (--store), or that something was archived: 'pipeline archive run %s'", addr, addr))
	}
	r.app.note("%s: %s, nothing is wrong", addr, count(int64(t.n), "segment", "segments"))
	return nil
}

// segmentTable shows segments.
type segmentTable struct {
	app     *app
	address tier.Address
	n       int
	rows    [][]string
}

func (t *segmentTable) add(c archive.Checked) error {
	t.n++
	t.app.done++
	if t.app.json() {
		return t.app.printObject(struct {
			Stream   string `json:"stream"`
			First    string `json:"first"`
			Last     string `json:"last"`
			Entries  int64  `json:"entries"`
			Messages int64  `json:"messages"`
			Bytes    int64  `json:"bytes"`
			Object   string `json:"object"`
			Problem  string `json:"problem,omitempty"`
		}{t.address.String(), c.First.String(), c.Last.String(), c.Entries, c.Messages, c.Bytes, c.Name, c.Problem})
	}
	state := "ok"
	if c.Problem != "" {
		state = "bad"
	}
	t.rows = append(t.rows, []string{c.First.String(), c.Last.String(), dayTime(c.First), show.Number(c.Entries), show.Number(c.Messages), show.Bytes(c.Bytes), state})
	return nil
}

func (t *segmentTable) end() error {
	if len(t.rows) == 0 {
		return nil
	}
	return t.app.print(show.Table(append([][]string{{"FIRST", "LAST", "SINCE", ">ENTRIES", ">MESSAGES", ">SIZE", "STATE"}}, t.rows...)))
}

// archiving is a run of the archive.
type archiving struct {
	app    *app
	of     scoped
	settle time.Duration
	temp   string
}

func archiveRun(a *app) *cobra.Command {
	r := &archiving{app: a}
	cmd := &cobra.Command{
		Use:   "run SCOPE|ADDR",
		Short: "Archive what is old enough, now",
		Long: `Archive the streams of a scope, or one stream, whose policy has an archive: all
entries that are older than --settle, whatever the policy says of the size and the
age of segments. Nothing is taken from the streams: 'pipeline retention run' does,
and with --follow it archives as well.`,
		Example: `  pipeline archive run shop/orders`,
		Args:    arguments(1, 1, wantsScope),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.of, err = parseScoped(args[0]); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), r.run)
		},
	}
	cmd.Flags().Var(age(&r.settle), "settle", "how old an entry is at least (default 10s); shorter, a failover may leave more in the archive than in the stream")
	cmd.Flags().StringVar(&r.temp, "temp", "", "where segments are written before they go to the store (default: the system's)")
	return cmd
}

func (r *archiving) run(ctx context.Context, client *tier.Client) error {
	scopes, err := parts(ctx, client, r.of.scope)
	if err != nil {
		return err
	}
	var failed error
	rows := [][]string{{"STREAM", ">SEGMENTS", ">ENTRIES", ">MESSAGES", ">SIZE"}}
	for _, scope := range scopes {
		sweeper, err := retention.NewSweeper(client, retention.SweeperConfig{
			Scope: scope, Stream: r.of.stream, Stores: openStore, Settle: r.settle, Temp: r.temp,
		})
		if err != nil {
			return err
		}
		list, err := sweeper.Archive(ctx)
		if err != nil {
			return err
		}
		for _, did := range list {
			r.app.done++
			if did.Err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", did.Address, did.Err))
			}
			if r.app.json() {
				if err := r.app.printObject(archivedJSON(&did)); err != nil {
					return err
				}
			}
			rows = append(rows, []string{did.Address.String(), show.Number(int64(did.Segments)), show.Number(did.Entries), show.Number(did.Messages), show.Bytes(did.Bytes)})
		}
	}
	if len(rows) == 1 {
		r.app.note("%s has nothing that is archived: 'pipeline retention set ADDR --archive URL' has it so", r.of)
	} else if !r.app.json() {
		failed = errors.Join(r.app.print(show.Table(rows)), failed)
	}
	return failed
}

func archivedJSON(did *retention.Archived) any {
	problem := ""
	if did.Err != nil {
		problem = oneLine(did.Err)
	}
	return struct {
		Stream   string `json:"stream"`
		Segments int    `json:"segments"`
		Entries  int64  `json:"entries"`
		Messages int64  `json:"messages"`
		Bytes    int64  `json:"bytes"`
		Deleted  int    `json:"deleted"`
		Error    string `json:"error,omitempty"`
	}{did.Address.String(), did.Segments, did.Entries, did.Messages, did.Bytes, did.Deleted, problem}
}
