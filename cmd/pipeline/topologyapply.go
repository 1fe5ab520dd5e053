package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology"
)

// applying is a command that makes a server what a plan says.
type applying struct {
	confirm
	migrate bool
	name    string // of the topology
}

func topologyApply(a *app) *cobra.Command {
	p := &applying{confirm: confirm{app: a}}
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Make the server what a document says",
		Long: `Make the server what a document says: what 'pipeline topology plan' shows, in its
order. What is as it should be is left alone, so that it can be run again at any
time, and goes on where one before has ended. When the plan refuses something, or
has a migration and --migrate is not given, nothing is done.

What was taken out of the document since the last time, and only what the topology
has declared, is destroyed: on a terminal after its name was typed, elsewhere with
--yes.`,
		Example: `  pipeline topology apply shop.yaml --dry-run
  pipeline topology apply shop.yaml --yes`,
		Args: arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := document(args[0])
			if err != nil {
				return err
			}
			p.name = doc.Name
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				plan, err := topology.PlanOf(ctx, client, doc)
				if err != nil {
					return err
				}
				if len(plan.Changes) == 0 {
					a.note("nothing to do: the server is as %s says", args[0])
					return nil
				}
				return p.run(ctx, client, plan)
			})
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&p.migrate, "migrate", false, "make changes that wait until others have handled what there is")
	return cmd
}

func topologyDestroy(a *app) *cobra.Command {
	p := &applying{confirm: confirm{app: a}}
	var things []string
	cmd := &cobra.Command{
		Use:   "destroy FILE",
		Short: "Destroy what a topology has declared, with all it holds",
		Long: `Destroy what a topology has declared, with all it holds: everything, or what --only
names, as the plan names it. What others have declared, and what nobody has, stays;
where that would go along, nothing is done. A queue has to be without jobs.

On a terminal it shows what goes and wants the topology's name typed; elsewhere it
needs --yes. --dry-run changes nothing.`,
		Example: `  pipeline topology destroy shop.yaml --dry-run
  pipeline topology destroy shop.yaml --only "stream shop/orders" --yes`,
		Args: arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.possible(); err != nil {
				return err
			}
			doc, err := document(args[0])
			if err != nil {
				return err
			}
			p.name = doc.Name
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				plan, err := topology.Destruction(ctx, client, doc.Name, things...)
				if err != nil {
					return err
				}
				if len(plan.Changes) == 0 {
					a.note("nothing to destroy: topology %s has declared nothing here", doc.Name)
					return nil
				}
				return p.run(ctx, client, plan)
			})
		},
	}
	p.flags(cmd)
	cmd.Flags().Var(texts(&things, "THING", 512), "only", "what to destroy, as in \"stream shop/orders\"; several times for several (default: all)")
	return cmd
}

// run applies a plan that was agreed to, and says where it stands.
func (p *applying) run(ctx context.Context, client *tier.Client, plan *topology.Plan) error {
	switch {
	case p.dryRun:
		return p.app.printChanges(plan.Changes)
	case plan.Has(topology.Refuse):
		return errors.Join(p.app.printChanges(plan.Changes), topology.ErrRefused)
	case plan.Has(topology.Migrate) && !p.migrate:
		return errors.Join(p.app.printChanges(plan.Changes), errors.New("there is a migration, so nothing was done: give --migrate to wait for it"))
	case plan.Has(topology.Destroy):
		if err := p.possible(); err != nil {
			return err
		}
		if err := p.asked(ctx, changesText(plan.Changes), p.name); err != nil {
			return err
		}
	}
	err := plan.Apply(ctx, client, topology.ApplyOptions{Migrate: p.migrate, Destroy: true, Before: func(c *topology.Change, waits string) {
		if waits != "" {
			p.app.note("waiting for %s to handle what there is", waits)
		}
	}})
	done := plan.Changes
	var partly *topology.PartlyError
	if errors.As(err, &partly) {
		done = partly.Done
	}
	if e := p.app.printChanges(done); e != nil || err != nil {
		return errors.Join(e, err)
	}
	p.app.note("%s: %s", plan.Topology, summary(done))
	return nil
}
