package main

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
	_ "time/tzdata" // zones of schedules are known where the system has no database: in an empty container, on Windows

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
)

func cronCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cron",
		Short: "See the schedules of a queue, add and remove them, make a job of one now",
		Args:  cobra.ArbitraryArgs,
		RunE:  runParent,
	}
	cmd.AddCommand(cronList(a), cronAdd(a), cronRemove(a), cronRun(a))
	return cmd
}

// wantsQueue is the argument of commands about a queue.
const wantsQueue = "the name of a queue"

// withJobs runs f with a client of a queue, whose name is refused before anything is sent.
func (a *app) withJobs(ctx context.Context, name string, f func(context.Context, *tier.Client, *queue.Client) error) error {
	if err := tier.CheckName("queue", name); err != nil {
		return err
	}
	if name == tier.ReservedScope {
		return usagef("queue %q: this name is reserved for the deployment's own keys", name)
	}
	return a.withClient(ctx, func(ctx context.Context, client *tier.Client) error {
		jobs, err := queue.NewClient(client, queue.Config{Queue: name})
		if err != nil {
			return err
		}
		defer func() { _ = jobs.Close(context.WithoutCancel(ctx)) }() // what is not given back runs out
		return f(ctx, client, jobs)
	})
}

func cronList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ls QUEUE",
		Short: "List the schedules of a queue, and when each is due",
		Long: `List the schedules of a queue, by name. TIMES is the cron expression with its zone,
or the interval; NEXT the first time that nobody has fired for; LAST the last one
that a job was made for, and LAST JOB that job. CATCH-UP says what becomes of what
was due while nobody fired. SET is the set that a program has declared it with, "-"
for one that was added by itself. JSON has the message as well.

Schedules are fired by the programs that work on the queue.`,
		Example: `  pipeline cron ls billing`,
		Args:    arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				return a.schedules(ctx, args[0], jobs)
			})
		},
	}
}

func (a *app) schedules(ctx context.Context, name string, jobs *queue.Client) error {
	list, err := queue.NewSchedules(jobs).List(ctx)
	if err != nil {
		return err
	}
	a.done = len(list)
	if len(list) == 0 {
		a.note("%s has no schedules: 'pipeline cron add %s' makes one", name, name)
		return nil
	}
	rows := [][]string{{"SCHEDULE", "TIMES", "NEXT", "LAST", "TYPE", "LANE", "CATCH-UP", "SET", "LAST JOB"}}
	for i := range list {
		if a.json() {
			if err := a.printObject(scheduleOf(name, &list[i])); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, scheduleRow(&list[i]))
	}
	if a.json() {
		return nil
	}
	return a.print(show.Table(narrowed(rows, a.width(), 4)))
}

type scheduleJSON struct {
	Queue    string           `json:"queue"`
	Schedule string           `json:"schedule"`
	Set      string           `json:"set"`
	Cron     string           `json:"cron,omitempty"`
	Zone     string           `json:"zone,omitempty"`
	Every    float64          `json:"every_seconds,omitempty"`
	Anchor   string           `json:"anchor,omitempty"`
	CatchUp  schedule.CatchUp `json:"catch_up"`
	Limit    int              `json:"catch_up_limit"`
	Next     string           `json:"next"`
	Last     string           `json:"last"`
	LastJob  string           `json:"last_job"`
	Lane     string           `json:"lane"`
	Message  json.RawMessage  `json:"message,omitempty"`
	Error    string           `json:"error,omitempty"`
}

func scheduleOf(name string, d *queue.Declared) scheduleJSON {
	s := scheduleJSON{
		Queue: name, Schedule: d.Name, Set: d.Set, Cron: d.Cron, Zone: zoneOf(d), Every: d.Every.Seconds(), CatchUp: d.CatchUp, Limit: d.Limit,
		Next: timeText(d.Next), Last: timeText(d.Last), LastJob: idText(d.LastJob), Lane: d.Job.Lane,
	}
	if d.Every > 0 {
		s.Anchor = timeText(d.Anchor)
	}
	if d.Err != nil {
		s.Error = oneLine(d.Err)
		return s
	}
	s.Message = show.AppendMessage(nil, &d.Job.Message)
	return s
}

func scheduleRow(d *queue.Declared) []string {
	times := "every " + d.Every.String()
	if d.Cron != "" {
		times = d.Cron + " " + zoneOf(d)
	}
	if d.Err != nil {
		return []string{d.Name, "cannot be read here: " + oneLine(d.Err), orDash(timeText(d.Next)), orDash(timeText(d.Last)), "-", "-", "-", "-", orDash(idText(d.LastJob))}
	}
	const widest = 24
	return []string{
		d.Name, show.Printable(times), orDash(timeText(d.Next)), orDash(timeText(d.Last)), show.Clip(show.Printable(d.Job.Type), widest), d.Job.Lane,
		string(d.CatchUp), orDash(d.Set), orDash(idText(d.LastJob)),
	}
}

// zoneOf is that of a cron expression; "" for an interval.
func zoneOf(d *queue.Declared) string {
	if d.Cron == "" {
		return ""
	}
	return cmp.Or(d.Zone, "UTC")
}

// timeText is "" for no time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return show.Time(t)
}

// idText is "" for no id.
func idText(id codec.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func orDash(text string) string { return cmp.Or(text, "-") }
