package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology"
)

// errDiffers is how a plan or a drift that is not empty ends: there is nothing to say about it.
var errDiffers = errors.New("differs")

// notUsage is an error of the command line of a command whose exit code 2 means something else.
type notUsage struct{ text string }

func (e notUsage) Error() string { return e.text }

// detailed makes of a command one that exits with 2 when it has found differences, and with 1 when it was called wrongly.
func detailed(cmd *cobra.Command) *cobra.Command {
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return notUsage{err.Error()}
		}
		return nil
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if codeOf(err) == exitUsage && !errors.Is(err, errDiffers) {
			return notUsage{err.Error()}
		}
		return err
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return notUsage{flagError(cmd, err).Error()} })
	return cmd
}

func topologyPlan(a *app) *cobra.Command {
	return detailed(&cobra.Command{
		Use:   "plan FILE",
		Short: "Show what apply would do",
		Long: `Show what 'pipeline topology apply' would do, in its order, and change nothing:
+ is made, = is there already and becomes the topology's, ~ is changed, > has to wait
until others have handled what there is, - is destroyed with what it holds, and ! is
refused, with what to do then.

Exit code 0: there is nothing to do; 2: there is; 1: it failed, or was called
wrongly; 3: there is no such file.`,
		Example: `  pipeline topology plan shop.yaml
  pipeline topology plan shop.yaml --output json | jq -r .verb`,
		Args: arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := document(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				p, err := topology.PlanOf(ctx, client, doc)
				if err != nil {
					return err
				}
				if len(p.Changes) == 0 {
					a.note("nothing to do: the server is as %s says", args[0])
					return nil
				}
				return errors.Join(a.printChanges(p.Changes), errDiffers)
			})
		},
	})
}

func topologyDrift(a *app) *cobra.Command {
	return detailed(&cobra.Command{
		Use:   "drift FILE",
		Short: "Show what was changed since the last apply",
		Long: `Show what the server has otherwise than the topology's last 'pipeline topology apply'
has declared it, whatever the document says by now: ~ was changed, - is gone. Nothing
is changed.

Exit code 0: nothing has; 2: something has; 1: it failed, or was called wrongly;
3: there is no such file.`,
		Example: `  pipeline topology drift shop.yaml`,
		Args:    arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := document(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				drifted, err := topology.Drift(ctx, client, doc.Name)
				if err != nil {
					return err
				}
				if len(drifted) > 0 {
					return errors.Join(a.printChanges(drifted), errDiffers)
				}
				all, err := topology.Destruction(ctx, client, doc.Name)
				if err == nil && len(all.Changes) == 0 {
					a.note("nothing to compare: topology %s has declared nothing here; 'pipeline topology apply %s' does", doc.Name, args[0])
				}
				return err
			})
		},
	})
}

var marks = map[topology.Verb]string{
	topology.Create: "+", topology.Adopt: "=", topology.Modify: "~", topology.Migrate: ">", topology.Destroy: "-", topology.Refuse: "!",
}

func (a *app) printChanges(list []topology.Change) error {
	if a.json() {
		for i := range list {
			if err := a.printObject(&list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return a.print(changesText(list))
}

func changesText(list []topology.Change) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(changeLine(&list[i]) + "\n")
	}
	return b.String()
}

// changeLine is a change for people: "~ stream shop/orders: retention max-age=1000, was none".
func changeLine(c *topology.Change) string {
	line := marks[c.Verb] + " " + c.Thing()
	var words []string
	for _, d := range c.Attributes {
		word := d.Attribute + " " + orNone(d.To)
		if c.Verb != topology.Create {
			word += ", was " + orNone(d.From)
		}
		words = append(words, word)
	}
	if c.Why != "" {
		words = append(words, c.Why)
	}
	if len(words) > 0 {
		line += ": " + strings.Join(words, "; ")
	}
	return show.Printable(line)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// summary counts changes: "3 created, 1 destroyed".
func summary(list []topology.Change) string {
	var words []string
	for _, v := range []struct {
		verb topology.Verb
		did  string
	}{{topology.Create, "made"}, {topology.Adopt, "adopted"}, {topology.Modify, "changed"}, {topology.Migrate, "migrated"}, {topology.Destroy, "destroyed"}} {
		n := 0
		for _, c := range list {
			if c.Verb == v.verb {
				n++
			}
		}
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, v.did))
		}
	}
	return strings.Join(words, ", ")
}
