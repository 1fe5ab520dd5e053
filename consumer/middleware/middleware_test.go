package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestChain: the first is the outermost; none is the handler itself.
func TestChain(t *testing.T) {
	var order []string
	named := func(name string) middleware.Middleware {
		return func(next consumer.Handler) consumer.Handler {
			return func(ctx context.Context, d *consumer.Delivery) error {
				order = append(order, name)
				err := next(ctx, d)
				order = append(order, "/"+name)
				return err
			}
		}
	}
	calls := 0
	h := middleware.Chain(answers(&calls, errMailbox), named("a"), named("b"))
	require.Equal(t, errMailbox, h(t.Context(), delivery(0)))
	require.Equal(t, []string{"a", "b", "/b", "/a"}, order)
	require.NoError(t, middleware.Chain(answers(&calls))(t.Context(), delivery(0)))
	require.Equal(t, 2, calls)
}

func TestWithoutEffect(t *testing.T) {
	require.NoError(t, middleware.WithoutEffect(nil))
	err := middleware.WithoutEffect(consumer.Permanent(errMailbox))
	require.ErrorIs(t, err, errMailbox)
	require.Equal(t, "mailbox full", err.Error())
	v, _ := consumer.VerdictOf(err)
	require.Equal(t, consumer.VerdictPermanent, v)
}

func TestMessageID(t *testing.T) {
	d := delivery(3)
	require.Equal(t, d.ID.String(), middleware.MessageID(d))
	d.ID = codec.ID{}
	require.Equal(t, "1795961821975-3", middleware.MessageID(d))
}

// all are constructors of each middleware, with what lets everything through.
func all(t testing.TB, records *stream.Records) map[string]func() middleware.Middleware {
	must := must(t)
	return map[string]func() middleware.Middleware{
		"timeout": func() middleware.Middleware { return middleware.Timeout(time.Hour) },
		"recover": func() middleware.Middleware { return middleware.Recover(nil) },
		"logging": func() middleware.Middleware {
			return must(middleware.Logging(middleware.LoggingConfig{Logger: slog.New(slog.DiscardHandler)}))
		},
		"tracing": func() middleware.Middleware {
			return must(middleware.Tracing(middleware.TracingConfig{Provider: sdktrace.NewTracerProvider(), Propagator: propagation.TraceContext{}, Stream: "shop/orders"}))
		},
		"dedup": func() middleware.Middleware { return must(middleware.Dedup(middleware.DedupConfig{Size: 10})) },
		"once":  func() middleware.Middleware { return must(middleware.Once(middleware.OnceConfig{Records: records})) },
		"limit": func() middleware.Middleware { return must(middleware.RateLimit(rate.NewLimiter(rate.Inf, 1))) },
		"by key": func() middleware.Middleware {
			return must(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 1000, Burst: 1000, Key: middleware.MessageID}))
		},
		"breaker": func() middleware.Middleware { return must(middleware.Breaker(middleware.BreakerConfig{})) },
	}
}

// TestVerdictsPassThrough: whatever the chain, the handler is called once, its verdict comes out as it was, and so does
// what it wrapped.
func TestVerdictsPassThrough(t *testing.T) {
	t.Parallel()
	records := newRecords(t, tiertest.Shared(t, tiertest.Valkey), stream.RecordsConfig{})
	makers := all(t, records)
	names := make([]string, 0, len(makers))
	for name := range makers {
		names = append(names, name)
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		chain := rapid.SliceOfN(rapid.SampledFrom(names), 0, 6).Draw(rt, "chain")
		var m []middleware.Middleware
		for i, name := range chain {
			if (name == "once" || name == "dedup") && slices.Contains(chain[:i], name) {
				continue // the inner one would take the outer one's message for a duplicate
			}
			m = append(m, makers[name]())
		}
		pause := time.Duration(rapid.IntRange(0, 1_000_000).Draw(rt, "ms")) * time.Millisecond
		want := map[string]error{
			"nil": nil, "plain": errMailbox, "permanent": consumer.Permanent(errMailbox), "after": consumer.RetryAfter(errMailbox, pause), "snooze": consumer.Snooze(pause),
		}[rapid.SampledFrom([]string{"nil", "plain", "permanent", "after", "snooze"}).Draw(rt, "verdict")]
		if want != nil && rapid.Bool().Draw(rt, "wrapped") {
			want = fmt.Errorf("order 17: %w", want)
		}
		n++
		d, calls := delivery(n), 0
		d.ID = codec.ID{} // by its address
		got := middleware.Chain(answers(&calls, want), m...)(t.Context(), d)
		require.Equal(rt, 1, calls)
		wantVerdict, wantPause := consumer.VerdictOf(want)
		gotVerdict, gotPause := consumer.VerdictOf(got)
		require.Equal(rt, wantVerdict, gotVerdict)
		require.Equal(rt, wantPause, gotPause)
		if want == nil {
			require.NoError(rt, got)
			return
		}
		require.ErrorIs(rt, got, want)
		require.Equal(rt, want.Error(), got.Error())
	})
}

// TestPanicsPassThrough: a panic and a Goexit come out of each as they were, except that Recover makes an error of the
// first; and after it the middleware still works.
func TestPanicsPassThrough(t *testing.T) {
	t.Parallel()
	records := newRecords(t, tiertest.Shared(t, tiertest.Valkey), stream.RecordsConfig{})
	for name, maker := range all(t, records) {
		t.Run(name, func(t *testing.T) {
			calls, mode := 0, ""
			h := middleware.Chain(func(context.Context, *consumer.Delivery) error {
				calls++
				switch mode {
				case "panic":
					panic(errMailbox)
				case "exit":
					runtime.Goexit()
				}
				return nil
			}, maker())
			d := delivery(0)
			d.ID = codec.ID{}
			d.Position.Entry.Seq = uint64(len(name)) // its own
			for _, mode = range []string{"panic", "exit", "nothing"} {
				d.Position.Entry.Ms++
				var value any
				var err error
				returned := false
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { value = recover() }()
					err = h(t.Context(), d)
					returned = true
				}()
				<-done
				switch {
				case mode == "nothing":
					require.True(t, returned)
					require.NoError(t, err)
				case mode == "panic" && name == "recover":
					require.ErrorIs(t, err, errMailbox)
				case mode == "panic":
					require.Equal(t, errMailbox, value)
				default:
					require.False(t, returned)
					require.Nil(t, value)
				}
			}
			require.Equal(t, 3, calls)
		})
	}
}

// TestConfigsAreRefused: with the rule that they break.
func TestConfigsAreRefused(t *testing.T) {
	refused := func(_ middleware.Middleware, err error) {
		t.Helper()
		require.ErrorIs(t, err, middleware.ErrConfig)
	}
	key := middleware.MessageID
	provider := sdktrace.NewTracerProvider()
	refused(middleware.Logging(middleware.LoggingConfig{}))
	refused(middleware.Logging(middleware.LoggingConfig{Logger: slog.Default(), Successes: -1}))
	refused(middleware.Tracing(middleware.TracingConfig{Propagator: propagation.TraceContext{}, Stream: "a/b"}))
	refused(middleware.Tracing(middleware.TracingConfig{Provider: provider, Stream: "a/b"}))
	refused(middleware.Tracing(middleware.TracingConfig{Provider: provider, Propagator: propagation.TraceContext{}}))
	refused(middleware.Dedup(middleware.DedupConfig{}))
	refused(middleware.Once(middleware.OnceConfig{}))
	refused(middleware.RateLimit(nil))
	refused(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Burst: 1, Key: key}))
	refused(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 1, Key: key}))
	refused(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 1, Burst: 1}))
	refused(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 1, Burst: 1, Key: key, MaxKeys: -1}))
	refused(middleware.Breaker(middleware.BreakerConfig{Failures: -1}))
	refused(middleware.Breaker(middleware.BreakerConfig{Trials: -1}))
	refused(middleware.Breaker(middleware.BreakerConfig{Open: -1}))
}

// TestAllocations: none adds more than a few, but for a span and for what a call at the server costs.
func TestAllocations(t *testing.T) {
	nothing := func(context.Context, *consumer.Delivery) error { return nil }
	most := map[string]float64{"timeout": 5, "recover": 0, "logging": 1, "tracing": 12, "dedup": 2, "limit": 2, "by key": 2, "breaker": 2}
	for name, maker := range all(t, nil) {
		if name == "once" {
			continue
		}
		h, d, ctx := maker()(nothing), delivery(0), t.Context()
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = h(ctx, d) }), most[name], name)
	}
}

// BenchmarkMiddleware: what each adds to a handler that does nothing, and Once with a server.
func BenchmarkMiddleware(b *testing.B) {
	records := newRecords(b, tiertest.Private(b, tiertest.Valkey), stream.RecordsConfig{})
	nothing := func(context.Context, *consumer.Delivery) error { return nil }
	bench := func(name string, h consumer.Handler) {
		b.Run(name, func(b *testing.B) {
			d := delivery(0)
			d.ID = codec.ID{}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				d.Position.Entry.Seq++
				if err := h(ctx, d); err != nil && !errors.Is(err, errMailbox) {
					b.Fatal(strconv.Itoa(b.N), err)
				}
			}
		})
	}
	bench("none", nothing)
	for name, make := range all(b, records) {
		if name != "by key" { // whose limit would show
			bench(name, make()(nothing))
		}
	}
	bench("by key", must(b)(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 1e12, Burst: 1e9, Key: func(*consumer.Delivery) string { return "k" }}))(nothing))
}
