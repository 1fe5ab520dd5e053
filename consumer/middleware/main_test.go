package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		fmt.Fprintln(os.Stderr, child(args))
		os.Exit(1)
	}
	tiertest.Main(m)
}

const patience = 60 * time.Second // for what must happen; a busy machine is slow

var errMailbox = errors.New("mailbox full")

// delivery is a message's first one. Its id is made of n.
func delivery(n int) *consumer.Delivery {
	at := codec.EntryID{Ms: 1795961821975, Seq: uint64(n)}
	d := &consumer.Delivery{Attempt: 1}
	d.Record = codec.Record{Position: codec.Position{Entry: at}, Addr: at, Message: codec.Message{Type: "order.placed", Key: "ann", Data: []byte("secret")}}
	d.ID, _ = codec.Parse("ORD0STI5N2Tp" + string(rune('A'+n/26%26)) + string(rune('A'+n%26)))
	return d
}

// answers is a handler that returns these, one after another, then nil; calls counts.
func answers(calls *int, errs ...error) consumer.Handler {
	return func(context.Context, *consumer.Delivery) error {
		if *calls++; *calls <= len(errs) {
			return errs[*calls-1]
		}
		return nil
	}
}

// must is the middleware of a configuration that is right.
func must(t testing.TB) func(m middleware.Middleware, err error) middleware.Middleware {
	return func(m middleware.Middleware, err error) middleware.Middleware {
		t.Helper()
		require.NoError(t, err)
		return m
	}
}

func requireSnoozed(t testing.TB, err error, at time.Duration) {
	t.Helper()
	v, pause := consumer.VerdictOf(err)
	require.Equal(t, consumer.VerdictSnooze, v, "%v", err)
	require.InDelta(t, at, pause, float64(10*time.Millisecond))
}

// ended is a context that ended with a cause, as those of handlers do.
func ended(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func newRecords(t testing.TB, s *tiertest.Server, cfg stream.RecordsConfig) *stream.Records {
	t.Helper()
	cfg.Address, cfg.Name = tiertest.AuditedScope(t, s)+"/orders", "mailer"
	r, err := stream.NewRecords(tiertest.Dial(t, s), cfg)
	require.NoError(t, err)
	return r
}
