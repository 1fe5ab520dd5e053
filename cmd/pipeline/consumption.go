package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// consumption is one run of consume.
type consumption struct {
	*consume
	out   *sink
	tally *tally
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	running int                  // handlers
	idle    *time.Timer          // of --wait, or nil; runs while no handler does
	failed  map[failure]struct{} // and not handled since
}

// failure is a message that failed. Partitions may have it at the same position.
type failure struct {
	id codec.ID
	at codec.Position
}

// Causes of a stop in order.
var (
	errIdle   = errors.New("--wait is over")
	errEnough = errors.New("--count is reached")
)

func (c *consumption) run(ctx context.Context, newRunner func(consumer.Handler, consumer.Config) (runner, error)) error {
	ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(nil)
	c.failed = map[failure]struct{}{}
	c.tally = &tally{most: c.count, reached: func() { c.stop(errEnough) }, flying: map[codec.EntryID]int{}}
	runner, err := newRunner(c.handle, consumer.Config{
		Concurrency: c.concurrency, MaxInFlight: c.maxInFlight(), MaxDeliveries: c.deliveries, Backoff: c.backoff, Order: c.order,
		Logger: c.app.logger(), Registerer: c.metrics.registerer(),
	})
	if err != nil {
		return err
	}
	if !isTerminal(c.app.out) { // where messages, or the commands' output, would be mixed with it
		c.app.startProgress(int64(cmp.Or(c.count, -1)))
		defer c.app.endProgress()
	}
	if c.wait > 0 {
		c.idle = time.AfterFunc(c.wait, func() { c.stop(errIdle) })
		defer c.idle.Stop()
	}
	defer context.AfterFunc(ctx, func() { c.stopping(ctx) })()
	if err := runner.Run(ctx); err != nil {
		return err
	}
	return c.outcome(context.Cause(ctx))
}

// maxInFlight is few messages for commands, which are slow: what is fetched here, the
// other consumers of the group do not get. Printing takes the default, which is 0.
func (c *consumption) maxInFlight() int {
	if c.exec == nil {
		return 0
	}
	return 4 * c.concurrency
}

// handle prints a message, or runs the command for it.
func (c *consumption) handle(ctx context.Context, d *consumer.Delivery) error {
	c.begin()
	var err error
	if c.exec != nil {
		err = c.exec.run(ctx, c.app, &d.Record)
	} else {
		err = c.out.show(&d.Record)
	}
	if cannotShow(err) {
		c.stop(err)
	}
	c.end(d, err, context.Cause(ctx))
	return err
}

// stopping tells whoever has interrupted us what is being waited for.
func (c *consumption) stopping(ctx context.Context) {
	c.mu.Lock()
	n := c.running
	c.mu.Unlock()
	if n > 0 && signalled(ctx) != nil {
		c.app.note("stopping: %s let finish, for ten seconds at most; Ctrl-C again ends it at once", show.Count(n, "message"))
	}
}

func (c *consumption) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	if c.idle != nil {
		c.idle.Stop()
	}
}

func (c *consumption) end(d *consumer.Delivery, err, cause error) {
	n := c.tally.finished(d.Position.Entry, err == nil)
	c.app.progress.Load().at(int64(n), n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || errors.Is(cause, consumer.ErrLeaseLost) { // or another's now
		delete(c.failed, failure{d.ID, d.Position})
	} else {
		c.failed[failure{d.ID, d.Position}] = struct{}{}
	}
	if c.running--; c.running == 0 && c.idle != nil {
		c.idle.Reset(c.wait)
	}
}

// outcome is what a stop in order means for whoever ran the command.
func (c *consumption) outcome(cause error) error {
	switch {
	case cannotShow(cause):
		return cause
	case len(c.failed) > 0:
		return fmt.Errorf("%s failed and will come again, to any consumer of the %s: 'pipeline groups %s' shows what is parked", show.Count(len(c.failed), "message"), c.kind(), c.addr)
	case c.tally.handled > 0:
		return nil
	case errors.Is(cause, errIdle):
		return fmt.Errorf("%w within --wait %s", errNothing, c.wait)
	case errors.Is(cause, errTimedOut):
		return cause
	}
	return nil
}
