package peers_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/hibiken/asynq"
)

// asynqPeer is asynq with its defaults, but for what a match says.
type asynqPeer struct{ a *arena }

func (p asynqPeer) opt() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: p.a.network, Addr: p.a.addr}
}

func (p asynqPeer) enqueue(goroutines, jobs int) func() {
	c := asynq.NewClient(p.opt())
	p.a.b.Cleanup(func() { _ = c.Close() })
	return func() {
		parallel(goroutines, jobs, func(int) {
			_, err := c.Enqueue(asynq.NewTask("noop", payload))
			must(p.a.b, err)
		})
	}
}

func (p asynqPeer) enqueues(goroutines, jobs int) outcome {
	return p.a.measured(jobs, p.enqueue(goroutines, jobs))
}

func (p asynqPeer) server(concurrency int, poll time.Duration) *asynq.Server {
	return asynq.NewServer(p.opt(), asynq.Config{Concurrency: concurrency, TaskCheckInterval: poll, Logger: quiet{}, LogLevel: asynq.FatalLevel})
}

// drains counts up to the last handler; a task is done in the server right after it.
func (p asynqPeer) drains(concurrency, jobs int) outcome {
	p.enqueue(16, jobs)()
	all, srv := newCountdown(jobs), p.server(concurrency, 0)
	defer srv.Shutdown()
	return p.a.measured(jobs, func() {
		must(p.a.b, srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			all.saw()
			return nil
		})))
		all.wait(p.a.b)
	})
}

func (p asynqPeer) latency(concurrency int, poll time.Duration) outcome {
	l, srv := newLatency(), p.server(concurrency, poll)
	must(p.a.b, srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { l.started(t.Payload()); return nil })))
	defer srv.Shutdown()
	c := asynq.NewClient(p.opt())
	defer c.Close()
	return l.run(p.a, func(data []byte) {
		_, err := c.Enqueue(asynq.NewTask("noop", data))
		must(p.a.b, err)
	})
}

func asynqIdle(a *arena) (stop func()) {
	srv := asynqPeer{a}.server(10, 0)
	must(a.b, srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	return srv.Shutdown
}

// quiet logs nothing.
type quiet struct{}

func (quiet) Debug(...any)   {}
func (quiet) Info(...any)    {}
func (quiet) Warn(...any)    {}
func (quiet) Error(...any)   {}
func (quiet) Fatal(a ...any) { log.New(io.Discard, "", 0).Panic(fmt.Sprint(a...)) }

// waiting is what a task costs the server that is pending.
func (p asynqPeer) waiting(jobs int) outcome {
	p.enqueue(1, 1)()
	time.Sleep(100 * time.Millisecond)
	before := p.a.stored()
	o := p.a.measured(jobs, p.enqueue(16, jobs))
	o.value = (p.a.stored() - before) / float64(jobs)
	return o
}
