package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func retentionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Say what of a stream may go, see who holds it, and let it go",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(retentionList(a), retentionSet(a), retentionRemove(a), retentionPlan(a), retentionRun(a))
	return cmd
}

// wantsScope is the argument of commands about a scope, or a stream of it.
const wantsScope = "a scope, or the address of a stream, as in shop or shop/orders"

// scoped is a scope, or one stream of it.
type scoped struct{ scope, stream string }

func parseScoped(s string) (scoped, error) {
	if !strings.Contains(s, "/") {
		return scoped{scope: s}, tier.CheckName("scope", s)
	}
	addr, err := tier.ParseAddress(s)
	return scoped{addr.Scope, addr.Stream}, err
}

func (s scoped) String() string {
	if s.stream == "" {
		return s.scope
	}
	return s.scope + "/" + s.stream
}

// retained lists the streams that have a policy, in each partition.
func (s scoped) retained(ctx context.Context, client *tier.Client) (list []stream.Retained, err error) {
	scopes, err := parts(ctx, client, s.scope)
	if err != nil {
		return nil, err
	}
	for _, scope := range scopes {
		of, err := stream.Retentions(ctx, client, scope)
		if err != nil {
			return nil, err
		}
		for _, r := range of {
			if s.stream == "" || s.stream == r.Address.Stream {
				list = append(list, r)
			}
		}
	}
	return list, nil
}

func retentionList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ls SCOPE|ADDR",
		Short: "List the policies of a scope, and what they have taken away",
		Long: `List the streams of a scope that have a policy. ENTRIES is how many there are (a
pack is one), TRIMMED how many policies ever took away, DROPPED how many of these a
hard cap took from groups and cursors that had not settled them, each counted for
itself; JSON says from whom.`,
		Example: `  pipeline retention ls shop`,
		Args:    arguments(1, 1, wantsScope),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := parseScoped(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return a.retentions(ctx, client, of)
			})
		},
	}
}

func (a *app) retentions(ctx context.Context, client *tier.Client, of scoped) error {
	list, err := of.retained(ctx, client)
	if err != nil {
		return err
	}
	a.done = len(list)
	if len(list) == 0 {
		a.note("%s has no policies, and keeps everything: 'pipeline retention set' makes one", of)
		return nil
	}
	rows := [][]string{{"STREAM", ">ENTRIES", ">TRIMMED", ">DROPPED", "POLICY"}}
	for _, r := range list {
		h, err := stream.HoldingsOf(ctx, client, r.Address.String())
		if err != nil {
			return err
		}
		if a.json() {
			if err := a.printObject(retainedJSON(&r, &h)); err != nil {
				return err
			}
			continue
		}
		text := r.Policy.String()
		if r.Err != nil {
			text = oneLine(r.Err)
		}
		rows = append(rows, []string{r.Address.String(), show.Number(h.Length), show.Number(h.Trimmed), show.Number(sum(h.Dropped)), text})
	}
	if a.json() {
		return nil
	}
	return a.print(show.Table(rows))
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// policyJSON is a policy; what it does not say is left out.
type policyJSON struct {
	MaxLength int64   `json:"max_length,omitempty"`
	MaxAge    float64 `json:"max_age_seconds,omitempty"`
	MaxBytes  int64   `json:"max_bytes,omitempty"`
	Settled   bool    `json:"settled,omitempty"`
	Exact     bool    `json:"exact,omitempty"`
	HardCap   int64   `json:"hard_cap,omitempty"`
	Retire    float64 `json:"retire_after_seconds,omitempty"`

	Archive      string  `json:"archive,omitempty"`
	SegmentBytes int64   `json:"segment_bytes,omitempty"`
	SegmentAge   float64 `json:"segment_age_seconds,omitempty"`
	ArchiveAge   float64 `json:"archive_age_seconds,omitempty"`
}

func policyOf(r stream.Retention) policyJSON {
	return policyJSON{r.MaxLength, r.MaxAge.Seconds(), r.MaxBytes, r.Settled, r.Exact, r.HardCap, r.Retire.Seconds(), r.Archive, r.SegmentBytes, r.SegmentAge.Seconds(), r.ArchiveAge.Seconds()}
}

// droppedJSON names the archive, which has no name in the packages below.
func droppedJSON(m map[string]int64) map[string]int64 {
	named := map[string]int64{}
	for name, n := range m {
		named[holderName(name)] = n
	}
	return named
}

func holderName(name string) string {
	if name == "" {
		return "(archive)" // which no group can be called
	}
	return name
}

func retainedJSON(r *stream.Retained, h *stream.Holdings) any {
	problem := ""
	if r.Err != nil {
		problem = oneLine(r.Err)
	}
	return struct {
		Stream  string           `json:"stream"`
		Policy  policyJSON       `json:"policy"`
		Error   string           `json:"error,omitempty"`
		Entries int64            `json:"entries"`
		Trimmed int64            `json:"trimmed"`
		Dropped map[string]int64 `json:"dropped"`
	}{r.Address.String(), policyOf(r.Policy), problem, h.Length, h.Trimmed, droppedJSON(h.Dropped)}
}
