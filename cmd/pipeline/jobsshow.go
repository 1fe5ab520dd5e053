package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func jobsShow(a *app) *cobra.Command {
	c := &jobChoice{}
	cmd := &cobra.Command{
		Use:   "show QUEUE --id ID",
		Short: "Show a job whole, or what it came to",
		Long: `Show a job whole: where it is, who has it, why it failed last, what it asks of its
worker, its message, and how far its handler says that it is ('pipeline jobs logs' has
the rest); of one that waits in a flow, the tree of its children. Of one that is done,
what it came to, for as long as that is kept.`,
		Example: `  pipeline jobs show billing --id JOB0STCa4O4Feq`,
		Args:    arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.wantsID(args[0]); err != nil {
				return err
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, client *tier.Client, jobs *queue.Client) error {
				for _, id := range c.ids {
					if err := a.showJob(ctx, client, jobs, args[0], id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.idFlag(cmd)
	return cmd
}

func (a *app) showJob(ctx context.Context, client *tier.Client, jobs *queue.Client, name string, id codec.ID) error {
	var j jobJSON
	info, err := jobs.Get(ctx, id)
	switch {
	case errors.Is(err, queue.ErrNoJob):
		outcome, resultErr := jobs.Result(ctx, id)
		if errors.Is(resultErr, queue.ErrNoResult) || resultErr == nil && !outcome.Done {
			return err
		}
		if resultErr != nil {
			return resultErr
		}
		j = jobJSON{Job: id, Queue: name, State: "done", Result: &outcome.Result}
	case err != nil:
		return err
	default:
		j = jobOf(name, &info)
		n, err := jobs.Notes(ctx, id)
		if err != nil && !errors.Is(err, queue.ErrNoJob) { // it ended meanwhile
			return err
		}
		j.Progress, j.ProgressAt, j.LogLines = string(n.Progress), timeText(n.At), len(n.Lines)
		if info.Family {
			if j.Children, err = tree(ctx, client, name, id); err != nil {
				return err
			}
		}
	}
	a.done++
	if a.json() {
		return a.printObject(j)
	}
	return a.print(j.detail())
}

// detail is a job as a person reads one.
func (j *jobJSON) detail() string {
	var b strings.Builder
	idle, result, lines := "", "", ""
	if j.LogLines > 0 {
		lines = show.Count(j.LogLines, "line")
	}
	if j.Worker != "" {
		idle = strconv.FormatFloat(j.Idle, 'f', 3, 64) + " s"
	}
	if j.Result != nil {
		result = *j.Result
	}
	for _, part := range [][2]string{
		{"job", j.Job.String()},
		{"state", string(j.State)},
		{"lane", j.Lane},
		{"attempts", strconv.Itoa(j.Attempts)},
		{"at", j.At},
		{"worker", j.Worker},
		{"idle", idle},
		{"reason", j.Reason},
		{"error", j.Error},
		{"progress", j.Progress},
		{"noted", j.ProgressAt},
		{"log", lines},
		{"result", result},
		{"unique", j.Unique},
		{"asks", j.Terms.text()},
		{"parent", strings.TrimSpace(j.Parent + " " + j.ParentQueue)},
	} {
		if part[1] != "" {
			fmt.Fprintf(&b, "%-9s%s\n", part[0], show.Printable(part[1]))
		}
	}
	if len(j.Children) > 0 {
		fmt.Fprintf(&b, "%-9s%s\n", "children", show.Count(len(j.Children), "job"))
		draw(&b, j.Children, "")
	}
	var message bytes.Buffer
	if json.Indent(&message, j.Message, "", "  ") == nil {
		for line := range strings.SplitSeq(message.String(), "\n") {
			b.WriteString(show.Printable(line) + "\n")
		}
	}
	return b.String()
}

// text is what a job asks of its worker, in words.
func (t *termsJSON) text() string {
	if t == nil {
		return ""
	}
	var words []string
	add := func(is bool, format string, value any) {
		if is {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	seconds := func(s float64) string { return show.Duration(time.Duration(s * float64(time.Second))) }
	add(t.MaxAttempts > 0, "%d attempts", t.MaxAttempts)
	add(t.MaxAttempts < 0, "attempts %s", "without end")
	add(t.Backoff > 0, "backoff %s", seconds(t.Backoff))
	add(t.MaxBackoff > 0, "up to %s", seconds(t.MaxBackoff))
	add(t.Timeout > 0, "timeout %s", seconds(t.Timeout))
	add(t.Deadline != "", "deadline %s", t.Deadline)
	add(t.Keep > 0, "keep %s", seconds(t.Keep))
	add(len(t.Tags) > 0, "tags %s", strings.Join(t.Tags, " "))
	return strings.Join(words, ", ")
}
