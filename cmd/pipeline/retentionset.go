package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// policyFlags are a policy as the command line has it.
type policyFlags struct {
	length, cap    int
	age, retire    time.Duration
	bytes          int64
	settled, exact bool

	archive                string
	segment                int64
	segmentAge, archiveAge time.Duration
}

func retentionSet(a *app) *cobra.Command {
	p := &policyFlags{}
	cmd := &cobra.Command{
		Use:   "set ADDR",
		Short: "Declare what of a stream may go",
		Long: `Declare what of a stream may go, in place of what was declared before. An entry goes
when one of --max-length, --max-age, --max-bytes and --settled says so and nobody
needs it: every group was given it and has settled it, it waits for no other try,
every cursor is past it. --settled lets all such entries go.

--hard-cap N is for memory that must not be filled: of more entries than N the
oldest go whoever needs them, and who lost how many is counted. --retire-after DUR
deletes groups with something to do that nobody was heard of for so long.

--archive URL has a stream's entries archived, in segments of about --segment-bytes
and at the latest after --segment-age: what is not in the store does not go. The URL
is file:///path, or s3://bucket/prefix with ?region= and ?endpoint=. It holds no
credentials: the process that archives has them ('pipeline retention run --follow').

Nothing goes by this command: 'pipeline retention plan' shows what would, and
'pipeline retention run' takes it away.`,
		Example: `  pipeline retention set shop/orders --max-age 7d --max-length 1000000
  pipeline retention set shop/tasks --settled --exact`,
		Args: arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			policy := stream.Retention{
				MaxLength: int64(p.length), MaxAge: p.age, MaxBytes: p.bytes, Settled: p.settled, Exact: p.exact, HardCap: int64(p.cap), Retire: p.retire,
				Archive: p.archive, SegmentBytes: p.segment, SegmentAge: p.segmentAge, ArchiveAge: p.archiveAge,
			}
			if policy == (stream.Retention{}) {
				return usagef("want what may go: --max-length, --max-age, --max-bytes, --settled, --hard-cap, --retire-after or --archive ('pipeline retention rm' ends a policy)")
			}
			if err := policy.Validate(); err != nil {
				return &usageError{err}
			}
			if p.archive != "" {
				if _, err := openStore(cmd.Context(), p.archive); errors.Is(err, archive.ErrStore) {
					return &usageError{err}
				}
			}
			return a.declareRetention(cmd.Context(), args[0], policy)
		},
	}
	f := cmd.Flags()
	f.Var(number(&p.length, 1, math.MaxInt), "max-length", "keep this many entries, the newest")
	f.Var(age(&p.age), "max-age", "keep entries for this long, as in 36h or 7d")
	f.Var(size(&p.bytes), "max-bytes", "keep what fits into this much of the server's memory, as in 512MiB")
	f.BoolVar(&p.settled, "settled", false, "let go what everybody is through with")
	f.BoolVar(&p.exact, "exact", false, "to the last entry; else up to about 100 more stay, which costs less")
	f.Var(number(&p.cap, 1, math.MaxInt), "hard-cap", "of more entries than this drop the oldest, whoever needs them")
	f.Var(age(&p.retire), "retire-after", "delete groups with something to do whose consumers were silent for so long")
	f.StringVar(&p.archive, "archive", "", "archive to this store, as in s3://bucket/prefix or file:///path")
	f.Var(size(&p.segment), "segment-bytes", "of the server's memory that a segment of the archive is made of (default 64MiB)")
	f.Var(age(&p.segmentAge), "segment-age", "make a segment at the latest when its first entry is so old (default 1h)")
	f.Var(age(&p.archiveAge), "archive-age", "delete segments from the store whose last entry is so old")
	return cmd
}

func retentionRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rm ADDR",
		Short:   "Remove the policy of a stream, which keeps everything then",
		Example: `  pipeline retention rm shop/orders`,
		Args:    arguments(1, 1, "the address of a stream, as in shop/orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.declareRetention(cmd.Context(), args[0], stream.Retention{})
		},
	}
}

// declareRetention declares the policy in each partition.
func (a *app) declareRetention(ctx context.Context, address string, policy stream.Retention) error {
	addr, err := tier.ParseAddress(address)
	if err != nil {
		return err
	}
	return a.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		all, err := addresses(ctx, client, addr)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := stream.SetRetention(ctx, client, one.String(), policy); err != nil {
				return err
			}
			if err := a.printDeclared(one, policy); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *app) printDeclared(addr tier.Address, policy stream.Retention) error {
	if !a.json() {
		if policy == (stream.Retention{}) {
			return a.print(fmt.Sprintf("%s keeps everything\n", addr))
		}
		return a.print(fmt.Sprintf("%s: %s\n", addr, policy))
	}
	return a.printObject(struct {
		Stream string     `json:"stream"`
		Policy policyJSON `json:"policy"`
	}{addr.String(), policyOf(policy)})
}

// age is a length of time in whole milliseconds.
func age(p *time.Duration) *value {
	return &value{kind: "DUR", set: func(s string) (err error) {
		if *p, err = when.ParseDuration(s); err == nil && *p%time.Millisecond != 0 {
			err = errors.New("want whole milliseconds")
		}
		return err
	}}
}

// size is a number of bytes, with a unit or without.
func size(p *int64) *value {
	return &value{kind: "SIZE", set: func(s string) error {
		shift := 0
		for unit, by := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40} {
			if digits, ok := strings.CutSuffix(s, unit); ok {
				s, shift = digits, by
			}
		}
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64>>shift {
			return errors.New("want a number of bytes, above 0, as in 1048576, 512MiB or 2GiB")
		}
		*p = n << shift
		return nil
	}}
}
