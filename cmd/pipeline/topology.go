package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/topology"
)

func topologyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Declare a pipeline in a document: check it, apply it, draw it",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(topologyValidate(a), topologyPlan(a), topologyApply(a), topologyDrift(a), topologyDestroy(a), topologyRun(a), topologyGraph(a), topologyACL(a), topologyTest(a))
	return cmd
}

const wantsDocument = "the file of a topology, as in shop.yaml"

func topologyValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a document, and name everything that is wrong",
		Long: `Check a document, with all that it includes, without a server. Everything that is
wrong is a line: file:line:column, what it is, and what to write. Exit code 1 when
there is something.`,
		Example: `  pipeline topology validate shop.yaml`,
		Args:    arguments(1, 1, wantsDocument), ValidArgsFunction: completeFile,
		RunE: func(_ *cobra.Command, args []string) error {
			doc, err := topology.Load(args[0], topology.LoadOptions{})
			if err != nil {
				return a.printProblems(args[0], "has", err)
			}
			if a.json() {
				return nil
			}
			streams := 0
			for _, s := range doc.Scopes {
				streams += len(s.Streams)
			}
			return a.print(fmt.Sprintf("%s is a topology: %s, with %s, %s, %s, %s and %s\n", args[0], show.Printable(doc.Name),
				show.Count(streams, "stream"), show.Count(len(doc.Queues), "queue"), show.Count(len(doc.Sources), "source"), show.Count(len(doc.Stages), "stage"), show.Count(len(doc.Sinks), "sink")))
		},
	}
}

// completeFile lets shells complete the first argument by the names of files.
func completeFile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// printProblems prints what is wrong with a document, a line each, and is the error that says how many there are, behind what that means.
func (a *app) printProblems(file, means string, err error) error {
	var problems topology.Problems
	if !errors.As(err, &problems) {
		return documentError(file, err)
	}
	for _, p := range problems {
		if err := a.printProblem(p); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s %s %s", file, means, show.Count(len(problems), "problem"))
}

func (a *app) printProblem(p *topology.Problem) error {
	if !a.json() {
		return a.print(show.Printable(p.Error()) + "\n")
	}
	return a.printObject(struct {
		File   string `json:"file"`
		Line   int    `json:"line"`
		Column int    `json:"column"`
		Path   string `json:"path"`
		What   string `json:"what"`
		Do     string `json:"do"`
	}{p.File, p.Line, p.Column, p.Path, p.What, p.Do})
}

// document reads the document of a command that is about something else than what is wrong with it.
func document(name string) (*topology.Document, error) {
	doc, err := topology.Load(name, topology.LoadOptions{})
	var problems topology.Problems
	if errors.As(err, &problems) {
		text := problems[0].Error()
		if len(problems) > 1 {
			text += fmt.Sprintf(" (and %d more: 'pipeline topology validate %s' names them)", len(problems)-1, name)
		}
		return nil, errors.New(strings.ReplaceAll(text, "\n", " "))
	}
	if err != nil {
		return nil, documentError(name, err)
	}
	return doc, nil
}

func documentError(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fileError(name, err)
	}
	return err
}
