package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// queueLoss is a command that takes from a queue.
type queueLoss struct {
	confirm
	verb, did, what string
	lane            *string // of the queue, if it is set
	do              func(ctx context.Context, jobs *queue.Client, name string) (int, error)
}

func queueDrain(a *app) *cobra.Command {
	lane := ""
	cmd := drain(a, &lane, &cobra.Command{
		Use:   "drain QUEUE",
		Short: "Remove the ready jobs of a queue",
		Long: `Remove the ready jobs of a queue, or of one --lane, paused or not. Active ones, those
that wait for their time or for children, and dead ones, stay.`,
		Example: `  pipeline queues drain billing --dry-run
  pipeline queues drain billing --lane bulk --yes`,
	})
	cmd.Flags().Var(name(&lane, "lane"), "lane", "only those of this lane")
	return cmd
}

func laneDrain(a *app) *cobra.Command {
	lane := ""
	cmd := drain(a, &lane, &cobra.Command{
		Use:   "drain QUEUE --lane NAME",
		Short: "Remove the ready jobs of a lane",
		Long: `Remove the ready jobs of a lane, paused or not. Active ones, those that wait for their
time or for children, and dead ones, stay.`,
		Example: `  pipeline lanes drain billing --lane bulk --dry-run
  pipeline lanes drain billing --lane bulk --yes`,
	})
	laneFlag(cmd, &lane)
	return cmd
}

// drain is of a queue, or of a lane when there is one.
func drain(a *app, lane *string, cmd *cobra.Command) *cobra.Command {
	l := &queueLoss{confirm: confirm{app: a}, verb: "drain", did: "drained", what: "job", lane: lane}
	l.do = func(ctx context.Context, jobs *queue.Client, _ string) (int, error) {
		if *lane != "" {
			return jobs.DrainLane(ctx, *lane)
		}
		return jobs.Drain(ctx)
	}
	return l.command(cmd, func(ctx context.Context, jobs *queue.Client, o *queue.Overview) (int64, error) {
		if *lane == "" {
			return o.Ready, nil
		}
		info, err := jobs.LaneInfo(ctx, *lane)
		return info.Ready, err
	})
}

func queueObliterate(a *app) *cobra.Command {
	l := &queueLoss{confirm: confirm{app: a}, verb: "obliterate", did: "obliterated", what: "key"}
	l.do = func(ctx context.Context, jobs *queue.Client, name string) (int, error) {
		return jobs.Obliterate(ctx, name)
	}
	return l.command(&cobra.Command{
		Use:   "obliterate QUEUE",
		Short: "Delete a paused queue with all that it has",
		Long: `Delete a queue with all that it has: jobs in every state, dead ones, results, lanes,
schedules. It has to be paused before. Jobs that are active then are gone under
their workers. It goes in steps: when it is interrupted, run it again.`,
		Example: `  pipeline queues obliterate billing --dry-run
  pipeline queues obliterate billing --yes`,
	}, func(_ context.Context, _ *queue.Client, o *queue.Overview) (int64, error) {
		return o.Ready + o.Active + o.Scheduled + o.Waiting + o.Dead, nil
	})
}

// command makes a command of one that counts the jobs that would go.
func (l *queueLoss) command(cmd *cobra.Command, jobsOf func(context.Context, *queue.Client, *queue.Overview) (int64, error)) *cobra.Command {
	cmd.Long += `

On a terminal it says how many jobs go and wants the name typed of what they go from;
elsewhere it needs --yes. --dry-run changes nothing.`
	cmd.Args = arguments(1, 1, wantsQueue)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := l.possible(); err != nil {
			return err
		}
		return l.app.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
			o, err := overview(ctx, jobs)
			if err != nil {
				return err
			}
			n, err := jobsOf(ctx, jobs, &o)
			if err != nil {
				return err
			}
			return l.run(ctx, jobs, args[0], n)
		})
	}
	l.flags(cmd)
	return cmd
}

func (l *queueLoss) run(ctx context.Context, jobs *queue.Client, name string, n int64) error {
	lane, typed, from := "", name, "queue "+name
	if l.lane != nil && *l.lane != "" {
		lane, typed, from = *l.lane, *l.lane, "lane "+*l.lane+" of "+name
	}
	plan, gone := fmt.Sprintf("would %s %s: %s\n", l.verb, from, show.Count(int(n), "job")), 0
	if !l.dryRun {
		err := l.asked(ctx, plan, typed)
		if err == nil {
			gone, err = l.do(ctx, jobs, name)
		}
		if err != nil {
			return err
		}
		plan = fmt.Sprintf("%s %s: %s\n", l.did, from, show.Count(gone, l.what))
	}
	if !l.app.json() {
		return l.app.print(plan)
	}
	return l.app.printObject(struct {
		Action string `json:"action"`
		DryRun bool   `json:"dry_run"`
		Queue  string `json:"queue"`
		Lane   string `json:"lane,omitempty"`
		Jobs   int64  `json:"jobs"`
		Gone   int    `json:"gone"`
		What   string `json:"what"`
	}{l.verb + "-queue", l.dryRun, name, lane, n, gone, l.what + "s"})
}
