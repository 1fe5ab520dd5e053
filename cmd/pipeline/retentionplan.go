package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func retentionPlan(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "plan SCOPE|ADDR",
		Short: "Show what would go, and who holds the rest",
		Long: `Show, of the streams of a scope that have a policy, or of one stream, what would go
now, what stays only because somebody needs it, what a hard cap would drop, and who
needs how many entries, from which on and how old that is. A group that nobody
consumes any more holds entries for ever: it can be deleted. Nothing is changed. It
counts a million entries at most, then it says "at least".`,
		Example: `  pipeline retention plan shop/orders`,
		Args:    arguments(1, 1, wantsScope),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := parseScoped(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return a.plans(ctx, client, of)
			})
		},
	}
}

func (a *app) plans(ctx context.Context, client *tier.Client, of scoped) error {
	var all []tier.Address
	if of.stream != "" { // also without a policy
		var err error
		if all, err = addresses(ctx, client, tier.Address{Scope: of.scope, Stream: of.stream}); err != nil {
			return err
		}
	} else {
		list, err := of.retained(ctx, client)
		if err != nil {
			return err
		}
		for _, r := range list {
			all = append(all, r.Address)
		}
		if len(list) == 0 {
			a.note("%s has no policies, and keeps everything: 'pipeline retention set' makes one", of)
		}
	}
	for _, addr := range all {
		o, err := retention.Look(ctx, client, addr.String())
		if err != nil {
			return err
		}
		a.done++
		if err := a.printPlan(&o); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printPlan(o *retention.Outlook) error {
	if a.json() {
		return a.printObject(planJSON(o))
	}
	policy := o.Policy.String()
	if o.Policy == (stream.Retention{}) {
		policy = "no policy"
	}
	least := ""
	if o.AtLeast {
		least = "at least "
	}
	lines := []string{fmt.Sprintf("%s: %s; %s", o.Address, policy, partText("", retention.Part{Entries: o.Length, Bytes: o.Bytes}))}
	lines = append(lines, partText("would go: "+least, o.Goes))
	if o.Held.Entries > 0 {
		lines = append(lines, partText("would go, but is held: "+least, o.Held))
	}
	if o.Drops.Entries > 0 {
		lines = append(lines, partText("would be dropped, though it is held: "+least, o.Drops))
	}
	text := strings.Join(lines, "\n  ") + "\n"
	if len(o.Claims) > 0 {
		rows := [][]string{{"HELD BY", "WHY", ">ENTRIES", ">SIZE", ">AGE", "FROM"}}
		for _, c := range o.Claims {
			rows = append(rows, []string{holderName(c.Name), c.Why, show.Number(c.Entries), show.Bytes(c.Bytes), show.Duration(c.Age), dayTime(c.First)})
		}
		text += show.Table(narrowed(rows, a.width(), 1))
	}
	return a.print(text)
}

func partText(before string, p retention.Part) string {
	text := before + count(p.Entries, "entry", "entries")
	if p.Bytes > 0 {
		text += " (" + show.Bytes(p.Bytes) + ")"
	}
	return text
}

type partJSON struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

type claimJSON struct {
	Holder string  `json:"holder"`
	Why    string  `json:"why"`
	First  string  `json:"first"`
	Age    float64 `json:"age_seconds"`
	partJSON
}

func planJSON(o *retention.Outlook) any {
	claims := []claimJSON{}
	for _, c := range o.Claims {
		claims = append(claims, claimJSON{holderName(c.Name), c.Why, c.First.String(), c.Age.Seconds(), partJSON(c.Part)})
	}
	return struct {
		Stream  string      `json:"stream"`
		Policy  policyJSON  `json:"policy"`
		Entries int64       `json:"entries"`
		Bytes   int64       `json:"bytes"`
		Goes    partJSON    `json:"goes"`
		Held    partJSON    `json:"held"`
		Drops   partJSON    `json:"drops"`
		AtLeast bool        `json:"at_least"`
		Holders []claimJSON `json:"holders"`
	}{o.Address.String(), policyOf(o.Policy), o.Length, o.Bytes, partJSON(o.Goes), partJSON(o.Held), partJSON(o.Drops), o.AtLeast, claims}
}
