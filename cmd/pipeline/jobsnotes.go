package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func jobsLogs(a *app) *cobra.Command {
	c := &jobChoice{}
	cmd := &cobra.Command{
		Use:   "logs QUEUE --id ID",
		Short: "Show what the handlers of a job have logged",
		Long: `Show what the handlers of a job have logged, the oldest first: the newest lines, as
many as it keeps, until it is done or removed. A dead one has its log.`,
		Example: `  pipeline jobs logs billing --id JOB0STCa4O4Feq`,
		Args:    arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.wantsID(args[0]); err != nil {
				return err
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				for _, id := range c.ids {
					if err := a.printLog(ctx, jobs, id); err != nil {
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

func (a *app) printLog(ctx context.Context, jobs *queue.Client, id codec.ID) error {
	n, err := jobs.Notes(ctx, id)
	if err != nil {
		return err
	}
	if n.Dropped > 0 {
		a.note("%s before these dropped: a job keeps the newest", show.Count(n.Dropped, "line"))
	}
	for _, l := range n.Lines {
		a.done++
		if a.json() {
			err = a.printObject(struct {
				Job  codec.ID `json:"job"`
				At   string   `json:"at"`
				Line string   `json:"line"`
			}{id, timeText(l.At), l.Text})
		} else {
			err = a.print(timeText(l.At) + "  " + show.Printable(l.Text) + "\n")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func jobsUpdate(a *app) *cobra.Command {
	c, data, kind := &jobChoice{}, "", ""
	cmd := &cobra.Command{
		Use:   "update QUEUE --id ID --data JSON",
		Short: "Change what a job carries that no worker has",
		Long: `Change what a job carries that no worker has; its key and headers stay. One that is
ready goes to the end of its lane, any other stays where it is: so a dead one can be
put right and taken up again with 'pipeline jobs retry'.`,
		Example: `  pipeline jobs update billing --id JOB0STCa4O4Feq --data '{"to":"ann@example.org"}'`,
		Args:    arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.wantsID(args[0]); err != nil {
				return err
			}
			if data == "" && kind == "" {
				return usagef("want what is to change: --data JSON, --type TYPE, or both")
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				for _, id := range c.ids {
					if err := a.updateJob(ctx, jobs, args[0], id, kind, data); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.idFlag(cmd)
	cmd.Flags().Var(jsonText(&data), "data", "what it is to carry")
	cmd.Flags().Var(word(&kind, "TYPE", codec.MaxType), "type", "another type, which says who handles it")
	return cmd
}

func (a *app) updateJob(ctx context.Context, jobs *queue.Client, name string, id codec.ID, kind, data string) error {
	info, err := jobs.Get(ctx, id)
	if err != nil {
		return err
	}
	if info.Err != nil && (kind == "" || data == "") {
		return fmt.Errorf("%s cannot be decoded (%s): give it --type and --data", id, oneLine(info.Err))
	}
	m := info.Message
	if info.Err != nil {
		m = codec.Message{}
	}
	if kind != "" {
		m.Type = kind
	}
	if data != "" {
		m.Data = []byte(data)
		m.Headers.Set(codec.HeaderContentType, "application/json")
	}
	err = jobs.Update(ctx, id, m)
	if errors.Is(err, queue.ErrActive) {
		return fmt.Errorf("%s stays as it is, since a worker has it: cancel it, or wait until it has ended", id)
	}
	if err != nil {
		return err
	}
	a.done++
	if !a.json() {
		return a.print("updated " + id.String() + "\n")
	}
	return a.printObject(struct {
		Action string   `json:"action"`
		Job    codec.ID `json:"job"`
		Queue  string   `json:"queue"`
	}{"update-job", id, name})
}
