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
	list := func(cmd *cobra.Command, args []string) error {
		return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, client *tier.Client, jobs *queue.Client) error {
			return a.lanes(ctx, client, jobs, args[0])
		})
	}
	long := `List the lanes of a queue that have jobs, or that were configured, by name.
OLDEST is for how long the first of its ready jobs is ready, WEIGHT its part of
the turns, CEILING how many of its jobs may be active at once, RATE how many may
begin in a time. STATE is paused, or open. The table ends after 1,000.`
	cmd := &cobra.Command{
		Use: "lanes QUEUE", Short: "List the lanes of a queue; set, pause, resume and drain them, move jobs between them",
		Long: long, Example: "  pipeline lanes billing", Args: arguments(1, 1, wantsQueue), RunE: list,
	}
	cmd.AddCommand(
		&cobra.Command{Use: "ls QUEUE", Short: "List the lanes of a queue", Long: long, Args: arguments(1, 1, wantsQueue), RunE: list},
		laneSet(a), lanePause(a, "pause"), lanePause(a, "resume"), laneDrain(a), laneMove(a),
	)
	return cmd
}

type laneJSON struct {
	Queue       string  `json:"queue"`
	Lane        string  `json:"lane"`
	State       string  `json:"state"`
	Ready       int64   `json:"ready"`
	Active      int64   `json:"active"`
	Oldest      string  `json:"oldest,omitempty"` // when the first ready one became so
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
	return laneJSON{name, l.Name, state, l.Ready, l.Active, timeText(l.Oldest), l.Weight, l.Ceiling, l.Rate.Jobs, l.Rate.Per.Seconds(), timeText(l.Paused)}
}

func (a *app) lanes(ctx context.Context, client *tier.Client, jobs *queue.Client, name string) error {
	now, err := client.Now(ctx, tier.Queue(name).QueueKey())
	if err != nil {
		return err
	}
	rows := [][]string{{"LANE", "STATE", ">READY", ">ACTIVE", ">OLDEST", ">WEIGHT", ">CEILING", "RATE"}}
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
		rows = append(rows, []string{
			l.Name, j.State, show.Number(l.Ready), show.Number(l.Active), ageText(!l.Oldest.IsZero(), max(0, now.Sub(l.Oldest))),
			strconv.FormatFloat(l.Weight, 'g', -1, 64), ceilingText(l.Ceiling), rateText(l.Rate),
		})
	}
	if a.done == 0 {
		a.note("%s has no lanes: its first job makes one", name)
	}
	if a.done == 0 || a.json() {
		return nil
	}
	return a.print(show.Table(rows))
}

// ceilingText and rateText are "-" for none.
func ceilingText(jobs int) string {
	if jobs <= 0 {
		return "-"
	}
	return show.Number(int64(jobs))
}

func rateText(r queue.Rate) string {
	if r.Jobs <= 0 {
		return "-"
	}
	return show.Number(int64(r.Jobs)) + " in " + show.Duration(r.Per)
}
