package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func queuesCommand(a *app) *cobra.Command {
	list := func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return runParent(cmd, args)
		}
		return a.withClient(cmd.Context(), a.queues)
	}
	long := `List the queues. STATE is paused, active (workers are there), idle (none is, and
there is nothing to do) or dead (none is, and jobs are there that could be done).
SCHEDULED are those that wait for their time, also to be tried again; WAITING
those that wait for children; CEILING is how many of its jobs may be active at
once. It walks over the names of all keys of the servers,
by pages.`
	cmd := &cobra.Command{Use: "queues", Short: "List the queues; pause, resume, set, drain or obliterate one", Long: long, Args: cobra.ArbitraryArgs, RunE: list}
	cmd.AddCommand(
		&cobra.Command{Use: "ls", Short: "List the queues", Long: long, Args: arguments(0, 0, "nothing"), RunE: list},
		queueShow(a), queuePause(a, "pause", true), queuePause(a, "resume", false), queueSet(a), queueHistory(a), queueDrain(a), queueObliterate(a),
	)
	return cmd
}

func queueShow(a *app) *cobra.Command {
	stuck := false
	cmd := &cobra.Command{
		Use: "show QUEUE", Short: "Show one queue", Args: arguments(1, 1, wantsQueue),
		Long: `Show one queue, as 'pipeline queues' does all. With --stuck, explain each job that waits
for a child which was lost, or which has ended and nobody tells of; that looks at
every job that waits.`,
		Example: `  pipeline queues show billing
  pipeline queues show billing --stuck`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, client *tier.Client, jobs *queue.Client) error {
				o, err := overview(ctx, jobs)
				if err != nil {
					return err
				}
				var list []stuckJSON
				if stuck {
					if list, err = stuckOf(ctx, client, args[0]); err != nil {
						return err
					}
				}
				if a.json() {
					q := queueOf(&o)
					q.Stuck = list
					return a.printObject(q)
				}
				if err := a.printQueues(o); err != nil {
					return err
				}
				if stuck && len(list) == 0 {
					a.note("no job of %s is stuck", args[0])
				}
				return a.print(stuckText(list))
			})
		},
	}
	cmd.Flags().BoolVar(&stuck, "stuck", false, "explain each job that waits for what does not come")
	return cmd
}

// overview is that of a queue that there is.
func overview(ctx context.Context, jobs *queue.Client) (queue.Overview, error) {
	o, err := jobs.Overview(ctx)
	if err == nil && o == (queue.Overview{Name: o.Name}) {
		err = notFound(fmt.Sprintf("there is no queue %s: check its name ('pipeline queues' lists all), or enqueue a job first", o.Name))
	}
	return o, err
}

func (a *app) queues(ctx context.Context, client *tier.Client) error {
	var list []queue.Overview
	for name, err := range queue.Queues(ctx, client) {
		if err != nil {
			return err
		}
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		if err != nil {
			return err
		}
		o, err := jobs.Overview(ctx)
		if err != nil {
			return err
		}
		list = append(list, o)
	}
	if a.done = len(list); a.done == 0 {
		a.note("no queues yet: 'pipeline jobs enqueue QUEUE' makes one")
		return nil
	}
	slices.SortFunc(list, func(x, y queue.Overview) int { return cmp.Compare(x.Name, y.Name) })
	return a.printQueues(list...)
}

type queueJSON struct {
	Queue       string  `json:"queue"`
	State       string  `json:"state"`
	Ready       int64   `json:"ready"`
	Active      int64   `json:"active"`
	Scheduled   int64   `json:"scheduled"`
	Waiting     int64   `json:"waiting"`
	Dead        int64   `json:"dead"`
	Workers     int64   `json:"workers"`
	Schedules   int64   `json:"schedules"`
	Lease       float64 `json:"lease_seconds"`
	Ceiling     int     `json:"ceiling,omitempty"`
	Next        string  `json:"next,omitempty"`         // when the first that is scheduled is due
	Late        float64 `json:"late_seconds,omitempty"` // for how long it is due, and not ready
	Outbox      int64   `json:"outbox,omitempty"`       // what of flows is on its way
	RateJobs    int     `json:"rate_jobs,omitempty"`
	RateSeconds float64 `json:"rate_seconds,omitempty"`
	Events      int     `json:"events,omitempty"` // how many messages are kept, about
	PausedSince string  `json:"paused_since,omitempty"`

	Stuck []stuckJSON `json:"stuck,omitempty"`
}

func queueOf(o *queue.Overview) queueJSON {
	state := "idle"
	switch {
	case !o.Paused.IsZero():
		state = "paused"
	case o.Workers > 0:
		state = "active"
	case o.Ready+o.Active+o.Scheduled+o.Waiting > 0:
		state = "dead"
	}
	return queueJSON{
		Queue: o.Name, State: state, Ready: o.Ready, Active: o.Active, Scheduled: o.Scheduled, Waiting: o.Waiting, Dead: o.Dead,
		Workers: o.Workers, Schedules: o.Schedules, Lease: o.Lease.Seconds(), Next: timeText(o.Next), Late: o.Late.Seconds(), Outbox: o.Outbox,
		Ceiling: o.Ceiling, RateJobs: o.Rate.Jobs, RateSeconds: o.Rate.Per.Seconds(), Events: o.Events, PausedSince: timeText(o.Paused),
	}
}

func (a *app) printQueues(list ...queue.Overview) error {
	rows := [][]string{{"QUEUE", "STATE", ">READY", ">ACTIVE", ">SCHEDULED", ">WAITING", ">DEAD", ">WORKERS", ">SCHEDULES", ">LEASE", ">CEILING", "RATE"}}
	for i := range list {
		q := queueOf(&list[i])
		if a.json() {
			if err := a.printObject(q); err != nil {
				return err
			}
			continue
		}
		row := []string{q.Queue, q.State}
		for _, n := range []int64{q.Ready, q.Active, q.Scheduled, q.Waiting, q.Dead, q.Workers, q.Schedules} {
			row = append(row, show.Number(n))
		}
		rows = append(rows, append(row, ageText(list[i].Lease > 0, list[i].Lease), ceilingText(q.Ceiling), rateText(list[i].Rate)))
	}
	if a.json() {
		return nil
	}
	return a.print(show.Table(narrowed(rows, a.width(), 3)))
}

func queuePause(a *app, verb string, pause bool) *cobra.Command {
	short, long := "Let a queue hand out nothing until it is resumed", `Let a queue hand out nothing, in whichever process, until 'pipeline queues resume':
workers finish what they have. The pause is the server's, and outlives them.
Schedules go on making jobs, which wait.`
	if !pause {
		short, long = "End the pause of a queue", "End the pause of a queue."
	}
	return &cobra.Command{
		Use: verb + " QUEUE", Short: short, Long: long, Args: arguments(1, 1, wantsQueue), Example: "  pipeline queues " + verb + " billing",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				o, err := overview(ctx, jobs)
				if err != nil {
					return err
				}
				change := jobs.Resume
				if pause {
					change = jobs.Pause
				}
				if err := change(ctx); err != nil {
					return err
				}
				return a.printPaused(verb, args[0], o.Paused.IsZero() == pause)
			})
		},
	}
}

func (a *app) printPaused(verb, name string, changed bool) error {
	if a.json() {
		return a.printObject(struct {
			Action  string `json:"action"`
			Queue   string `json:"queue"`
			Changed bool   `json:"changed"`
		}{verb + "-queue", name, changed})
	}
	text := map[string][2]string{"pause": {"was paused already", "paused"}, "resume": {"was not paused", "resumed"}}[verb]
	if !changed {
		return a.print(fmt.Sprintf("queue %s %s\n", name, text[0]))
	}
	return a.print(fmt.Sprintf("%s queue %s\n", text[1], name))
}
