package main

import (
	"context"
	"encoding/json"
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
		Short: "Enqueue jobs, see them, retry, cancel and remove them",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(jobsEnqueue(a), jobsList(a), jobsShow(a), jobsRetry(a), jobsCancel(a), jobsRemove(a))
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

func (a *app) listJobs(ctx context.Context, client *tier.Client, jobs *queue.Client, name string, c *jobChoice) error {
	if a.json() {
		return c.each(ctx, jobs, func(i *queue.Info) error {
			a.done++
			return a.printObject(jobOf(name, i))
		})
	}
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
	if err != nil {
		return err
	}
	if len(rows) == 1 {
		a.note("no such jobs in %s", name)
		return nil
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

// jobJSON is a job; of one that is done, what it came to.
type jobJSON struct {
	Job      codec.ID        `json:"job"`
	Queue    string          `json:"queue"`
	State    queue.State     `json:"state"`
	Lane     string          `json:"lane,omitempty"`
	Attempts int             `json:"attempts"`
	At       string          `json:"at,omitempty"`
	Worker   string          `json:"worker,omitempty"`
	Idle     float64         `json:"idle_seconds,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Message  json.RawMessage `json:"message,omitempty"`
	Error    string          `json:"error,omitempty"`
	Raw      []byte          `json:"raw,omitempty"` // of one that cannot be decoded: base64
	Result   *string         `json:"result,omitempty"`
}

func jobOf(name string, i *queue.Info) jobJSON {
	j := jobJSON{
		Job: i.ID, Queue: name, State: i.State, Lane: i.Lane, Attempts: i.Attempts, At: timeText(i.At), Worker: i.Worker, Idle: i.Idle.Seconds(), Reason: i.Reason,
	}
	if i.Err != nil {
		j.Error, j.Raw = oneLine(i.Err), i.Raw
		return j
	}
	j.Message = show.AppendMessage(nil, &i.Message)
	return j
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
