package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
		Long: `Show a job whole: where it is, who has it, why it failed last, and its message. Of
one that is done, what it came to, for as long as that is kept.`,
		Example: `  pipeline jobs show billing --id JOB0STCa4O4Feq`,
		Args:    arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(c.ids) == 0 {
				return usagef("want the id of a job: --id ID ('pipeline jobs ls %s' lists them)", args[0])
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				for _, id := range c.ids {
					if err := a.showJob(ctx, jobs, args[0], id); err != nil {
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

func (a *app) showJob(ctx context.Context, jobs *queue.Client, name string, id codec.ID) error {
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
	idle, result := "", ""
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
		{"result", result},
	} {
		if part[1] != "" {
			fmt.Fprintf(&b, "%-9s%s\n", part[0], show.Printable(part[1]))
		}
	}
	var message bytes.Buffer
	if json.Indent(&message, j.Message, "", "  ") == nil {
		for line := range strings.SplitSeq(message.String(), "\n") {
			b.WriteString(show.Printable(line) + "\n")
		}
	}
	return b.String()
}
