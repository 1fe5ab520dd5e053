package middleware

import (
	"context"
	"runtime/debug"

	"github.com/echomq/pipeline/consumer"
)

// Recover makes an error of the caller's choice out of a panic of the handler. A consumer contains panics without it, as
// failures of their message: this is for those who want another verdict, or to be told:
//
//	middleware.Recover(func(p *consumer.PanicError) error { return consumer.Permanent(p) })
//
// When choose answers nil the message is settled. Without choose the error is the *consumer.PanicError. A runtime.Goexit
// is none, and goes on.
func Recover(choose func(*consumer.PanicError) error) Middleware {
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) (err error) {
			defer func() {
				v := recover()
				if v == nil {
					return
				}
				p := &consumer.PanicError{Value: v, Stack: debug.Stack()}
				if err = p; choose != nil {
					err = choose(p)
				}
			}()
			return next(ctx, m)
		}
	}
}
