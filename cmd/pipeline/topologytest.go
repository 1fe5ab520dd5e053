package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

func topologyTest(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE",
		Short: "Run the stages on given messages, and compare what comes of them",
		Long: `Run the stages of a document on messages that cases give, and compare what comes of
them with what the cases expect. No server is asked, no webhook called and no job
made; child processes run. Exit code 1 when a case fails.

A file of cases names the document, and has messages that are given and expected by
stream, dead letters by stage, jobs by queue; docs/topology.md has all fields.`,
		Example: `  pipeline topology test shop.test.yaml`,
		Args:    arguments(1, 1, "a file of cases, as in shop.test.yaml"), ValidArgsFunction: completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			cases, doc, err := topology.LoadCases(args[0], topology.LoadOptions{})
			if err != nil {
				return a.printProblems(args[0], "cannot be tried:", err)
			}
			a.logs = true
			failed, names := 0, cases.Names()
			for _, name := range names {
				found, err := doc.Try(cmd.Context(), cases.Cases[name], stage.Options{Logger: a.logger()})
				if err != nil {
					return fmt.Errorf("case %s: %w", name, err)
				}
				if len(found) > 0 {
					failed++
				}
				if err := a.printCase(name, found); err != nil {
					return err
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %s failed", failed, show.Count(len(names), "case"))
			}
			return nil
		},
	}
}

func (a *app) printCase(name string, found []topology.Mismatch) error {
	if a.json() {
		return a.printObject(struct {
			Case       string              `json:"case"`
			Passed     bool                `json:"passed"`
			Mismatches []topology.Mismatch `json:"mismatches,omitempty"`
		}{name, len(found) == 0, found})
	}
	var b strings.Builder
	verdict := "ok  "
	if len(found) > 0 {
		verdict = "FAIL"
	}
	fmt.Fprintf(&b, "%s %s\n", verdict, show.Printable(name))
	for _, m := range found {
		fmt.Fprintf(&b, "  %s (- expected, + came)\n", show.Printable(m.Where))
		for _, l := range m.Lines {
			fmt.Fprintf(&b, "    %s %s\n", l.Sign, show.Printable(l.Text))
		}
	}
	return a.print(b.String())
}
