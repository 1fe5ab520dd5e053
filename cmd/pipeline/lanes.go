package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func lanesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "lanes QUEUE",
		Short: "List the lanes of a queue: what they hold, and how they have their turns",
		Long: `List the lanes of a queue that have jobs, or that were configured, by name. WEIGHT
is a lane's part of the turns, CEILING how many of its jobs may be active at once,
RATE how many may begin in a time. STATE is paused, or open. The table ends after
1,000.`,
		Example: `  pipeline lanes billing`,
		Args:    arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				return a.lanes(ctx, jobs, args[0])
			})
		},
	}
}

type laneJSON struct {
	Queue       string  `json:"queue"`
	Lane        string  `json:"lane"`
	State       string  `json:"state"`
	Ready       int64   `json:"ready"`
	Active      int64   `json:"active"`
	Weight      float64 `json:"weight"`
	Ceiling     int     `json:"ceiling,omitempty"`
	RateJobs    int     `json:"rate_jobs,omitempty"`
	RateSeconds float64 `json:"rate_seconds,omitempty"`
	PausedSince string  `json:"paused_since,omitempty"`
}

func laneOf(name string, l *queue.LaneInfo) laneJSON {
	state := "open"
	if !l.Paused.IsZero() {
		state = "paused"
	}
	return laneJSON{name, l.Name, state, l.Ready, l.Active, l.Weight, l.Ceiling, l.Rate.Jobs, l.Rate.Per.Seconds(), timeText(l.Paused)}
}

func (a *app) lanes(ctx context.Context, jobs *queue.Client, name string) error {
	rows := [][]string{{"LANE", "STATE", ">READY", ">ACTIVE", ">WEIGHT", ">CEILING", "RATE"}}
	for l, err := range jobs.Lanes(ctx) {
		if err != nil {
			return err
		}
		if !a.json() && len(rows) > tableRows {
			a.note("these are the first %d: --output json shows all", tableRows)
			break
		}
		a.done++
		j := laneOf(name, &l)
		if a.json() {
			if err := a.printObject(j); err != nil {
				return err
			}
			continue
		}
		ceiling, rate := "-", "-"
		if l.Ceiling > 0 {
			ceiling = show.Number(int64(l.Ceiling))
		}
		if l.Rate.Jobs > 0 {
			rate = show.Number(int64(l.Rate.Jobs)) + " in " + show.Duration(l.Rate.Per)
		}
		rows = append(rows, []string{l.Name, j.State, show.Number(l.Ready), show.Number(l.Active), strconv.FormatFloat(l.Weight, 'g', -1, 64), ceiling, rate})
	}
	if a.done == 0 {
		a.note("%s has no lanes: its first job makes one", name)
	}
	if a.done == 0 || a.json() {
		return nil
	}
	return a.print(show.Table(rows))
}
