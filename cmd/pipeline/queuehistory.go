package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	jobhistory "github.com/echomq/pipeline/consumer/history"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// historyWindow is what of the history is shown.
type historyWindow struct{ last, step time.Duration }

func queueHistory(a *app) *cobra.Command {
	w := historyWindow{30 * time.Minute, time.Minute}
	cmd := &cobra.Command{
		Use:   "history QUEUE",
		Short: "Show what became of the jobs of a queue, minute by minute",
		Long: `Show what became of the jobs of a queue in the --last half hour, up to a week, by
the minute or a longer --step, but those in which nothing happened: how many were enqueued, started, completed, to be
tried again or put off (POSTPONED), given up (DIED), cancelled and removed. WAIT is
how long those that were started had been ready, RUN how long workers had those of
which an attempt ended, on average; JSON has the longest as well, and all else that
was told. The last line is what is not over yet.

The queue has to tell what becomes of its jobs: 'pipeline queues set QUEUE --events N'.
What was told since somebody looked last is counted first, once, whoever does it: so
look, or let a program run it, before N messages more are told.`,
		Example: `  pipeline queues history billing
  pipeline queues history billing --last 1d --step 1h`,
		Args: arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.step < time.Minute || w.step%time.Minute != 0 {
				return usagef("--step %s: want whole minutes, one or more", w.step)
			}
			if w.last < w.step || w.last > jobhistory.Kept {
				return usagef("--last %s: want from %s, which is one --step, to %s", w.last, w.step, jobhistory.Kept)
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, client *tier.Client, _ *queue.Client) error {
				return a.history(ctx, client, args[0], w)
			})
		},
	}
	cmd.Flags().Var(duration(&w.last), "last", "how far to look back (default 30m)")
	cmd.Flags().Var(duration(&w.step), "step", "how long each line is (default 1m)")
	return cmd
}

func (a *app) history(ctx context.Context, client *tier.Client, name string, w historyWindow) error {
	err := jobhistory.CatchUp(ctx, client, jobhistory.Config{Queue: name, Logger: a.logger()})
	if errors.Is(err, stream.ErrNoStream) {
		return notFound(fmt.Sprintf("queue %s does not tell what becomes of its jobs: 'pipeline queues set %s --events 100000' lets it", name, name))
	}
	if err != nil {
		return err
	}
	now, err := client.Now(ctx, tier.Queue(name).QueueKey())
	if err != nil {
		return err
	}
	end := now.Truncate(w.step).Add(w.step)
	minutes, err := jobhistory.Read(ctx, client, name, end.Add(-w.last.Truncate(w.step)), end)
	if err != nil {
		return err
	}
	steps := w.steps(minutes)
	a.done = len(steps)
	return a.printHistory(name, steps)
}

// steps adds minutes up. The first begins with the first minute.
func (w historyWindow) steps(minutes []jobhistory.Minute) (steps []jobhistory.Minute) {
	for _, m := range minutes {
		if n := len(steps); n == 0 || m.At.Sub(steps[n-1].At) >= w.step {
			steps = append(steps, jobhistory.Minute{At: m.At})
		}
		steps[len(steps)-1].Add(m)
	}
	return steps
}

type historyJSON struct {
	Queue      string               `json:"queue"`
	At         string               `json:"at"`
	Counts     map[queue.What]int64 `json:"counts"`
	Wait       float64              `json:"wait_seconds"`
	WaitMax    float64              `json:"wait_max_seconds"`
	Run        float64              `json:"run_seconds"`
	RunMax     float64              `json:"run_max_seconds"`
	KnownWaits int64                `json:"waits"`
	KnownRuns  int64                `json:"runs"`
}

// historyColumns are those of the table, as events have them.
var historyColumns = []queue.What{queue.Enqueued, queue.Started, queue.Completed, queue.Postponed, queue.Died, queue.Cancelled, queue.Removed}

func (a *app) printHistory(name string, steps []jobhistory.Minute) error {
	rows := [][]string{{"TIME", ">ENQUEUED", ">STARTED", ">COMPLETED", ">POSTPONED", ">DIED", ">CANCELLED", ">REMOVED", ">WAIT", ">RUN"}}
	var completed []int64
	for _, m := range steps {
		if a.json() {
			if err := a.printObject(historyJSON{
				name, show.Time(m.At), m.Counts, m.Waited.Mean().Seconds(), m.Waited.Max.Seconds(), m.Ran.Mean().Seconds(), m.Ran.Max.Seconds(), m.Waited.N, m.Ran.N,
			}); err != nil {
				return err
			}
			continue
		}
		completed = append(completed, m.Counts[queue.Completed])
		if len(m.Counts) == 0 {
			continue
		}
		row := []string{show.Time(m.At)}
		for _, what := range historyColumns {
			row = append(row, show.Number(m.Counts[what]))
		}
		rows = append(rows, append(row, ageText(m.Waited.N > 0, m.Waited.Mean()), ageText(m.Ran.N > 0, m.Ran.Mean())))
	}
	if a.json() {
		return nil
	}
	if len(rows) == 1 {
		a.note("nothing became of jobs of %s in that time", name)
		return nil
	}
	text := show.Table(rows)
	if isTerminal(a.out) {
		const label = "completed "
		if room := a.width() - len(label); room > 0 && room < len(completed) {
			completed = completed[len(completed)-room:]
		}
		text += label + show.Spark(completed) + "\n"
	}
	return a.print(text)
}
