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

// consumption is one run of a consumer, of messages or of jobs: what it handles is
// counted and told, and what ends it is seen to.
type consumption struct {
	app     *app
	what    string // it handles: "message", "job"
	count   int    // 0: no bound
	wait    time.Duration
	perform consumer.Handler
	failing func(n int) error // what n mean that failed and were not handled since

	tally *tally
	stop  context.CancelCauseFunc
	over  <-chan struct{} // closed when it is stopping

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

func (c *consumption) run(ctx context.Context, newRunner func(consumer.Handler) (runner, error)) error {
	ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(nil)
	c.over = ctx.Done()
	c.failed = map[failure]struct{}{}
	c.tally = &tally{most: c.count, reached: func() { c.stop(errEnough) }, flying: map[codec.EntryID]int{}}
	runner, err := newRunner(c.handle)
	if err != nil {
		return err
	}
	if !isTerminal(c.app.out) { // where messages, or the commands' output, would be mixed with it
		c.app.startProgress(int64(cmp.Or(c.count, -1)), c.what)
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

// handle performs, and counts.
func (c *consumption) handle(ctx context.Context, d *consumer.Delivery) error {
	c.begin()
	err := c.perform(ctx, d)
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
		c.app.note("stopping: %s let finish, for ten seconds at most; Ctrl-C again ends it at once", show.Count(n, c.what))
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
	if verdict, _ := consumer.VerdictOf(err); verdict == consumer.VerdictSnooze {
		// as if it had not come
	} else if err == nil || errors.Is(cause, consumer.ErrLeaseLost) { // or another's now
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
		return c.failing(len(c.failed))
	case errors.Is(cause, errIdle) && c.app.gone.Load():
		return fmt.Errorf("--wait %s is over, and the server does not answer: nobody knows what is left, run it again when it does", c.wait)
	case c.tally.handled > 0:
		return nil
	case errors.Is(cause, errIdle):
		return fmt.Errorf("%w within --wait %s", errNothing, c.wait)
	case errors.Is(cause, errTimedOut):
		return cause
	}
	return nil
}
