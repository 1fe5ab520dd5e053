package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

func checkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check SCOPE",
		Short: "Audit what must hold in a scope; exit code 1 with findings",
		Long: `Audit what must hold in a scope: that its number and its brands say the same
wherever they stand, that keys hold their types, that groups and their consumers
are recorded; and of a queue, that each job is in one state, each active one is
leased, and nobody waits for a child that is lost, or that nobody tells of.
Nothing is changed. The exit code is 1 when something does not hold.`,
		Args: arguments(1, 1, "the name of a scope"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := tier.CheckName("scope", args[0]); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				return a.check(ctx, client, args[0])
			})
		},
	}
}

func (a *app) check(ctx context.Context, client *tier.Client, scope string) error {
	err := stream.Check(ctx, client, scope)
	if err != nil && len(tier.Findings(err)) == 0 {
		return err
	}
	jobs, scanErr := client.KeysBelow(ctx, strings.TrimSuffix(tier.Queue(scope).QueueKey(), ":queue"))
	if scanErr != nil {
		return scanErr
	}
	if len(jobs) > 0 {
		late, stuckErr := undelivered(ctx, client, scope)
		err = errors.Join(append(late, err, queue.Check(ctx, client, scope), stuckErr)...)
	}
	if err == nil && len(jobs) == 0 { // a queue needs no stream
		if err := a.mustExist(ctx, client, scope); err != nil {
			return err
		}
	}
	if err == nil {
		a.note("scope %s: everything holds", scope)
		return nil
	}
	findings := tier.Findings(err)
	if len(findings) == 0 {
		return err
	}
	for _, f := range findings {
		if err := a.printFinding(f); err != nil {
			return err
		}
	}
	return fmt.Errorf("scope %s: %s: see what wrote to these keys, or restore them from a backup", scope, show.Count(len(findings), "finding"))
}

func (a *app) mustExist(ctx context.Context, client *tier.Client, scope string) error {
	node, err := client.StoredNode(ctx, scope)
	if err == nil && node < 0 {
		err = notFound(fmt.Sprintf("no scope %s: check its name ('pipeline streams' lists all)", scope))
	}
	return err
}

func (a *app) printFinding(f *tier.Finding) error {
	if !a.json() {
		return a.print(show.Printable(f.Error()) + "\n")
	}
	return a.printObject(map[string]string{"key": f.Key, "broken": f.Broken})
}
