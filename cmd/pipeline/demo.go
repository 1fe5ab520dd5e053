package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/demo"
)

// demoWorker is the hidden command that is one consumer of the demo.
const demoWorker = "demo-worker"

func demoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See the main job done on real input, in a few seconds",
		Long: `See the main job done on real input, on an embedded server of its own: 2,000
earthquakes of 2016 are published, keyed by network; a group of three processes
handles them, one of which is killed on the way; a window of time is read again;
the counts are compared. It ends by itself, in less than 20 seconds, and leaves
nothing behind.

Data: ` + demo.Credit + `.`,
		Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.noURL("demo"); err != nil {
				return err
			}
			ctx, cancel := a.bounded(cmd.Context())
			defer cancel()
			self, err := os.Executable()
			if err != nil {
				return err
			}
			cfg := demo.Config{Out: a.out, Color: a.color(), Worker: []string{self, demoWorker}, Environ: environment()}
			if a.output == "json" {
				cfg.Out = io.Discard
			}
			result, err := demo.Run(ctx, cfg)
			if result != nil && a.output == "json" {
				err = errors.Join(err, a.printObject(result))
			}
			return err
		},
	}
}

func demoWorkerCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    demoWorker,
		Hidden: true,
		Args:   arguments(1, 1, "a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			url, _, err := a.serverURL()
			if err != nil {
				return err
			}
			return demo.Work(cmd.Context(), url, args[0], a.in, a.out)
		},
	}
}
