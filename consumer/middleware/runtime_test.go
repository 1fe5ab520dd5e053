package middleware_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// stage is a stream with a group of a test's own.
type stage struct {
	t       testing.TB
	client  *tier.Client
	address string
	group   *stream.Group
}

func newStage(t testing.TB, s *tiertest.Server) *stage {
	st := &stage{t: t, client: tiertest.Dial(t, s), address: tiertest.AuditedScope(t, s) + "/orders"}
	var err error
	st.group, err = stream.NewGroup(st.client, stream.GroupConfig{Address: st.address, Name: "mailer", Start: stream.Head()})
	require.NoError(t, err)
	return st
}

// append appends messages 0 to n-1, which is their key.
func (s *stage) append(n int, change func(*codec.Message)) {
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.address})
	require.NoError(s.t, err)
	ms := make([]codec.Message, n)
	for i := range ms {
		ms[i].Key = strconv.Itoa(i)
		change(&ms[i])
	}
	_, err = w.AppendBatch(s.t.Context(), ms)
	require.NoError(s.t, err)
}

// run starts a consumer; stop waits for its end.
func (s *stage) run(h consumer.Handler, cfg consumer.Config) (stop func() error) {
	c, err := consumer.New(consumer.Group(s.group), h, cfg)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

func (s *stage) info() stream.GroupInfo {
	groups, err := stream.Groups(context.Background(), s.client, s.address)
	require.NoError(s.t, err)
	require.Len(s.t, groups, 1)
	return groups[0]
}

// settled waits until n were counted, and then until the group holds nothing. The second alone could look at what is pending just
// before, and at what is parked just after, all of it is taken up again.
func (s *stage) settled(n int, count func() int) {
	s.t.Helper()
	tiertest.Eventually(s.t, patience, func() (bool, string) { return count() >= n, fmt.Sprintf("%d of %d", count(), n) })
	tiertest.Eventually(s.t, patience, func() (bool, string) {
		g := s.info()
		return g.Lag == 0 && g.Pending == 0 && g.Parked == 0, fmt.Sprintf("%+v", g)
	})
}

// TestWithAConsumer: the whole chain in a consumer, whose dependency is down at first. No message spends more attempts than
// it takes to open the breaker, each has its effect once, and its span is a child of the writer's.
func TestWithAConsumer(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 40
		s := newStage(t, server)
		provider, exporter := tracer()
		ctx, producer := provider.Tracer("test").Start(t.Context(), "place")
		s.append(n, func(m *codec.Message) { middleware.Inject(ctx, propagation.TraceContext{}, m) })
		producer.End()
		exporter.Reset()

		records, err := stream.NewRecords(s.client, stream.RecordsConfig{Address: s.address, Name: "mailer"})
		require.NoError(t, err)
		must := must(t)
		var mu sync.Mutex
		mailed, failures, most := map[string]int{}, 0, 0
		handler := func(ctx context.Context, d *consumer.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, d.Attempt)
			require.True(t, trace.SpanContextFromContext(ctx).IsValid())
			if failures < 10 {
				failures++
				return errMailbox
			}
			mailed[d.Key]++
			return nil
		}
		stop := s.run(middleware.Chain(handler,
			must(middleware.Tracing(middleware.TracingConfig{Provider: provider, Propagator: propagation.TraceContext{}, Stream: s.address, Group: "mailer"})),
			must(middleware.Dedup(middleware.DedupConfig{Size: n})),
			must(middleware.Once(middleware.OnceConfig{Records: records})),
			must(middleware.RateLimit(rate.NewLimiter(1000, 10))),
			must(middleware.Breaker(middleware.BreakerConfig{Failures: 3, Open: 100 * time.Millisecond, Hold: 10 * time.Millisecond})),
			middleware.Timeout(time.Minute),
		), consumer.Config{Concurrency: 4, MaxDeliveries: 11, Backoff: time.Millisecond})
		s.settled(n, func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(mailed)
		})
		require.NoError(t, stop())
		require.Len(t, mailed, n)
		for key, times := range mailed {
			require.Equal(t, 1, times, key)
		}
		require.Equal(t, 10, failures)
		require.LessOrEqual(t, most, 11)
		require.Zero(t, s.info().Dead)
		handled := 0
		for _, span := range exporter.GetSpans() {
			require.Equal(t, producer.SpanContext().SpanID(), span.Parent.SpanID())
			handled++
		}
		require.GreaterOrEqual(t, handled, n+10)
	})
}

// TestSnoozesSpendNoAttempt: with a limit by key and a breaker that is open, messages come many times and are still at their
// first attempt.
func TestSnoozesSpendNoAttempt(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(10, func(m *codec.Message) { m.Key = "ann" })
	var came, handled atomic.Int64
	counted := func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, d *consumer.Delivery) error {
			came.Add(1)
			return next(ctx, d)
		}
	}
	stop := s.run(middleware.Chain(func(_ context.Context, d *consumer.Delivery) error {
		require.Equal(t, 1, d.Attempt)
		handled.Add(1)
		return nil
	}, counted, must(t)(middleware.RateLimitByKey(middleware.KeyedLimitConfig{Limit: 10, Burst: 1, Key: func(d *consumer.Delivery) string { return d.Key }}))),
		consumer.Config{MaxDeliveries: 1})
	s.settled(10, func() int { return int(handled.Load()) })
	require.NoError(t, stop())
	require.EqualValues(t, 10, handled.Load())
	require.Greater(t, came.Load(), int64(15), "nothing was snoozed")
	require.Zero(t, s.info().Dead)
}

// TestStopEndsWaiting (B106): a stop hands back what waits for its turn, and that attempt is not counted.
func TestStopEndsWaiting(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(3, func(*codec.Message) {})
	l := rate.NewLimiter(rate.Every(10*time.Minute), 1)
	limit := must(t)(middleware.RateLimit(l))
	first := make(chan struct{})
	stop := s.run(middleware.Chain(func(context.Context, *consumer.Delivery) error {
		close(first)
		return nil
	}, limit), consumer.Config{Concurrency: 2, DrainTimeout: 100 * time.Millisecond})
	<-first
	require.NoError(t, stop())
	require.EqualValues(t, 2, s.info().Pending+s.info().Lag)
	var handled, spent atomic.Int64
	s.run(func(_ context.Context, d *consumer.Delivery) error {
		spent.Add(int64(d.Attempt - 1))
		handled.Add(1)
		return nil
	}, consumer.Config{})
	s.settled(2, func() int { return int(handled.Load()) })
	require.Zero(t, spent.Load())
}

// TestTimeoutInAConsumer: a handler that ignores its context for long keeps its message and its worker, and nobody else's: others go
// on, and its message is handled once.
func TestTimeoutInAConsumer(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(20, func(*codec.Message) {})
	end := make(chan struct{})
	var handled, hung atomic.Int64
	stop := s.run(middleware.Timeout(10*time.Millisecond)(func(ctx context.Context, d *consumer.Delivery) error {
		if d.Key == "0" {
			hung.Add(1)
			<-ctx.Done()
			<-end
		}
		handled.Add(1)
		return nil
	}), consumer.Config{Concurrency: 2})
	count := func() int { return int(handled.Load()) }
	tiertest.Eventually(t, patience, func() (bool, string) { return count() == 19, fmt.Sprint(count()) })
	close(end)
	s.settled(20, count)
	require.NoError(t, stop())
	require.EqualValues(t, 20, handled.Load())
	require.EqualValues(t, 1, hung.Load())
}
