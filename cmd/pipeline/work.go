package main

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// work is the command's flags.
type work struct {
	app         *app
	queue       string
	count       int
	wait        time.Duration
	drain       bool
	concurrency int
	attempts    int
	backoff     time.Duration
	snooze      time.Duration
	lease       time.Duration
	lanes       []string
	exec        *command
	metrics     metrics
}

func workCommand(a *app) *cobra.Command {
	w := &work{app: a, concurrency: 1, snooze: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "work QUEUE",
		Short: "Do the jobs of a queue, each by a command; fire its schedules",
		Long: `Do the jobs of a queue as one of its workers: lanes take turns, each job goes to
one worker, and to another when that one dies. Run it several times to share the
work. Every one of them fires the queue's schedules, too, and delivers what its
flows tell.

--exec runs a command for each job, with the job as JSON on its standard input, as
'jobs show' has it, and PIPELINE_JOB_ID and PIPELINE_JOB_ATTEMPT beside PATH,
HOME, LANG, TZ and USER. What it writes to standard output is the job's result. It
is split into words, without a shell; for one write --exec "sh -c '...'". Its exit
code is the verdict:

  0    done
  65   dead: to try again is of no use (EX_DATAERR)
  75   not now: it comes again after --snooze, and the attempt does not count
       (EX_TEMPFAIL)
  else it comes again, after a pause of up to --backoff that doubles with each
       failure, up to 10 minutes, and is dead after --max-attempts; what the job
       asks for goes before

The last line on its standard error is kept as the reason. A job that is
cancelled, or takes longer than its --job-timeout, ends its command. How each job
ended is printed; a job that comes again is printed again. Without --exec, jobs
are printed, and done.`,
		Example: `  pipeline work mail --exec ./send-mail --concurrency 4
  pipeline work mail --exec "sh -c 'jq -r .message.data.to | xargs ./to'" --drain
  pipeline work mail --lane vip --lane night --exec ./send-mail
  pipeline work mail --count 1`,
		Args: arguments(1, 1, wantsQueue),
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.queue = args[0]; w.drain && len(w.lanes) > 0 {
				return usagef("--drain is about the whole queue: leave --lane out, or give --wait")
			}
			return w.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.Var(commandLine(&w.exec), "exec", "command to run for each job")
	f.Var(number(&w.concurrency, 1, 1024), "concurrency", "do this many jobs at the same time")
	f.BoolVar(&w.drain, "drain", false, "stop when no job is ready, active or due")
	f.Var(number(&w.count, 1, math.MaxInt), "count", "stop after this many jobs are done")
	f.Var(duration(&w.wait), "wait", "stop when no job came for this long; exit code 4 if none came at all")
	f.Var(number(&w.attempts, 1, math.MaxInt), "max-attempts", "attempts at most of a job that does not say (default 20)")
	f.Var(duration(&w.backoff), "backoff", "longest pause after the first failure of a job that does not say (default 1s)")
	f.Var(&value{text: "10s", kind: "DUR", set: duration(&w.snooze).set}, "snooze", "pause of a job that is not now")
	f.Var(duration(&w.lease), "lease", "how long a worker may be silent before others take its jobs over (default 30s; of a queue that had workers, its own)")
	f.Var(&value{kind: "NAME", set: func(s string) error {
		w.lanes = append(w.lanes, s)
		return tier.CheckName("lane", s)
	}}, "lane", "do the jobs of this lane; may be given again, up to 64 times (default: of all lanes)")
	w.metrics.flag(cmd)
	return cmd
}

func (w *work) run(ctx context.Context) error {
	stop, err := w.metrics.serve(ctx, w.app)
	if err != nil {
		return err
	}
	defer stop()
	w.app.logs, w.app.exec, w.app.results = true, w.exec != nil, w.exec != nil
	return w.app.withJobs(ctx, w.queue, func(ctx context.Context, client *tier.Client, jobs *queue.Client) error {
		if err := w.metrics.queue(client, w.queue); err != nil {
			return err
		}
		defer w.app.watch(ctx, func(ctx context.Context) error {
			_, err := client.Now(ctx, tier.Queue(w.queue).QueueKey())
			return err
		})()
		return (&shift{work: w, client: client, jobs: jobs}).begin(ctx)
	})
}
