package middleware_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// once gives a message to a handler in a Once of its own, as another process would.
func once(ctx context.Context, t testing.TB, r *stream.Records, d *consumer.Delivery, f func(middleware.Effect) error) error {
	return must(t)(middleware.Once(middleware.OnceConfig{Records: r}))(func(ctx context.Context, _ *consumer.Delivery) error {
		return f(middleware.EffectOf(ctx))
	})(ctx, d)
}

// TestOnce: what the handler is told of the deliveries before, however these ended.
func TestOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		r := newRecords(t, s, stream.RecordsConfig{Hold: time.Hour})
		tests := []struct {
			name    string
			earlier func(middleware.Effect) error
			calls   int // of the second delivery
			told    int // earlier ones
		}{
			{"done", func(middleware.Effect) error { return nil }, 0, 0},
			{"failed", func(middleware.Effect) error { return errMailbox }, 1, 1},
			{"permanent, then redriven", func(middleware.Effect) error { return consumer.Permanent(errMailbox) }, 1, 1},
			{"snoozed", func(middleware.Effect) error { return consumer.Snooze(0) }, 1, 1},
			{"snoozed before it did anything", func(middleware.Effect) error { return middleware.WithoutEffect(consumer.Snooze(0)) }, 1, 0},
			{"panicked", func(middleware.Effect) error { panic("oh") }, 1, 1},
			{"exited", func(middleware.Effect) error { runtime.Goexit(); return nil }, 1, 1},
		}
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				d := delivery(i)
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_ = once(t.Context(), t, r, d, tt.earlier)
				}()
				<-done
				var told middleware.Effect
				calls := 0
				err := once(t.Context(), t, r, d, func(e middleware.Effect) error {
					calls++
					told = e
					return nil
				})
				require.NoError(t, err)
				require.Equal(t, tt.calls, calls)
				require.Equal(t, tt.told, told.Earlier)
				require.Equal(t, tt.told > 0, told.Repeated())
				if calls > 0 {
					require.Equal(t, r.Address().String()+"/mailer/"+d.ID.String(), told.Key)
				}
				err = once(t.Context(), t, r, d, func(middleware.Effect) error { return errMailbox })
				require.NoError(t, err, "it is done")
			})
		}
	})
}

// TestOnceAfterACrash: a process died after its record said begun, before its effect or after it. The next attempt is told; one
// that is no later attempt waits until the first cannot be at work any more.
func TestOnceAfterACrash(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		r := newRecords(t, s, stream.RecordsConfig{Hold: time.Hour})
		d := delivery(0)
		_, err := r.Begin(t.Context(), d.ID.String(), d.Attempt) // and died
		require.NoError(t, err)

		calls := 0
		count := func(middleware.Effect) error { calls++; return nil }
		err = once(t.Context(), t, r, d, count)
		v, pause := consumer.VerdictOf(err)
		require.Equal(t, consumer.VerdictSnooze, v)
		require.InDelta(t, time.Hour, pause, float64(time.Minute))
		require.Zero(t, calls)

		d.Attempt = 2
		err = once(t.Context(), t, r, d, func(e middleware.Effect) error {
			require.True(t, e.Repeated())
			require.WithinDuration(t, time.Now(), e.First, time.Minute)
			return count(e)
		})
		require.NoError(t, err)
		require.Equal(t, 1, calls)
		err = once(t.Context(), t, r, d, count)
		require.NoError(t, err)
		require.Equal(t, 1, calls)
	})
}

// TestOnceInterrupted: a handler whose context has ended before it began is not called, and has had no effect; one that
// ends later has its record written all the same.
func TestOnceInterrupted(t *testing.T) {
	t.Parallel()
	r := newRecords(t, tiertest.Shared(t, tiertest.Valkey), stream.RecordsConfig{})
	calls := 0
	count := func(middleware.Effect) error { calls++; return nil }
	// The call itself refuses a context that has ended: the record is as it was.
	err := once(ended(consumer.ErrLeaseLost), t, r, delivery(0), count)
	require.Error(t, err)
	require.Zero(t, calls)

	ctx, cancel := context.WithCancelCause(t.Context())
	err = once(ctx, t, r, delivery(0), func(e middleware.Effect) error {
		require.False(t, e.Repeated())
		cancel(consumer.ErrDrainTimeout)
		return nil
	})
	require.NoError(t, err)
	err = once(t.Context(), t, r, delivery(0), count)
	require.NoError(t, err)
	require.Zero(t, calls, "its record says done")
}

// TestOnceByTheProducersID: messages of one id have one effect; one without an id has no record.
func TestOnceByTheProducersID(t *testing.T) {
	t.Parallel()
	r := newRecords(t, tiertest.Shared(t, tiertest.Valkey), stream.RecordsConfig{})
	calls := 0
	h := must(t)(middleware.Once(middleware.OnceConfig{Records: r, ID: func(d *consumer.Delivery) string {
		id, _ := d.Headers.Get("id")
		return id
	}}))(answers(&calls))
	for i := range 4 {
		d := delivery(i)
		if i < 2 {
			d.Headers.Set("id", "17")
		}
		require.NoError(t, h(t.Context(), d))
	}
	require.Equal(t, 3, calls)
	require.Zero(t, middleware.EffectOf(t.Context()))
}

// TestOnceWithoutItsServer: when the record cannot be begun the handler is not called; when it cannot be ended, the
// message is settled all the same, the log tells, and what comes again is told.
func TestOnceWithoutItsServer(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	addr := tier.Address{Scope: tiertest.AuditedScope(t, s), Stream: "orders"}
	user := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all")
	client := tiertest.Dial(t, at(user.At(s)))
	r, err := stream.NewRecords(client, stream.RecordsConfig{Address: addr.String(), Name: "mailer"})
	require.NoError(t, err)
	user.Grant(t, []*tiertest.Server{s}, "-set")
	calls := 0
	count := func(middleware.Effect) error { calls++; return nil }
	err = once(t.Context(), t, r, delivery(0), count)
	require.ErrorIs(t, err, tier.ErrPermission)
	require.Zero(t, calls)

	user.Grant(t, []*tiertest.Server{s}, "+set")
	var out bytes.Buffer
	h := must(t)(middleware.Once(middleware.OnceConfig{Records: r, Logger: slog.New(slog.NewTextHandler(&out, nil))}))(func(context.Context, *consumer.Delivery) error {
		calls++
		user.Grant(t, []*tiertest.Server{s}, "-set")
		return nil
	})
	require.NoError(t, h(t.Context(), delivery(0)))
	require.Equal(t, 1, calls)
	require.Contains(t, out.String(), "was not written")
	user.Grant(t, []*tiertest.Server{s}, "+set")
	d := delivery(0)
	d.Attempt = 2
	err = once(t.Context(), t, r, d, func(e middleware.Effect) error {
		require.True(t, e.Repeated())
		return nil
	})
	require.NoError(t, err)
}

// at is a URL as a server that has it.
type at string

func (u at) URL() string { return string(u) }

// TestHeldBackHasNoEffect: a message that other middleware holds back, inside of Once, is none that may have had its effect.
func TestHeldBackHasNoEffect(t *testing.T) {
	t.Parallel()
	r := newRecords(t, tiertest.Shared(t, tiertest.Valkey), stream.RecordsConfig{})
	must := must(t)
	same := func(*consumer.Delivery) string { return "same" }
	used := func(m middleware.Middleware, err error) middleware.Middleware { // by a message that fails
		calls := 0
		_ = must(m, err)(answers(&calls, errMailbox))(t.Context(), delivery(100))
		require.Equal(t, 1, calls)
		return m
	}
	begun, end := make(chan struct{}), make(chan struct{})
	dedup := must(middleware.Dedup(middleware.DedupConfig{Size: 1, ID: same}))
	once := must(middleware.Once(middleware.OnceConfig{Records: r}))
	held := map[string]middleware.Middleware{
		"limit":   must(middleware.RateLimit(rate.NewLimiter(0, 0))),
		"by key":  used(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 0.001, Burst: 1, Key: same})),
		"breaker": used(middleware.Breaker(middleware.BreakerConfig{Failures: 1, Hold: -1})),
	}
	for name, m := range held {
		calls := 0
		err := middleware.Chain(answers(&calls), once, m)(t.Context(), delivery(len(name)))
		v, _ := consumer.VerdictOf(err)
		require.Equal(t, consumer.VerdictSnooze, v, name)
		require.Zero(t, calls, name)
		e, err := r.Begin(t.Context(), delivery(len(name)).ID.String(), 1)
		require.NoError(t, err)
		require.Equal(t, stream.EffectBegun, e.State, name)
		require.Zero(t, e.Earlier, name)
	}

	// Dedup, of two at once: both use the same instance.
	first := make(chan error, 1)
	handler := dedup(func(context.Context, *consumer.Delivery) error {
		close(begun)
		<-end
		return nil
	})
	go func() { first <- handler(context.Background(), delivery(20)) }()
	<-begun
	requireSnoozed(t, once(handler)(t.Context(), delivery(21)), time.Second)
	e, err := r.Begin(t.Context(), delivery(21).ID.String(), 1)
	require.NoError(t, err)
	require.Zero(t, e.Earlier)
	close(end)
	require.NoError(t, <-first)
}
