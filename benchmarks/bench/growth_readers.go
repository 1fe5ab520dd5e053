package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// groups is a log that so many groups consume, one after the other.
type groups struct {
	aLog
	members []*stream.Member
}

func newGroups(a *arena, size int, cfg *GrowthConfig) specimen {
	return &groups{aLog: aLog{arena: a, n: cfg.Count, size: size}}
}

func (g *groups) prepare(ctx context.Context) (float64, error) {
	groups := g.size
	g.size = callBatch
	if err := g.fillTo(ctx); err != nil {
		return 0, err
	}
	before, err := g.stored(ctx)
	if err != nil {
		return 0, err
	}
	for i := range groups {
		own, err := stream.NewGroup(g.client, stream.GroupConfig{Address: g.address.String(), Name: fmt.Sprint(groupName, i), Start: stream.New()})
		if err != nil {
			return 0, err
		}
		if err := own.Create(ctx); err != nil {
			return 0, err
		}
		m, err := own.Join(ctx, "bench")
		if err != nil {
			return 0, err
		}
		g.members = append(g.members, m)
		if _, err := m.Sync(ctx); err != nil {
			return 0, err
		}
	}
	after, err := g.stored(ctx)
	return float64(after-before) / float64(groups), err
}

// stored is the memory of the log, and of all keys below it.
func (g *groups) stored(ctx context.Context) (int64, error) {
	log := g.address.LogKey()
	keys, err := g.client.KeysBelow(ctx, log)
	if err != nil {
		return 0, err
	}
	return g.meter.stored(ctx, append(keys, log))
}

func (g *groups) steps() []step {
	calls, batch := g.calls(), g.batch()
	return []step{
		{work: "append", calls: calls, each: batch, call: func(ctx context.Context, _ int) error { return g.append(ctx, batch) }},
		{work: "consume", calls: calls * len(g.members), each: batch, call: func(ctx context.Context, i int) error {
			return consumeBatch(ctx, g.members[i%len(g.members)], batch)
		}},
		{work: "info", calls: calls, each: len(g.members), before: g.cut, call: func(ctx context.Context, _ int) error {
			list, err := stream.Groups(ctx, g.client, g.address.String())
			return errors.Join(err, short("groups listed", int64(len(list)), int64(len(g.members))))
		}},
	}
}

func (g *groups) clean(ctx context.Context) error {
	var err error
	for _, m := range g.members {
		err = errors.Join(err, m.Leave(ctx))
	}
	return errors.Join(err, g.aLog.clean(ctx))
}

// lanes is a queue with ten jobs in each of so many lanes, a thousand jobs at the least: with one in each, what is done costs by the
// lane that it comes to, and there are more of these for a hundred jobs.
type lanes struct {
	*arena
	n, size, jobs int
	to            *queue.Client
	member        *queue.Member
	next          int // job
}

func newLanes(a *arena, size int, cfg *GrowthConfig) specimen {
	return &lanes{arena: a, n: cfg.Count, size: size, jobs: max(jobsACall, 10*size)}
}

func (l *lanes) prepare(ctx context.Context) (float64, error) {
	var err error
	if l.to, err = l.arena.jobs(); err != nil {
		return 0, err
	}
	for at := 0; at < l.jobs; at += jobsACall {
		if err := l.enqueue(ctx, min(jobsACall, l.jobs-at)); err != nil {
			return 0, err
		}
	}
	workers, err := queue.NewWorkers(l.client, queue.WorkersConfig{Queue: l.scope, Lease: longLease})
	if err != nil {
		return 0, err
	}
	if l.member, err = workers.Join(ctx, "bench"); err != nil {
		return 0, err
	}
	if _, err := l.member.Sync(ctx); err != nil {
		return 0, err
	}
	keys, err := l.queueKeys(ctx)
	if err != nil {
		return 0, err
	}
	bytes, err := l.meter.stored(ctx, keys)
	return float64(bytes) / float64(l.jobs), err
}

func (l *lanes) enqueue(ctx context.Context, n int) error {
	list := make([]queue.Job, n)
	for i := range list {
		list[i] = l.job(l.next)
		list[i].Lane = lane(l.next, l.size)
		l.next++
	}
	receipts, err := l.to.EnqueueMany(ctx, list)
	for i := range receipts {
		err = errors.Join(err, receipts[i].Err)
	}
	return err
}

func (l *lanes) steps() []step {
	calls, batch := max(1, l.n/callBatch), min(callBatch, l.n)
	return []step{
		{work: "enqueue", calls: calls, each: batch, call: func(ctx context.Context, _ int) error { return l.enqueue(ctx, batch) }},
		{work: "drain", calls: calls, each: batch, call: func(ctx context.Context, _ int) error { return consumeBatch(ctx, l.member, batch) }},
	}
}

func (l *lanes) clean(ctx context.Context) error {
	var err error
	if l.member != nil {
		err = l.member.Leave(ctx)
	}
	if l.to != nil {
		err = errors.Join(err, l.to.Close(ctx))
	}
	return errors.Join(err, l.forget(ctx))
}

// through is messages that go through a writer and consumers which run all the while.
type through struct {
	*arena
	n       int
	to      *publisher
	running []*background
	seen    atomic.Pointer[counter]
	loop    atomic.Pointer[openLoop]
}

// handle is that of all consumers.
func (t *through) handle(ctx context.Context, d *consumer.Delivery) error {
	if l := t.loop.Load(); l != nil {
		l.arrivedWith(d.Data)
		return nil
	}
	if seen := t.seen.Load(); seen != nil {
		return seen.handle(ctx, d)
	}
	return nil
}

// steps are at full speed, and at a rate that is the same at all sizes.
func (t *through) steps() []step {
	return []step{
		{work: "full", calls: 1, each: t.n * 4, call: func(ctx context.Context, _ int) error {
			seen := count(t.arena.size, t.n*4)
			t.seen.Store(seen)
			if err := t.to.publishAll(ctx, t.arena.message, t.n*4); err != nil {
				return err
			}
			return seen.wait(ctx, t.running[0])
		}},
		{work: "paced", calls: min(mostLatency/2, t.n), each: 1, loop: func(ctx context.Context, l *openLoop) error {
			t.loop.Store(l)
			defer t.loop.Store(nil)
			return t.loopInto(ctx, l, t.to)
		}},
	}
}

func (t *through) clean(context.Context) error {
	var err error
	for _, r := range t.running {
		r.stop() // all at once: each waits for its last read
	}
	for _, r := range t.running {
		err = errors.Join(err, r.end())
	}
	return errors.Join(err, t.to.end())
}

// consumers is a group of so many consumers.
type consumers struct {
	through
	size int
	log  string
}

func newConsumers(a *arena, size int, cfg *GrowthConfig) specimen {
	return &consumers{through: through{arena: a, n: cfg.Count}, size: size}
}

func (c *consumers) prepare(ctx context.Context) (_ float64, err error) {
	address := c.address()
	c.log = address.LogKey()
	if c.to, err = c.publisher(ctx, stream.WriterConfig{Address: address.String()}); err != nil {
		return 0, err
	}
	g, err := c.group(address.String())
	if err != nil {
		return 0, err
	}
	var list []*consumer.Consumer
	for range c.size {
		co, err := consumer.New(consumer.Group(g), c.handle, consumer.Config{Concurrency: 1})
		if err != nil {
			return 0, err
		}
		list = append(list, co)
		c.running = append(c.running, inBackground(ctx, co.Run))
	}
	for i, co := range list {
		if err := c.running[i].ready(co.Ready()); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (c *consumers) clean(ctx context.Context) error {
	return errors.Join(c.through.clean(ctx), c.delete(ctx, c.log))
}
