package peers_test

import (
	"context"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

const name = "bench" // of the queue

// own is the product with its defaults, but for what a match says.
type own struct{ a *arena }

func (p own) dial() *tier.Client {
	c, err := tier.Dial(p.a.b.Context(), p.a.url, tier.Options{})
	must(p.a.b, err)
	return c
}

func (p own) jobs(c *tier.Client) *queue.Client {
	jobs, err := queue.NewClient(c, queue.Config{Queue: name})
	must(p.a.b, err)
	return jobs
}

func job(data []byte) queue.Job { return queue.Job{Message: codec.Message{Type: "noop", Data: data}} }

func (p own) enqueues(goroutines, jobs int) outcome {
	c := p.dial()
	defer c.Close()
	q := p.jobs(c)
	defer q.Close(context.Background())
	return p.a.measured(jobs, func() {
		parallel(goroutines, jobs, func(int) {
			_, err := q.Enqueue(p.a.b.Context(), job(payload))
			must(p.a.b, err)
		})
	})
}

// enqueueMany makes calls of so many jobs, in turn over the lanes.
func (p own) enqueueMany(q *queue.Client, jobs, atOnce, lanes int) {
	list := make([]queue.Job, 0, atOnce)
	for i := range jobs {
		j := job(payload)
		if lanes > 1 {
			j.Lane = "lane-" + strconv.Itoa(i%lanes)
		}
		if list = append(list, j); len(list) == atOnce || i == jobs-1 {
			receipts, err := q.EnqueueMany(p.a.b.Context(), list)
			must(p.a.b, err)
			for k := range receipts {
				must(p.a.b, receipts[k].Err)
			}
			list = list[:0]
		}
	}
}

func (p own) enqueuesMany(jobs, atOnce int) outcome {
	c := p.dial()
	defer c.Close()
	q := p.jobs(c)
	defer q.Close(context.Background())
	return p.a.measured(jobs, func() { p.enqueueMany(q, jobs, atOnce, 1) })
}

// work runs a consumer until stop is called; then it returns when all that was done is settled.
func (p own) work(c *tier.Client, cfg consumer.Config, handle consumer.Handler) (ready <-chan struct{}, stop func()) {
	w, err := queue.NewWorkers(c, queue.WorkersConfig{Queue: name})
	must(p.a.b, err)
	co, err := consumer.New(consumer.Jobs(w), handle, cfg)
	must(p.a.b, err)
	ctx, cancel := context.WithCancel(p.a.b.Context())
	ended := make(chan error, 1)
	go func() { ended <- co.Run(ctx) }()
	return co.Ready(), func() {
		cancel()
		must(p.a.b, <-ended)
	}
}

// drains counts up to when the server has no job of the queue any more.
func (p own) drains(cfg consumer.Config, jobs, lanes, ceiling int) outcome {
	c := p.dial()
	defer c.Close()
	q := p.jobs(c)
	defer q.Close(context.Background())
	p.enqueueMany(q, jobs, 4096, lanes)
	must(p.a.b, q.SetCeiling(p.a.b.Context(), ceiling))
	all := newCountdown(jobs)
	stop := func() {}
	o := p.a.measured(jobs, func() {
		_, stop = p.work(c, cfg, func(context.Context, *consumer.Delivery) error {
			all.saw()
			return nil
		})
		all.wait(p.a.b)
		for rest := int64(1); rest > 0; time.Sleep(time.Millisecond) {
			var err error
			rest, err = p.a.db.Do(p.a.b.Context(), p.a.db.B().Hlen().Key(tier.Queue(name).JobsKey()).Build()).AsInt64()
			must(p.a.b, err)
		}
	})
	stop()
	return o
}

func (p own) latency(concurrency int) outcome {
	c := p.dial()
	defer c.Close()
	q := p.jobs(c)
	defer q.Close(context.Background())
	l := newLatency()
	ready, stop := p.work(c, consumer.Config{Concurrency: concurrency}, func(_ context.Context, d *consumer.Delivery) error { l.started(d.Data); return nil })
	defer stop()
	<-ready
	return l.run(p.a, func(data []byte) {
		_, err := q.Enqueue(p.a.b.Context(), job(data))
		must(p.a.b, err)
	})
}

func idle(a *arena) (stop func()) {
	p := own{a}
	c := p.dial()
	ready, end := p.work(c, consumer.Config{}, func(context.Context, *consumer.Delivery) error { return nil })
	<-ready
	return func() {
		end()
		c.Close()
	}
}

// waiting is what a job costs the server that waits in a lane.
func (p own) waiting(jobs int) outcome {
	c := p.dial()
	defer c.Close()
	q := p.jobs(c)
	defer q.Close(context.Background())
	p.enqueueMany(q, 1, 1, 1)
	time.Sleep(100 * time.Millisecond) // buffers of connections
	before := p.a.stored()
	o := p.a.measured(jobs, func() { p.enqueueMany(q, jobs, 500, 1) })
	o.value = (p.a.stored() - before) / float64(jobs)
	return o
}
