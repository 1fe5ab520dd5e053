package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// jobChange is a command that changes jobs.
type jobChange struct {
	confirm
	jobChoice
	all       bool
	queue     string
	verb, did string
	change    func(ctx context.Context, jobs *queue.Client, ids []codec.ID, r *jobsChanged) error
}

// jobsChanged is what became of jobs.
type jobsChanged struct {
	Changed int `json:"changed"`
	Told    int `json:"told"`   // cancelled ones whose workers are told
	Gone    int `json:"gone"`   // they ended meanwhile, or never were
	Active  int `json:"active"` // which stay
}

func jobsRetry(a *app) *cobra.Command {
	c := &jobChange{confirm: confirm{app: a}, verb: "retry", did: "retried", change: retryJobs}
	return c.command(&cobra.Command{
		Use:   "retry QUEUE",
		Short: "Take dead jobs up again",
		Long: `Take dead jobs up again: --id, those of a --lane or that --match a text, or --all
that there are now. They are due at once, with all their attempts before them.`,
		Example: `  pipeline jobs retry billing --match "connection refused" --dry-run
  pipeline jobs retry billing --all --yes`,
	}, queue.Dead)
}

func jobsCancel(a *app) *cobra.Command {
	c := &jobChange{confirm: confirm{app: a}, verb: "cancel", did: "cancelled"}
	reason := ""
	c.change = func(ctx context.Context, jobs *queue.Client, ids []codec.ID, r *jobsChanged) error {
		return r.each(ids, func(id codec.ID) error {
			running, err := jobs.Cancel(ctx, id, reason)
			if running && err == nil {
				r.Told++
			}
			return err
		})
	}
	cmd := c.command(&cobra.Command{
		Use:   "cancel QUEUE",
		Short: "Cancel jobs, also those that workers have",
		Long: `Cancel jobs: --id, those in a --state or of a --lane or that --match a text, or
--all that there are now. One that nobody has is removed. The worker of an active
one is told at once: the context of its handler ends, and when that returns an
error, the job is dead with the --reason.`,
		Example: `  pipeline jobs cancel billing --state scheduled --lane night --dry-run
  pipeline jobs cancel billing --id JOB0STCa4O4Feq --reason "the order was withdrawn" --yes`,
	}, queue.Ready, queue.Active, queue.Scheduled, queue.Retry, queue.Waiting)
	cmd.Flags().Var(word(&reason, "TEXT", 1024), "reason", "why, which the workers are told")
	return cmd
}

func jobsRemove(a *app) *cobra.Command {
	c := &jobChange{confirm: confirm{app: a}, verb: "remove", did: "removed", change: removeJobs}
	return c.command(&cobra.Command{
		Use:   "rm QUEUE",
		Short: "Remove jobs that no worker has, for good",
		Long: `Remove jobs for good, with their unique keys and results: --id, those in a --state
or of a --lane or that --match a text, or --all that no worker has.`,
		Example: `  pipeline jobs rm billing --state dead --match "no such customer" --dry-run
  pipeline jobs rm billing --id JOB0STCa4O4Feq --yes`,
	}, queue.Ready, queue.Scheduled, queue.Retry, queue.Waiting, queue.Dead)
}

func (c *jobChange) command(cmd *cobra.Command, states ...queue.State) *cobra.Command {
	cmd.Long += `

On a terminal it says how many and wants the queue's name typed; elsewhere it needs
--yes. --dry-run changes nothing. A command that is interrupted can be run again.`
	cmd.Args = arguments(1, 1, wantsQueue)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.queue = args[0]
		some := len(c.States) > 0 || c.Lane != "" || c.match != ""
		switch {
		case len(c.ids) == 0 && !some && !c.all:
			return usagef("want which jobs: --id ID, --lane NAME, --match TEXT or --all ('pipeline jobs ls %s' lists them)", c.queue)
		case c.all && (len(c.ids) > 0 || some), len(c.ids) > 0 && some:
			return usagef("--all, --id and what chooses among jobs: give one of them")
		}
		if err := c.possible(); err != nil {
			return err
		}
		if len(c.States) == 0 {
			c.States = states
		}
		return c.app.withJobs(cmd.Context(), c.queue, c.run)
	}
	c.idFlag(cmd)
	c.listFlags(cmd, states...)
	cmd.Flags().BoolVar(&c.all, "all", false, "all that there are")
	c.flags(cmd)
	return cmd
}

func (c *jobChange) run(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
	ids := c.ids
	if len(ids) == 0 { // 16 bytes of memory for each
		err := c.each(ctx, jobs, func(i *queue.Info) error {
			ids = append(ids, i.ID)
			return nil
		})
		if err != nil {
			return err
		}
	}
	var r jobsChanged
	if len(ids) > 0 && !c.dryRun {
		if err := c.asked(ctx, c.line("would "+c.verb, len(ids)), c.queue); err != nil {
			return err
		}
		if err := c.changeAll(ctx, jobs, ids, &r); err != nil {
			return err
		}
	}
	if err := c.print(len(ids), &r); err != nil {
		return err
	}
	if len(c.ids) > 0 && r.Gone > 0 {
		return notFound(fmt.Sprintf("%s of %d not there: they have ended, or are in no such state ('pipeline jobs ls %s' lists them)", show.Count(r.Gone, "job"), len(ids), c.queue))
	}
	if r.Active > 0 {
		return fmt.Errorf("%s of %d stay, since workers have them: cancel them, or wait until they have ended", show.Count(r.Active, "job"), len(ids))
	}
	return nil
}

// changeAll changes jobs in parts, so that an interrupted command can say how far it came.
func (c *jobChange) changeAll(ctx context.Context, jobs *queue.Client, ids []codec.ID, r *jobsChanged) error {
	c.app.startProgress(int64(len(ids)), "job")
	defer c.app.endProgress()
	for chunk := range slices.Chunk(ids, changeChunk) {
		if err := c.change(ctx, jobs, chunk, r); err != nil {
			return fmt.Errorf("%d of %s %s for certain, run it again for the rest: %w", r.Changed, show.Count(len(ids), "job"), c.did, err)
		}
		c.app.done = r.Changed
		c.app.progress.Load().at(int64(r.Changed), r.Changed)
	}
	return nil
}

func (c *jobChange) line(did string, n int) string {
	return fmt.Sprintf("%s %s of %s\n", did, show.Count(n, "job"), c.queue)
}

func (c *jobChange) print(chosen int, r *jobsChanged) error {
	if !c.app.json() {
		if c.dryRun || chosen == 0 {
			return c.app.print(c.line("would "+c.verb, chosen))
		}
		return c.app.print(c.line(c.did, r.Changed))
	}
	return c.app.printObject(struct {
		Action string `json:"action"`
		DryRun bool   `json:"dry_run"`
		Queue  string `json:"queue"`
		Chosen int    `json:"chosen"`
		jobsChanged
	}{c.verb + "-jobs", c.dryRun, c.queue, chosen, *r})
}

func retryJobs(ctx context.Context, jobs *queue.Client, ids []codec.ID, r *jobsChanged) error {
	retried, err := jobs.Retry(ctx, ids...)
	r.Changed += len(retried)
	if err == nil {
		r.Gone += len(ids) - len(retried)
	}
	return err
}

func removeJobs(ctx context.Context, jobs *queue.Client, ids []codec.ID, r *jobsChanged) error {
	return r.each(ids, func(id codec.ID) error { return jobs.Remove(ctx, id) })
}

// each changes one job after another.
func (r *jobsChanged) each(ids []codec.ID, change func(codec.ID) error) error {
	for _, id := range ids {
		switch err := change(id); {
		case err == nil:
			r.Changed++
		case errors.Is(err, queue.ErrNoJob):
			r.Gone++
		case errors.Is(err, queue.ErrActive):
			r.Active++
		default:
			return err
		}
	}
	return nil
}
