package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func jobsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Enqueue jobs and flows, see them, update, retry, cancel and remove them",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(jobsEnqueue(a), jobsFlow(a), jobsList(a), jobsShow(a), jobsLogs(a), jobsUpdate(a), jobsRetry(a), jobsCancel(a), jobsRemove(a))
	return cmd
}

// jobChoice is which jobs of a queue a command is about.
type jobChoice struct {
	ids   []codec.ID
	match string
	limit int
	queue.Selection
}

func (c *jobChoice) idFlag(cmd *cobra.Command) {
	cmd.Flags().Var(&value{kind: "ID", set: func(s string) error {
		id, err := codec.Parse(s)
		if err != nil || id.Brand() != queue.Brand {
			return errors.New("want the id of a job (JOB0STCa4O4Feq)")
		}
		c.ids = append(c.ids, id)
		return nil
	}}, "id", "the job with this id; may be given again")
}

// wantsID refuses what names no job.
func (c *jobChoice) wantsID(queue string) error {
	if len(c.ids) == 0 {
		return usagef("want the id of a job: --id ID ('pipeline jobs ls %s' lists them)", queue)
	}
	return nil
}

// listFlags choose among jobs, by their state only where there are several.
func (c *jobChoice) listFlags(cmd *cobra.Command, states ...queue.State) {
	if words := stateWords(states); len(words) > 1 {
		cmd.Flags().Var(&value{kind: strings.Join(words, "|"), set: func(s string) error {
			if !slices.Contains(words, s) {
				return fmt.Errorf("want one of %s", strings.Join(words, ", "))
			}
			c.States = append(c.States, queue.State(s))
			return nil
		}}, "state", "those in this state; may be given again")
	}
	cmd.Flags().Var(name(&c.Lane, "lane"), "lane", "those of this lane")
	cmd.Flags().Var(word(&c.match, "TEXT", 1024), "match", "those whose reason, type or key contains this")
	cmd.Flags().Var(number(&c.limit, 1, math.MaxInt), "limit", "this many at most")
}

func stateWords(states []queue.State) []string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return words
}

// each calls f with the jobs that were chosen, until --limit.
func (c *jobChoice) each(ctx context.Context, jobs *queue.Client, f func(*queue.Info) error) error {
	n := 0
	for info, err := range jobs.List(ctx, c.Selection) {
		if err != nil {
			return err
		}
		if c.match != "" && !strings.Contains(info.Reason, c.match) && !strings.Contains(info.Message.Type, c.match) && !strings.Contains(info.Message.Key, c.match) {
			continue
		}
		if err := f(&info); err != nil {
			return err
		}
		if n++; n == c.limit {
			return nil
		}
	}
	return nil
}

func jobsList(a *app) *cobra.Command {
	c := &jobChoice{}
	cmd := &cobra.Command{
		Use:   "ls QUEUE",
		Short: "List the jobs of a queue that are not done",
		Long: `List the jobs of a queue that are not done: those in lanes, lane by lane, as they
came; those that wait for their time, the first due first; those that wait for
children; dead ones, the first to die first. A job that moves meanwhile may come
twice, in each of its states, or not.

STATE is ready, active (a worker has it), scheduled, retry (it failed, and is tried
again), waiting (for children) or dead. WHEN is how long ago an active one was given
out or its lease renewed, how long until one is due, or how long a dead one has been. The
table ends after 1,000, unless --limit says otherwise. JSON has the message.`,
		Example: `  pipeline jobs ls billing --state dead --match timeout
  pipeline jobs ls billing --lane night --limit 10`,
		Args: arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, client *tier.Client, jobs *queue.Client) error {
				return a.listJobs(ctx, client, jobs, args[0], c)
			})
		},
	}
	c.listFlags(cmd, queue.Ready, queue.Active, queue.Scheduled, queue.Retry, queue.Waiting, queue.Dead)
	return cmd
}

func (a *app) listJobs(ctx context.Context, client *tier.Client, jobs *queue.Client, name string, c *jobChoice) (err error) {
	if a.json() {
		err = c.each(ctx, jobs, func(i *queue.Info) error {
			a.done++
			return a.printObject(jobOf(name, i))
		})
	} else {
		err = a.jobTable(ctx, client, jobs, name, c)
	}
	if err != nil || a.done > 0 {
		return err
	}
	if _, err = overview(ctx, jobs); err == nil && !a.json() {
		a.note("no such jobs in %s", name)
	}
	return err
}

func (a *app) jobTable(ctx context.Context, client *tier.Client, jobs *queue.Client, name string, c *jobChoice) error {
	now, err := client.Now(ctx, tier.Queue(name).QueueKey())
	if err != nil {
		return err
	}
	bound := c.limit == 0
	if bound {
		c.limit = tableRows
	}
	rows := [][]string{{"JOB", "STATE", "LANE", "TYPE", "KEY", ">ATTEMPTS", ">WHEN", "WORKER OR REASON"}}
	err = c.each(ctx, jobs, func(i *queue.Info) error {
		rows = append(rows, jobRow(i, now))
		a.done++
		return nil
	})
	if err != nil || len(rows) == 1 {
		return err
	}
	fit(rows, a.width())
	if err := a.print(show.Table(rows)); err != nil {
		return err
	}
	if bound && len(rows) > tableRows {
		a.note("these are the first %d: --limit N, --match TEXT or --output json shows others", tableRows)
	}
	return nil
}

func jobRow(i *queue.Info, now time.Time) []string {
	const widest = 24
	kind, when, about := i.Message.Type, "-", i.Reason
	if i.Err != nil {
		kind = "(undecodable)"
	}
	switch i.State {
	case queue.Active:
		when, about = show.Duration(i.Idle), i.Worker
	case queue.Scheduled, queue.Retry:
		when = show.Duration(max(0, i.At.Sub(now)))
	case queue.Waiting, queue.Dead:
		when = show.Duration(max(0, now.Sub(i.At)))
	}
	return []string{
		i.ID.String(), string(i.State), i.Lane, show.Clip(show.Printable(kind), widest), show.Clip(show.Printable(i.Message.Key), widest),
		strconv.Itoa(i.Attempts), when, orDash(show.Printable(about)),
	}
}
