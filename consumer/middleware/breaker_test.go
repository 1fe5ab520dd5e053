package middleware_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
)

// TestBreaker: failures in a row open it, messages are then snoozed for what is left, a trial decides what follows.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		down, calls := true, 0
		h := must(t)(middleware.Breaker(middleware.BreakerConfig{
			Name: "mail", Failures: 3, Open: 10 * time.Second, Hold: -1, Logger: slog.New(slog.NewTextHandler(&out, nil)),
		}))(func(context.Context, *consumer.Delivery) error {
			calls++
			if down {
				return consumer.RetryAfter(errMailbox, time.Hour)
			}
			return nil
		})
		for range 3 {
			require.ErrorIs(t, h(t.Context(), delivery(0)), errMailbox)
		}
		for left := 10; left > 0; left -= 2 {
			requireSnoozed(t, h(t.Context(), delivery(0)), time.Duration(left)*time.Second)
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, 3, calls)
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, h(t.Context(), delivery(0)), errMailbox, "the trial")
		requireSnoozed(t, h(t.Context(), delivery(0)), 10*time.Second)
		time.Sleep(10*time.Second + time.Millisecond)
		down = false
		for range 10 {
			require.NoError(t, h(t.Context(), delivery(0)))
		}
		require.Equal(t, 14, calls)
		require.Equal(t, 2, strings.Count(out.String(), "breaker opened"))
		require.Contains(t, out.String(), "from=half-open to=closed")
		require.Contains(t, out.String(), "breaker=mail")
	})
}

// TestBreakerCounts: only what tells of the dependency counts.
func TestBreakerCounts(t *testing.T) {
	tests := []struct {
		name  string
		ctx   context.Context
		err   error
		panic bool
		opens bool
	}{
		{"an error", t.Context(), errMailbox, false, true},
		{"retry after", t.Context(), consumer.RetryAfter(errMailbox, 1), false, true},
		{"a panic", t.Context(), nil, true, true},
		{"timeout", t.Context(), middleware.ErrTimeout, false, true},
		{"permanent", t.Context(), consumer.Permanent(errMailbox), false, false},
		{"snooze", t.Context(), consumer.Snooze(1), false, false},
		{"lost", ended(consumer.ErrLeaseLost), context.Canceled, false, false},
		{"stopped", ended(consumer.ErrDrainTimeout), context.Canceled, false, false},
		{"not one of its failures", t.Context(), context.Canceled, false, false},
		{"nil", t.Context(), nil, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			h := must(t)(middleware.Breaker(middleware.BreakerConfig{
				Failures: 2, Hold: -1, Failure: func(err error) bool { return err != context.Canceled },
			}))(func(context.Context, *consumer.Delivery) error {
				calls++
				if tt.panic {
					panic("oh")
				}
				return tt.err
			})
			for range 5 {
				func() {
					defer func() { _ = recover() }()
					_ = h(tt.ctx, delivery(0))
				}()
			}
			require.Equal(t, tt.opens, calls == 2)
			require.Equal(t, !tt.opens, calls == 5)
		})
	}
}

// TestBreakerHolds: a message that is not let through keeps its worker for Hold, and goes on when the breaker closes
// meanwhile; a stop ends it.
func TestBreakerHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := must(t)(middleware.Breaker(middleware.BreakerConfig{Failures: 1, Open: 5 * time.Second, Hold: 2 * time.Second}))(answers(&calls, errMailbox))
		require.Equal(t, errMailbox, h(t.Context(), delivery(0)))
		start := time.Now()
		requireSnoozed(t, h(t.Context(), delivery(0)), 3*time.Second)
		require.Equal(t, 2*time.Second, time.Since(start))
		require.ErrorIs(t, h(ended(consumer.ErrDrainTimeout), delivery(0)), consumer.ErrDrainTimeout)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, calls)
		require.NoError(t, h(t.Context(), delivery(0))) // a second before it opens
		require.Equal(t, 2, calls)
		require.InDelta(t, 5*time.Second, time.Since(start), float64(10*time.Millisecond))
	})
}

// TestBreakerTrials: while a trial is under way, others wait for it.
func TestBreakerTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan error)
		var calls atomic.Int64
		h := must(t)(middleware.Breaker(middleware.BreakerConfig{Failures: 1, Open: time.Minute, Hold: -1}))(func(context.Context, *consumer.Delivery) error {
			calls.Add(1)
			return <-end
		})
		result := make(chan error, 3)
		run := func() { result <- h(t.Context(), delivery(0)) }
		go run()
		end <- errMailbox
		<-result
		time.Sleep(time.Minute + time.Millisecond)
		go run()
		synctest.Wait()
		requireSnoozed(t, h(t.Context(), delivery(0)), time.Second)
		require.EqualValues(t, 2, calls.Load())
		end <- consumer.Permanent(errMailbox) // which tells nothing: the next is a trial, too
		<-result
		go run()
		synctest.Wait()
		requireSnoozed(t, h(t.Context(), delivery(0)), time.Second)
		end <- nil
		require.NoError(t, <-result)
		for range 3 {
			go run()
		}
		synctest.Wait()
		require.EqualValues(t, 6, calls.Load())
		for range 3 {
			end <- nil
		}
		synctest.Wait()
		close(end)
	})
}
