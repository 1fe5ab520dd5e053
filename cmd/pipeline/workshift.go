package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// shift is one run of work.
type shift struct {
	*work
	client *tier.Client
	jobs   *queue.Client
	sink   *sink
	run    *consumption
	slots  chan struct{} // of --count: jobs that are done, or may be
	later  string        // of --drain: what is left, and waits for its time or for children
}

// errDrained is the cause of a stop in order: nothing is left to be done now.
var errDrained = errors.New("--drain has come to its end")

// undrained is the cause of a stop before a queue is empty, since it will not be.
type undrained struct{ error }

func left(jobs int64, why string) error {
	return undrained{errors.New(show.Count(int(jobs), "job") + " left, " + why)}
}

// drainLook is the pause between two looks whether a queue is empty.
const drainLook = 250 * time.Millisecond

func (s *shift) begin(ctx context.Context) error {
	begun := time.Now()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.sink = s.app.sink()
	if s.count > 0 {
		s.slots = make(chan struct{}, s.count)
	}
	s.run = &consumption{app: s.app, what: "job", count: s.count, wait: s.wait, perform: s.perform, failing: s.failing}
	beside := s.beside(ctx, stop)
	err := s.run.run(ctx, func(handler consumer.Handler) (runner, error) {
		workers, err := queue.NewWorkers(s.client, queue.WorkersConfig{Queue: s.queue, Lease: s.lease, Lanes: s.lanes})
		if err != nil {
			return nil, err
		}
		return consumer.New(consumer.Jobs(workers), handler, consumer.Config{
			Concurrency: s.concurrency, MaxInFlight: maxInFlight(s.exec, s.concurrency), MaxDeliveries: s.attempts, Backoff: s.backoff,
			Logger: s.app.logger(), Registerer: s.metrics.registerer(),
		})
	})
	switch why, cause := (undrained{}), context.Cause(ctx); {
	case err != nil && !stoppedWaiting(err): // the stop may come before there is a worker
	case errors.As(cause, &why):
		err = why.error
	case errors.Is(cause, errDrained) && stoppedWaiting(err):
		err = nil
	}
	stop(nil)
	beside()
	handled := s.run.tally.handled
	s.app.done = handled
	if handled == 0 && err != nil && !stoppedWaiting(err) {
		return err // which says why
	}
	s.app.note("%s of %s done in %s%s", show.Count(handled, "job"), s.queue, show.Duration(time.Since(begun)), s.later)
	return err
}

// beside fires the queue's schedules while its jobs are done, and looks whether they are all.
// It returns what waits for its end.
func (s *shift) beside(ctx context.Context, stop context.CancelCauseFunc) (wait func()) {
	var beside conc.WaitGroup
	beside.Go(func() {
		if err := queue.NewSchedules(s.jobs).Run(ctx); err != nil {
			s.app.warn("the schedules of %s are not fired here: %s", s.queue, oneLine(err))
		}
	})
	if s.drain {
		beside.Go(func() { s.untilDrained(ctx, stop) })
	}
	return beside.Wait
}

// untilDrained ends the shift when nothing of the queue is ready, active, due or on its way.
func (s *shift) untilDrained(ctx context.Context, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		o, err := s.jobs.Overview(ctx)
		switch {
		case err != nil:
			if class := tier.Classify(err); class == nil || class.Reaction == tier.Surface {
				stop(undrained{err})
			} // else the workers have the same, and say so
		case o.Active > 0 || o.Paused.IsZero() && (o.Late > 0 || o.Waiting > 0 && o.Outbox > 0):
		case o.Ready == 0 && o.Late == 0:
			s.later = waiting(&o)
			stop(errDrained)
		case !o.Paused.IsZero():
			stop(left(o.Ready, "since the queue is paused: 'pipeline queues resume "+s.queue+"'"))
		default:
			if held, err := s.held(ctx); err == nil && held == o.Ready {
				stop(left(held, "in lanes that are paused: 'pipeline lanes "+s.queue+"' lists them"))
			}
		}
		tier.Pause(ctx, drainLook)
	}
}

// waiting tells of the jobs of a drained queue that could not be done yet.
func waiting(o *queue.Overview) (text string) {
	if o.Scheduled > 0 {
		text += fmt.Sprintf("; not yet due: %s, the first at %s", show.Count(int(o.Scheduled), "job"), show.Time(o.Next))
	}
	if o.Waiting > 0 {
		text += fmt.Sprintf("; waiting for children: %s", show.Count(int(o.Waiting), "job"))
	}
	return text
}

// held is how many ready jobs are in lanes that are paused.
func (s *shift) held(ctx context.Context) (n int64, err error) {
	for l, err := range s.jobs.Lanes(ctx) {
		if err != nil {
			return n, err
		}
		if !l.Paused.IsZero() {
			n += l.Ready
		}
	}
	return n, nil
}

func (s *shift) failing(n int) error {
	return fmt.Errorf("%s failed: 'pipeline jobs ls %s --state retry --state dead' shows what became of them", show.Count(n, "job"), s.queue)
}

// perform prints a job, or runs the command for it and prints how it ended.
func (s *shift) perform(ctx context.Context, d *consumer.Delivery) error {
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
		case <-s.run.over: // others were enough
			return consumer.Snooze(0)
		}
	}
	err := s.do(ctx, d)
	if err != nil && s.slots != nil {
		<-s.slots
	}
	return err
}

func (s *shift) do(ctx context.Context, d *consumer.Delivery) error {
	j := deliveredJob(s.queue, d)
	if s.exec == nil {
		if s.sink.json {
			return s.app.printObject(j)
		}
		return s.sink.show(&d.Record)
	}
	var err error
	if j.Children, err = childrenOf(ctx, s.jobs, d.ID); err != nil {
		return err
	}
	begun := time.Now()
	result, err := s.exec.work(ctx, s.app, &j, s.snooze)
	if err == nil && len(result) > 0 {
		d.Emit(tier.Outcome(string(result)))
	}
	if told := s.tell(ctx, d, string(result), err, time.Since(begun)); told != nil && err == nil {
		return told
	}
	return err
}

// endedJSON is how an attempt at a job ended.
type endedJSON struct {
	Job     string  `json:"job"`
	Queue   string  `json:"queue"`
	Type    string  `json:"type"`
	Attempt int     `json:"attempt"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
	Result  string  `json:"result,omitempty"`
	Reason  string  `json:"reason,omitempty"`
}

// tell prints how an attempt ended.
func (s *shift) tell(ctx context.Context, d *consumer.Delivery, result string, err error, took time.Duration) error {
	e := endedJSON{Job: d.ID.String(), Queue: s.queue, Type: d.Type, Attempt: d.Attempt, Outcome: endOf(context.Cause(ctx), err, d), Seconds: took.Seconds(), Result: result}
	if err != nil {
		e.Reason = oneLine(err)
	}
	if s.sink.json {
		return s.app.printObject(e)
	}
	text := fmt.Sprintf("%s  %s  %s after %s", e.Job, e.Type, e.Outcome, show.Duration(took))
	if e.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", e.Attempt)
	}
	if about := e.Reason + e.Result; about != "" {
		text += "  " + about
	}
	return s.app.print(show.Clip(show.Printable(text), s.sink.width) + "\n")
}

// endOf is the word for how an attempt ended.
func endOf(cause, err error, d *consumer.Delivery) string {
	var cancelled *consumer.CancelledError
	switch verdict, _ := consumer.VerdictOf(err); {
	case err == nil:
		return "done"
	case errors.Is(cause, consumer.ErrLeaseLost):
		return "lost"
	case errors.Is(cause, consumer.ErrDrainTimeout):
		return "handed back"
	case errors.As(cause, &cancelled):
		return "cancelled"
	case verdict == consumer.VerdictPermanent:
		return "dead"
	case verdict == consumer.VerdictSnooze:
		return "snoozed"
	case d.MaxAttempts > 0 && d.Attempt >= d.MaxAttempts:
		return "dead"
	}
	return "failed"
}
