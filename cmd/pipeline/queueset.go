package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func queueSet(a *app) *cobra.Command {
	ceiling, events := 0, 0
	var limit *queue.Rate
	cmd := &cobra.Command{
		Use:   "set QUEUE",
		Short: "Set the ceiling, the rate and the events of a queue",
		Long: `Set the ceiling and the rate of a queue, over all its lanes and workers: how many of
its jobs may be active at once, where those that are active already go on, and count;
and how many may begin in a time: --rate 1000/1m lets a thousand begin at once, and
then one whenever its part of the minute has passed. What is not given stays as it is.
They may be set before the first job.

With --events 100000 the queue tells what becomes of its jobs in the stream
QUEUE/jobs.events, of which about so many messages are kept; none ends that, and what
was told stays. 'pipeline tail' shows it, 'pipeline queues history' counts it.`,
		Example: `  pipeline queues set billing --ceiling 100 --rate 1000/1m
  pipeline queues set billing --ceiling none --events 100000`,
		Args: arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ceiling == 0 && limit == nil && events == 0 {
				return usagef("want what to set: --ceiling, --rate or --events")
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				if ceiling != 0 {
					if err := jobs.SetCeiling(ctx, max(0, ceiling)); err != nil {
						return err
					}
				}
				if limit != nil {
					if err := jobs.Limit(ctx, *limit); err != nil {
						return err
					}
				}
				if events != 0 {
					if err := jobs.DeclareEvents(ctx, max(0, events)); err != nil {
						return err
					}
				}
				o, err := jobs.Overview(ctx)
				if err != nil {
					return err
				}
				return a.printQueues(o)
			})
		},
	}
	cmd.Flags().Var(bound(&ceiling), "ceiling", "how many of its jobs may be active at once")
	cmd.Flags().Var(rate(&limit), "rate", "how many of its jobs may begin in a time, as in 1000/1m")
	cmd.Flags().Var(bound(&events), "events", "how many messages are kept of what becomes of its jobs")
	return cmd
}
