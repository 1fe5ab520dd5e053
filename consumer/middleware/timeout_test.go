package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
)

// TestTimeout: the context ends on time with its cause; what the handler returns after that counts, with the cause joined to
// an error.
func TestTimeout(t *testing.T) {
	const d = time.Second
	tests := []struct {
		name    string
		handler consumer.Handler
		is      error // nil: none
		timeout bool
		took    time.Duration
		verdict consumer.Verdict
	}{
		{"in time", func(context.Context, *consumer.Delivery) error { return nil }, nil, false, 0, consumer.VerdictSettle},
		{"fails in time", func(context.Context, *consumer.Delivery) error { return errMailbox }, errMailbox, false, 0, consumer.VerdictRetry},
		{"heeds it", func(ctx context.Context, _ *consumer.Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		}, context.DeadlineExceeded, true, d, consumer.VerdictRetry},
		{"heeds it and knows why", func(ctx context.Context, _ *consumer.Delivery) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, middleware.ErrTimeout, true, d, consumer.VerdictRetry},
		{"ignores it, and fails", func(context.Context, *consumer.Delivery) error {
			time.Sleep(time.Minute)
			return consumer.Permanent(errMailbox)
		}, errMailbox, true, time.Minute, consumer.VerdictPermanent},
		{"ignores it, and does its work", func(context.Context, *consumer.Delivery) error {
			time.Sleep(time.Minute)
			return nil
		}, nil, false, time.Minute, consumer.VerdictSettle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := middleware.Timeout(d)(tt.handler)(t.Context(), delivery(0))
				require.Equal(t, tt.took, time.Since(start))
				require.ErrorIs(t, err, tt.is)
				require.Equal(t, tt.timeout, errors.Is(err, middleware.ErrTimeout))
				v, _ := consumer.VerdictOf(err)
				require.Equal(t, tt.verdict, v)
			})
		})
	}
}

// TestTimeoutIsNotTheStop: a context that ended for another reason is not the timeout's.
func TestTimeoutIsNotTheStop(t *testing.T) {
	h := middleware.Timeout(time.Hour)(func(ctx context.Context, _ *consumer.Delivery) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	err := h(ended(consumer.ErrDrainTimeout), delivery(0))
	require.ErrorIs(t, err, consumer.ErrDrainTimeout)
	require.NotErrorIs(t, err, middleware.ErrTimeout)

	for _, d := range []time.Duration{0, -time.Second} {
		require.ErrorIs(t, middleware.Timeout(d)(func(ctx context.Context, _ *consumer.Delivery) error { return ctx.Err() })(t.Context(), delivery(0)), middleware.ErrTimeout)
	}
}
