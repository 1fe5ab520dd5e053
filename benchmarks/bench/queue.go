package bench

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// What the works of a queue have by themselves.
const (
	enqueuers = 16
	jobsACall = 1000 // of a call that fills a queue
	manyLanes = 1000
)

var (
	enqueueWork = Work{
		Name: "queue-enqueue", What: "Enqueue, which waits until the job is there, from some goroutines",
		ceiling: ceilingAppend, atOnce: enqueuers, contestant: func(a *arena) contestant { return &enqueues{arena: a} },
	}
	queueWork = Work{
		Name: "queue", What: "a worker that drains a queue of one lane, from its start to when no job is left",
		ceiling: ceilingJobs, atOnce: handlers, contestant: func(a *arena) contestant { return &drains{arena: a, lanes: 1} },
		latency: jobLatency,
	}
)

// jobs is a client of the one queue that a scope can be.
func (a *arena) jobs() (*queue.Client, error) {
	return queue.NewClient(a.client, queue.Config{Queue: a.scope})
}

func (a *arena) job(i int) queue.Job { return queue.Job{Message: a.message(i)} }

// forget deletes all that there is of the queue, on which nobody works any more. What a client would do, to pause it and to obliterate
// it, leaves the freeing of memory to a thread of the server, beside what is measured next.
func (a *arena) forget(ctx context.Context) error {
	keys, err := a.queueKeys(ctx)
	return errors.Join(err, a.delete(ctx, keys...))
}

func (a *arena) queueKeys(ctx context.Context) ([]string, error) {
	return a.client.KeysBelow(ctx, strings.TrimSuffix(tier.Queue(a.scope).QueueKey(), ":queue"))
}

// enqueues is many callers, each of which waits.
type enqueues struct {
	*arena
	n  int
	to *queue.Client
}

func (e *enqueues) prepare(_ context.Context, n int) (err error) {
	e.n = n
	e.to, err = e.jobs()
	return err
}

func (e *enqueues) run(ctx context.Context) error {
	return shared(ctx, e.concurrency(enqueuers), e.n, func(ctx context.Context, i int) error {
		_, err := e.to.Enqueue(ctx, e.job(i))
		return err
	})
}

func (e *enqueues) keys() []string { return e.stored(1) }

// stored are the keys of jobs that wait in so many lanes.
func (a *arena) stored(lanes int) []string {
	q := tier.Queue(a.scope)
	keys := []string{q.JobsKey()}
	for i := range lanes {
		keys = append(keys, q.LaneKey(lane(i, lanes)))
	}
	return keys
}

// lane of the i-th job.
func lane(i, lanes int) string {
	if lanes == 1 {
		return queue.DefaultLane
	}
	return "lane-" + strconv.Itoa(i%lanes)
}

func (e *enqueues) clean(ctx context.Context) error {
	if e.to == nil {
		return nil
	}
	return errors.Join(e.to.Close(ctx), e.forget(ctx))
}

// drains is one worker at full speed.
type drains struct {
	*arena
	lanes, n int
	running  *background
}

func (d *drains) prepare(ctx context.Context, n int) (err error) {
	d.n = n
	to, err := d.jobs()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close(context.WithoutCancel(ctx))) }()
	for at := 0; at < n; at += jobsACall {
		list := make([]queue.Job, min(jobsACall, n-at))
		for i := range list {
			list[i] = d.job(at + i)
			list[i].Lane = lane(at+i, d.lanes)
		}
		receipts, err := to.EnqueueMany(ctx, list)
		if err != nil {
			return err
		}
		for i := range receipts {
			err = errors.Join(err, receipts[i].Err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *drains) run(ctx context.Context) error {
	workers, err := queue.NewWorkers(d.client, queue.WorkersConfig{Queue: d.scope})
	if err != nil {
		return err
	}
	seen := count(d.size, d.n)
	co, err := consumer.New(consumer.Jobs(workers), seen.handle, consumer.Config{Concurrency: d.concurrency(handlers)})
	if err != nil {
		return err
	}
	d.running = inBackground(ctx, co.Run)
	if err := seen.wait(ctx, d.running); err != nil {
		return err
	}
	return settled(ctx, func(ctx context.Context) (int64, error) {
		reply, err := d.wire.ask(ctx, "HLEN", tier.Queue(d.scope).JobsKey())
		n, _ := reply.(int64)
		return n, err
	})
}

func (d *drains) keys() []string { return d.stored(min(d.lanes, max(1, d.n))) }

func (d *drains) clean(ctx context.Context) error {
	return errors.Join(d.running.end(), d.forget(ctx))
}

// jobLatency is the time from Enqueue to the handler of a worker that waits.
func jobLatency(ctx context.Context, a *arena, l *openLoop) (err error) {
	defer func() { err = errors.Join(err, a.forget(context.WithoutCancel(ctx))) }()
	to, err := a.jobs()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close(context.WithoutCancel(ctx))) }()
	workers, err := queue.NewWorkers(a.client, queue.WorkersConfig{Queue: a.scope})
	if err != nil {
		return err
	}
	co, err := consumer.New(consumer.Jobs(workers), func(_ context.Context, d *consumer.Delivery) error {
		l.arrivedWith(d.Data)
		return nil
	}, consumer.Config{Concurrency: a.concurrency(handlers)})
	if err != nil {
		return err
	}
	running := inBackground(ctx, co.Run)
	defer func() { err = errors.Join(err, running.end()) }()
	if err := running.ready(co.Ready()); err != nil {
		return err
	}
	return l.run(ctx, true, func(ctx context.Context, i int) error {
		j := a.job(i)
		j.Data = l.data(a, i)
		_, err := to.Enqueue(ctx, j)
		return err
	})
}
