package middleware_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
)

// TestRateLimit: messages on several workers wait for their turns.
func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := must(t)(middleware.RateLimit(rate.NewLimiter(10, 5)))(func(context.Context, *consumer.Delivery) error { return errMailbox })
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				for i := range 5 {
					if err := h(t.Context(), delivery(i)); err != errMailbox {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.InDelta(t, 2*time.Second, time.Since(start), float64(time.Millisecond), "25 messages, 5 of them at once, 10 a second")
	})
}

// TestRateLimitGivesWay: a message does not wait beyond its deadline, or for a turn that never comes, and is handed back by
// a stop; none of these takes a turn from others.
func TestRateLimitGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLimiter(1, 1)
		calls := 0
		h := must(t)(middleware.RateLimit(l))(answers(&calls))
		require.NoError(t, h(t.Context(), delivery(0)))
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		requireSnoozed(t, h(short, delivery(1)), time.Second)
		require.ErrorIs(t, h(ended(consumer.ErrDrainTimeout), delivery(1)), consumer.ErrDrainTimeout)
		require.Equal(t, 1, calls)
		start := time.Now()
		require.NoError(t, h(t.Context(), delivery(1)))
		require.InDelta(t, time.Second, time.Since(start), float64(10*time.Millisecond))

		l.SetBurst(0)
		requireSnoozed(t, h(t.Context(), delivery(1)), time.Minute)
		none := must(t)(middleware.RateLimit(rate.NewLimiter(0, 0)))(answers(&calls))
		requireSnoozed(t, none(t.Context(), delivery(1)), time.Minute)
		require.Equal(t, 2, calls)
	})
}

// TestRateLimitByKey: each key has its own limit; what is over it is snoozed until its turn, one behind another, and gets
// through then.
func TestRateLimitByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := must(t)(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 2, Burst: 1, Key: func(d *consumer.Delivery) string { return d.Key }}))(answers(&calls))
		of := func(key string) error {
			d := delivery(0)
			d.Key = key
			return h(t.Context(), d)
		}
		require.NoError(t, of("a"))
		for i := range 4 {
			requireSnoozed(t, of("a"), time.Duration(i+1)*500*time.Millisecond)
		}
		require.NoError(t, of("b"))
		for range 10 {
			require.NoError(t, of(""))
		}
		for range 4 { // they come again when they were told to
			time.Sleep(500*time.Millisecond + time.Microsecond)
			require.NoError(t, of("a"))
		}
		requireSnoozed(t, of("a"), 500*time.Millisecond) // no memory of a queue that is gone
	})
}

// TestRateLimitByKeyBounded: more keys than there may be share one limit, until others are forgotten.
func TestRateLimitByKeyBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := must(t)(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 1, Burst: 1, MaxKeys: 3, Key: func(d *consumer.Delivery) string { return d.Key }}))(answers(&calls))
		passed := func(n int) (passed int) {
			for i := range n {
				d := delivery(0)
				d.Key = fmt.Sprint(i)
				if h(t.Context(), d) == nil {
					passed++
				}
			}
			return passed
		}
		require.Equal(t, 4, passed(100), "three of their own, and one of all others")
		time.Sleep(2 * time.Second)
		require.LessOrEqual(t, passed(100), 4)
		time.Sleep(2 * time.Hour)
		require.Equal(t, 4, passed(100))
	})
}
