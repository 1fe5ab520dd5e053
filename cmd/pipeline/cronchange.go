package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
)

func cronAdd(a *app) *cobra.Command {
	s := queue.Schedule{Job: queue.Job{Lane: queue.DefaultLane}}
	var catchUp, data string
	cmd := &cobra.Command{
		Use:   "add QUEUE --name NAME --type TYPE",
		Short: "Add a schedule, or change one that was added",
		Long: `Add a schedule to a queue, or change one: a job of --type is made at the times of a
--cron expression, in a --zone, or --every so often, on a grid that goes through
--anchor. The expression has five fields, as in crontab, or is @daily and the like.

--catch-up says what becomes of what was due while nobody fired: once makes one job,
skip makes one if it is at most a minute late, all makes those of the latest times,
up to --catch-up-limit.

A schedule whose times have not changed keeps its next one. One that a program has
declared is refused: it would be declared anew when the program starts.`,
		Example: `  pipeline cron add billing --name invoices --cron "30 2 * * *" --zone America/New_York --type invoices
  pipeline cron add billing --name poll --every 10s --type poll --data '{"bank":"main"}' --catch-up skip`,
		Args: arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSchedule(&s); err != nil {
				return err
			}
			s.CatchUp = schedule.CatchUp(catchUp)
			if data != "" {
				s.Job.Data = []byte(data)
				s.Job.Headers.Set(codec.HeaderContentType, "application/json")
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				schedules := queue.NewSchedules(jobs)
				if err := schedules.Put(ctx, s); err != nil {
					return err
				}
				return a.printSchedule(ctx, "add", "added", args[0], schedules, s.Name)
			})
		},
	}
	f := cmd.Flags()
	f.Var(name(&s.Name, "schedule"), "name", "name of the schedule")
	f.Var(word(&s.Cron, "EXPR", 1024), "cron", "when: five fields, as in crontab, or @hourly, @daily, @weekly, @monthly, @yearly")
	f.Var(word(&s.Zone, "ZONE", 256), "zone", "time zone of --cron, as in Europe/Berlin (default UTC)")
	f.Var(duration(&s.Every), "every", "how often, in place of --cron")
	f.Var(moment(&s.Anchor), "anchor", "a time of the grid of --every (default 1970-01-01T00:00:00Z)")
	f.Var(choice(&catchUp, string(schedule.Once), string(schedule.Skip), string(schedule.All)), "catch-up", "what becomes of what was due while nobody fired (default once)")
	f.Var(number(&s.Limit, 1, 1000), "catch-up-limit", "how many jobs --catch-up all makes at most (default 100)")
	f.Var(word(&s.Job.Type, "TYPE", codec.MaxType), "type", "type of the jobs, which says who handles them")
	f.Var(name(&s.Job.Lane, "lane"), "lane", "lane of the jobs (default default)")
	f.Var(jsonText(&data), "data", "what the jobs carry (default nothing)")
	return cmd
}

// checkSchedule refuses what can be refused before anything is sent.
func checkSchedule(s *queue.Schedule) error {
	switch {
	case s.Name == "":
		return usagef("want a name for the schedule: --name NAME")
	case s.Job.Type == "":
		return usagef("want the type of the jobs: --type TYPE")
	case (s.Cron == "") == (s.Every == 0):
		return usagef("want when: --cron EXPR or --every DUR")
	case s.Cron == "" && s.Zone != "":
		return usagef("--zone is that of --cron")
	case s.Cron != "" && !s.Anchor.IsZero():
		return usagef("--anchor is that of --every")
	}
	var err error
	if s.Cron != "" {
		_, err = schedule.Cron(s.Cron, s.Zone)
	} else {
		_, err = schedule.Every(s.Every, s.Anchor)
	}
	return err
}

// printSchedule says what has become of a schedule.
func (a *app) printSchedule(ctx context.Context, action, did, queueName string, schedules *queue.Schedules, name string) error {
	list, err := schedules.List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(d queue.Declared) bool { return d.Name == name })
	if i < 0 {
		return noSchedule(queueName, name)
	}
	if !a.json() {
		return a.print(scheduleLine(did, queueName, &list[i]))
	}
	return a.printObject(struct {
		Action string `json:"action"`
		scheduleJSON
	}{action + "-schedule", scheduleOf(queueName, &list[i])})
}

func scheduleLine(did, queueName string, d *queue.Declared) string {
	next := "never due"
	if !d.Next.IsZero() {
		next = "due " + show.Time(d.Next)
	}
	return fmt.Sprintf("%s schedule %s of %s: %s\n", did, d.Name, queueName, next)
}

func noSchedule(queueName, name string) error {
	return notFound(fmt.Sprintf("%s has no schedule %s: 'pipeline cron ls %s' lists them", queueName, name, queueName))
}

func cronRemove(a *app) *cobra.Command {
	c := confirm{app: a}
	var which string
	cmd := &cobra.Command{
		Use:   "rm QUEUE --name NAME",
		Short: "Remove a schedule; its jobs stay",
		Long: `Remove a schedule. The jobs that it made stay. One that a program has declared is
there again when the program starts.

On a terminal it shows the schedule and wants its name typed; elsewhere it needs
--yes. --dry-run changes nothing.`,
		Example: `  pipeline cron rm billing --name poll --dry-run
  pipeline cron rm billing --name poll --yes`,
		Args: arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if which == "" {
				return wantsSchedule(args[0])
			}
			if err := c.possible(); err != nil {
				return err
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				return c.removeSchedule(ctx, args[0], queue.NewSchedules(jobs), which)
			})
		},
	}
	cmd.Flags().Var(name(&which, "schedule"), "name", "name of the schedule")
	c.flags(cmd)
	return cmd
}

func wantsSchedule(queueName string) error {
	return usagef("want the name of a schedule: --name NAME ('pipeline cron ls %s' lists them)", queueName)
}

func (c *confirm) removeSchedule(ctx context.Context, queueName string, schedules *queue.Schedules, name string) error {
	list, err := schedules.List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(d queue.Declared) bool { return d.Name == name })
	if i < 0 {
		return noSchedule(queueName, name)
	}
	did := "would remove"
	if !c.dryRun {
		if err := c.asked(ctx, scheduleLine(did, queueName, &list[i]), name); err != nil {
			return err
		}
		if err := schedules.Remove(ctx, name); err != nil {
			return err
		}
		did = "removed"
	}
	if !c.app.json() {
		return c.app.print(scheduleLine(did, queueName, &list[i]))
	}
	return c.app.printObject(struct {
		Action string `json:"action"`
		DryRun bool   `json:"dry_run"`
		scheduleJSON
	}{"remove-schedule", c.dryRun, scheduleOf(queueName, &list[i])})
}

func cronRun(a *app) *cobra.Command {
	var which string
	cmd := &cobra.Command{
		Use:   "run QUEUE --name NAME",
		Short: "Make the job of a schedule now, beside its times",
		Long: `Make the job of a schedule now, beside its times: when it is due next stays as it
is. The job's header occurrence is the server's time.`,
		Example: `  pipeline cron run billing --name invoices`,
		Args:    arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if which == "" {
				return wantsSchedule(args[0])
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				id, err := queue.NewSchedules(jobs).FireNow(ctx, which)
				if err != nil {
					return err
				}
				if !a.json() {
					return a.print(fmt.Sprintf("made job %s of schedule %s of %s\n", id, which, args[0]))
				}
				return a.printObject(struct {
					Action   string   `json:"action"`
					Queue    string   `json:"queue"`
					Schedule string   `json:"schedule"`
					Job      codec.ID `json:"job"`
				}{"run-schedule", args[0], which, id})
			})
		},
	}
	cmd.Flags().Var(name(&which, "schedule"), "name", "name of the schedule")
	return cmd
}
