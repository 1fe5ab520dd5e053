package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/input"
	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// enqueue is the command's flags.
type enqueue struct {
	app     *app
	queue   string
	cfg     input.Config
	job     queue.Job // what all of them have
	data    string
	until   string // of the unique key
	refused int
}

// enqueueChunk is how many jobs go in one call.
const enqueueChunk = 1000

func jobsEnqueue(a *app) *cobra.Command {
	e := &enqueue{app: a}
	cmd := &cobra.Command{
		Use:   "enqueue QUEUE [FILE|-] --type TYPE",
		Short: "Enqueue a job, or one for each line, JSON value or CSV row of a file",
		Long: `Enqueue a job that carries --data, or one for each line, JSON value or CSV row of a
file or of standard input, as 'pipeline produce' reads them. The ids are printed,
one a line.

A line that does not parse is reported as FILE:LINE: REASON and left out, the rest
goes on, and the exit code is 1. Of a --unique key there is one job at a time: by
default another is dropped, the id is that of the one that is there, and "existing"
says so; --on-conflict refuse makes it an error, replace hands data, terms and time
to the one that is there. A job has its key until it is done, or --unique-until it
is started, or until a time has passed.`,
		Example: `  pipeline jobs enqueue mail --type welcome --data '{"to":"ann"}' --delay 10m
  pipeline jobs enqueue mail --type digest --data '{}' --unique ann --unique-until 24h --on-conflict replace
  pipeline jobs enqueue mail users.csv --type welcome --lane bulk --max-attempts 5`,
		Args: arguments(1, 2, "the name of a queue, and perhaps a file"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault // a file
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.check(args); err != nil {
				return err
			}
			return a.withJobs(cmd.Context(), e.queue, e.run)
		},
	}
	f := cmd.Flags()
	f.Var(word(&e.cfg.Type, "TYPE", codec.MaxType), "type", "type of the jobs, which says who handles them")
	f.Var(choice(&e.cfg.Format, input.Formats...), "format", "of the input (default: by the file's name: .csv, .json, .jsonl, .ndjson; else lines)")
	f.Var(word(&e.cfg.Key, "FIELD", codec.MaxKey), "key", "field that becomes the message's key (json, csv)")
	f.Var(jsonText(&e.data), "data", "what one job carries, in place of a file")
	f.Var(name(&e.job.Lane, "lane"), "lane", "lane of the jobs (default default)")
	f.Var(duration(&e.job.Delay), "delay", "how long they wait, by the server's clock")
	f.Var(moment(&e.job.At), "at", "when they are ready, by the server's clock, in place of --delay")
	f.Var(word(&e.job.Unique.Key, "KEY", 1024), "unique", "unique key, until the job has ended; with --data")
	f.Var(&value{kind: "done|started|DUR", set: e.setUntil}, "unique-until", "how long it has its unique key (default done)")
	f.Var(&value{kind: "keep|refuse|replace", set: e.setConflict}, "on-conflict", "what becomes of it when another has its unique key (default keep: that one)")
	f.Var(number(&e.job.Terms.MaxAttempts, 1, math.MaxInt), "max-attempts", "attempts at most, before a job is dead (default: the worker's)")
	f.Var(duration(&e.job.Terms.Backoff), "backoff", "longest pause after the first failure, which doubles (default: the worker's)")
	f.Var(duration(&e.job.Terms.MaxBackoff), "max-backoff", "up to this (default: the worker's)")
	f.Var(duration(&e.job.Terms.Timeout), "job-timeout", "of one attempt (default: the worker's)")
	f.Var(&value{kind: "TIME|DUR", set: e.setDeadline}, "deadline", "when, or in how long by this host's clock, it is of no use any more: it is dead then")
	f.Var(duration(&e.job.Terms.Keep), "keep", "how long what a job came to is kept")
	f.Var(&value{kind: "TEXT", set: e.addTag}, "tag", "tag of the jobs; may be given again")
	return cmd
}

func (e *enqueue) setUntil(text string) (err error) {
	switch e.until = text; text {
	case "done":
		e.job.Unique.Until = queue.UntilDone
	case "started":
		e.job.Unique.Until = queue.UntilStarted
	default:
		e.job.Unique.Until = queue.UntilTime
		if e.job.Unique.For, err = when.ParseDuration(text); err != nil {
			return fmt.Errorf("want done, started, or how long: %w", err)
		}
		if e.job.Unique.For < time.Millisecond {
			return errors.New("want done, started, or how long: 1ms at least")
		}
	}
	return nil
}

// conflicts are the words for what becomes of a job whose unique key another has.
var conflicts = map[string]queue.Conflict{"keep": queue.Keep, "refuse": queue.Refuse, "replace": queue.Replace}

func (e *enqueue) setConflict(text string) error {
	if e.job.Unique.Conflict = conflicts[text]; e.job.Unique.Conflict == "" {
		return errors.New("want keep, refuse or replace")
	}
	return nil
}

func (e *enqueue) setDeadline(text string) (err error) {
	if d, err := when.ParseDuration(text); err == nil {
		e.job.Terms.Deadline = time.Now().Add(d)
		return nil
	}
	if e.job.Terms.Deadline, err = when.ParseEvent(text); err != nil {
		return fmt.Errorf("want a time, or in how long: %w", err)
	}
	return nil
}

// maxTag is how long a tag is at most, in bytes.
const maxTag = 128

func (e *enqueue) addTag(text string) error {
	if text == "" || len(text) > maxTag {
		return fmt.Errorf("want 1 to %d bytes", maxTag)
	}
	e.job.Terms.Tags = append(e.job.Terms.Tags, text)
	return nil
}

// check refuses what can be refused before anything is opened.
func (e *enqueue) check(args []string) error {
	e.queue, e.cfg.File = args[0], "-"
	if len(args) > 1 {
		e.cfg.File = args[1]
	}
	e.cfg.Format = cmp.Or(e.cfg.Format, formatOf(e.cfg.File))
	switch {
	case e.cfg.Type == "":
		return usagef("want the type of the jobs: --type TYPE")
	case e.job.Delay > 0 && !e.job.At.IsZero():
		return usagef("--delay and --at: give one of them")
	case e.data != "" && len(args) > 1:
		return usagef("--data is what one job carries: leave it out, or %s", args[1])
	case e.data != "" && e.cfg.Key != "":
		return usagef("--key names a field of a file: leave it out, or --data")
	case e.job.Unique.Key == "" && (e.until != "" || e.job.Unique.Conflict != ""):
		return usagef("--unique-until and --on-conflict are of a unique key: give --unique KEY")
	case e.data == "" && e.job.Unique.Key != "":
		return usagef("--unique is for one job: give it --data")
	case e.data == "" && e.cfg.Format == "lines" && e.cfg.Key != "":
		return usagef("--key names a field, and lines have none: give --format json or csv")
	}
	return nil
}

func (e *enqueue) run(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
	if e.data != "" {
		job := e.job
		job.Message = codec.Message{Type: e.cfg.Type, Data: []byte(e.data)}
		job.Headers.Set(codec.HeaderContentType, "application/json")
		if err := e.send(ctx, jobs, []queue.Job{job}); err != nil {
			return err
		}
		return e.refusal("1 job refused")
	}
	in := e.app.in
	if e.cfg.File != "-" {
		file, err := os.Open(e.cfg.File)
		if err != nil {
			return fileError(e.cfg.File, err)
		}
		defer file.Close()
		in = file
	}
	rows, err := input.New(in, e.cfg)
	if err != nil {
		return fileError(e.cfg.File, err)
	}
	for end := false; !end; {
		var chunk []queue.Job
		if chunk, end, err = e.chunk(rows); err != nil {
			return err
		}
		if err := e.send(ctx, jobs, chunk); err != nil {
			return fmt.Errorf("%s enqueued for certain: %w", show.Count(e.app.done, "job"), err)
		}
	}
	return e.refusal(fmt.Sprintf("%s of %s refused", show.Count(e.refused, "line"), e.cfg.File))
}

// refusal is the error of what was refused; why was said of each.
func (e *enqueue) refusal(text string) error {
	if e.refused == 0 {
		return nil
	}
	return errors.New(text)
}

// chunk reads jobs for one call.
func (e *enqueue) chunk(rows input.Reader) (chunk []queue.Job, end bool, err error) {
	for len(chunk) < enqueueChunk {
		row, err := rows.Next()
		var line *input.LineError
		switch {
		case errors.Is(err, io.EOF):
			return chunk, true, nil
		case errors.As(err, &line):
			e.refused++
			fmt.Fprintln(e.app.err, show.Printable(oneLine(err)))
			continue
		case err != nil:
			return nil, false, fileError(e.cfg.File, err)
		}
		job := e.job
		job.Message = row.Message
		chunk = append(chunk, job)
	}
	return chunk, false, nil
}

// send enqueues jobs, and prints their ids.
func (e *enqueue) send(ctx context.Context, jobs *queue.Client, chunk []queue.Job) error {
	receipts, err := jobs.EnqueueMany(ctx, chunk)
	if err != nil {
		return err
	}
	for i := range receipts {
		r := &receipts[i]
		if r.Err != nil {
			e.refused++
			fmt.Fprintln(e.app.err, show.Printable(oneLine(r.Err)))
			continue
		}
		e.app.done++
		if err := e.print(r, &chunk[i]); err != nil {
			return err
		}
	}
	return nil
}

func (e *enqueue) print(r *queue.Receipt, job *queue.Job) error {
	if !e.app.json() {
		text := r.ID.String()
		if r.Existing {
			text += " (existing)"
		}
		return e.app.print(text + "\n")
	}
	return e.app.printObject(struct {
		Job      codec.ID `json:"job"`
		Queue    string   `json:"queue"`
		Lane     string   `json:"lane"`
		Existing bool     `json:"existing"`
	}{r.ID, e.queue, cmp.Or(job.Lane, queue.DefaultLane), r.Existing})
}
