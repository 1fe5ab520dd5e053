package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/topology"
)

func topologyGraph(a *app) *cobra.Command {
	format, live, every := "mermaid", false, time.Second
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a topology, and what goes on in it",
		Long: `Draw a topology on standard output: as text for mermaid.js.org or Graphviz, or as an
SVG picture, for which nothing else is needed.

With --live it asks the server, twice, --over so long, and puts to each stream how
fast it grows and how long it is, and to each stage, sink and group how far it is
behind.`,
		Example: `  pipeline topology graph shop.yaml --format svg > shop.svg
  pipeline topology graph shop.yaml --live`,
		Args: arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := document(args[0])
			if err != nil {
				return err
			}
			if !live {
				return a.print(picture(doc.Picture(nil), format))
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *tier.Client) error {
				seen, err := topology.Observe(ctx, client, doc, every)
				if err != nil {
					return err
				}
				return a.print(picture(doc.Picture(seen), format))
			})
		},
	}
	f := cmd.Flags()
	f.Var(choice(&format, "mermaid", "dot", "svg"), "format", "mermaid, dot or svg (default mermaid)")
	f.BoolVar(&live, "live", false, "with rates and lags, from the server")
	f.Var(duration(&every), "over", "how long --live looks (default 1s)")
	return cmd
}

func picture(p *topology.Picture, format string) string {
	switch format {
	case "dot":
		return p.DOT()
	case "svg":
		return p.SVG()
	}
	return p.Mermaid()
}

func topologyACL(a *app) *cobra.Command {
	cluster := false
	cmd := &cobra.Command{
		Use:   "acl FILE",
		Short: "Print the least rights of who does which part",
		Long: `Print the users that a topology needs at the server, with the least rights for what
each does: one for each source, stage and sink, for each group and each queue's
workers, and the operator's, who applies the document. The lines are for
'valkey-cli'; no user has a password, so none can be used before it is given one:
ACL SETUSER NAME >PASSWORD.`,
		Example: `  pipeline topology acl shop.yaml | valkey-cli -e`,
		Args:    arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(_ *cobra.Command, args []string) error {
			doc, err := document(args[0])
			if err != nil {
				return err
			}
			for _, r := range doc.ACL(cluster) {
				if err := a.printRole(doc.Name, &r); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&cluster, "cluster", false, "add what clients of a cluster need")
	return cmd
}

func (a *app) printRole(name string, r *topology.Role) error {
	if a.output != "json" { // the lines are for another program, also when they are piped
		return a.print(fmt.Sprintf("ACL SETUSER %s reset on %s\n", show.Printable(r.User(name)), strings.Join(r.Rules, " ")))
	}
	return a.printObject(struct {
		User  string   `json:"user"`
		Role  string   `json:"role"`
		Name  string   `json:"name,omitempty"`
		Rules []string `json:"rules"`
	}{r.User(name), r.Role, r.Name, r.Rules})
}
