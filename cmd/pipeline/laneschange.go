package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// laneFlag is the flag that a command about one lane needs.
func laneFlag(cmd *cobra.Command, lane *string) {
	cmd.Flags().Var(name(lane, "lane"), "lane", "the lane")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := arguments(1, 1, wantsQueue)(cmd, args); err != nil {
			return err
		}
		if *lane == "" {
			return usagef("want a lane: --lane NAME ('pipeline lanes %s' lists them)", args[0])
		}
		return nil
	}
}

// bound is a number above 0, or none, which is -1.
func bound(p *int) *value {
	return &value{kind: "N|none", set: func(s string) error {
		n, err := strconv.Atoi(s)
		switch {
		case s == "none":
			n = -1
		case err != nil || n < 1 || n > math.MaxInt32:
			return fmt.Errorf("want a whole number from 1 to %d, or none", math.MaxInt32)
		}
		*p = n
		return nil
	}}
}

// rate is how many jobs may begin in a time, or none, which is the zero value.
func rate(p **queue.Rate) *value {
	return &value{kind: "N/DUR|none", set: func(s string) error {
		*p = &queue.Rate{}
		if s == "none" {
			return nil
		}
		jobs, per, _ := strings.Cut(s, "/")
		n, err1 := strconv.Atoi(jobs)
		d, err2 := when.ParseDuration(per)
		if errors.Join(err1, err2) != nil || n < 1 || n > math.MaxInt32 || d%time.Millisecond != 0 {
			return errors.New("want jobs in a time, in whole milliseconds, as in 100/1m, or none")
		}
		**p = queue.Rate{Jobs: n, Per: d}
		return nil
	}}
}

func laneSet(a *app) *cobra.Command {
	lane, weight, ceiling := "", 0.0, 0
	var limit *queue.Rate
	cmd := &cobra.Command{
		Use:   "set QUEUE --lane NAME",
		Short: "Set the weight, the ceiling and the rate of a lane",
		Long: `Set the weight, the ceiling and the rate of a lane, which need not have jobs. What is
not given stays as it is. A lane of weight 3 has three turns for each one of a lane
of weight 1, which is the default. --rate 100/1m lets a hundred begin at once, and
then one whenever its part of the minute has passed.`,
		Example: `  pipeline lanes set billing --lane bulk --weight 0.5 --ceiling 10 --rate 100/1m
  pipeline lanes set billing --lane bulk --ceiling none --rate none`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if weight == 0 && ceiling == 0 && limit == nil {
				return usagef("want what to set: --weight, --ceiling or --rate")
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				if weight != 0 || ceiling != 0 {
					if _, err := jobs.SetLane(ctx, lane, weight, ceiling); err != nil {
						return err
					}
				}
				if limit != nil {
					if _, err := jobs.LimitLane(ctx, lane, *limit); err != nil {
						return err
					}
				}
				return a.printLane(ctx, jobs, args[0], lane)
			})
		},
	}
	laneFlag(cmd, &lane)
	cmd.Flags().Var(&value{kind: "N", set: func(s string) (err error) {
		if weight, err = strconv.ParseFloat(s, 64); err != nil || !(weight >= 0.001 && weight <= 1000) {
			return errors.New("want a number from 0.001 to 1000")
		}
		return nil
	}}, "weight", "its part of the turns")
	cmd.Flags().Var(bound(&ceiling), "ceiling", "how many of its jobs may be active at once")
	cmd.Flags().Var(rate(&limit), "rate", "how many of its jobs may begin in a time, as in 100/1m")
	return cmd
}

// printLane tells how a lane is now.
func (a *app) printLane(ctx context.Context, jobs *queue.Client, name, lane string) error {
	info, err := jobs.LaneInfo(ctx, lane)
	if err != nil {
		return err
	}
	j := laneOf(name, &info)
	if a.json() {
		return a.printObject(j)
	}
	return a.print(fmt.Sprintf("lane %s of %s: %s, weight %g, ceiling %s, rate %s, %d ready, %d active\n",
		lane, name, j.State, j.Weight, ceilingText(j.Ceiling), rateText(info.Rate), j.Ready, j.Active))
}

func lanePause(a *app, verb string) *cobra.Command {
	short, long, change := "Let nothing of a lane be handed out until it is resumed", `Let nothing of a lane be handed out, in whichever process, until 'pipeline lanes
resume'. What workers have of it they finish; jobs may be enqueued.`, (*queue.Client).PauseLane
	if verb == "resume" {
		short, long, change = "End the pause of a lane", "End the pause of a lane.", (*queue.Client).ResumeLane
	}
	lane := ""
	cmd := &cobra.Command{
		Use: verb + " QUEUE --lane NAME", Short: short, Long: long, Example: "  pipeline lanes " + verb + " billing --lane bulk",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				if err := change(jobs, ctx, lane); err != nil {
					return err
				}
				return a.printLane(ctx, jobs, args[0], lane)
			})
		},
	}
	laneFlag(cmd, &lane)
	return cmd
}

func laneMove(a *app) *cobra.Command {
	c, to := &jobChange{confirm: confirm{app: a}, verb: "move", did: "moved"}, ""
	c.change = func(ctx context.Context, jobs *queue.Client, ids []codec.ID, r *jobsChanged) error {
		return r.each(ids, func(id codec.ID) error { return jobs.Move(ctx, id, to) })
	}
	cmd := c.command(&cobra.Command{
		Use:   "move QUEUE --to NAME",
		Short: "Move jobs that no worker has to another lane",
		Long: `Move jobs that no worker has to another lane: --id, those in a --state or of a --lane
or that --match a text, or --all. Ready ones go to its end, others into it for when
their time comes.`,
		Example: `  pipeline lanes move billing --lane bulk --to night --dry-run
  pipeline lanes move billing --id JOB0STCa4O4Feq --to urgent --yes`,
	}, queue.Ready, queue.Scheduled, queue.Retry, queue.Waiting, queue.Dead)
	cmd.Flags().Var(name(&to, "lane"), "to", "the lane that they are moved to")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to == "" {
			return usagef("want the lane that they are moved to: --to NAME")
		}
		return run(cmd, args)
	}
	return cmd
}
