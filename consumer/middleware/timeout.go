package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/consumer"
)

// ErrTimeout is the cause with which a handler's context ends when the time of [Timeout] is over, and what a failure after
// that matches.
var ErrTimeout = errors.New("middleware: the handler's time is over")

// Timeout ends the handler's context after d, with [ErrTimeout] as its cause. What counts is still what the handler
// returns: an error after that is joined with ErrTimeout and keeps its verdict; nil settles the message, late as it is, since
// the work was done.
//
// A handler cannot be killed. One that ignores its context is waited for, with its worker: its message neither fails nor comes
// again before it returns, since it would then be handled twice at the same time, and in no order. One that never returns
// costs its message, whose lease is renewed as long as the process lives, and one worker of Config.Concurrency; the stop of the
// consumer names it in a *consumer.StuckError, and whoever comes after takes the message over when its lease ends.
//
// With d of nothing or less, the context has ended when the handler begins.
func Timeout(d time.Duration) Middleware {
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			ctx, cancel := context.WithTimeoutCause(ctx, d, ErrTimeout)
			defer cancel()
			err := next(ctx, m)
			if err != nil && !errors.Is(err, ErrTimeout) && errors.Is(context.Cause(ctx), ErrTimeout) {
				return fmt.Errorf("%w (after %s: %w)", err, d, ErrTimeout)
			}
			return err
		}
	}
}
