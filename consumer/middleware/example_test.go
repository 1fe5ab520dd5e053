package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// guarded logs each delivery, gives up messages that make the handler panic, lets the mail server rest when it fails, and gives
// each mail ten seconds.
func guarded(mail consumer.Handler, logger *slog.Logger) (consumer.Handler, error) {
	logging, err := middleware.Logging(middleware.LoggingConfig{Logger: logger})
	if err != nil {
		return nil, err
	}
	breaker, err := middleware.Breaker(middleware.BreakerConfig{Name: "mail server", Failures: 2, Open: time.Minute, Hold: -1})
	if err != nil {
		return nil, err
	}
	giveUp := middleware.Recover(func(p *consumer.PanicError) error {
		return consumer.Permanent(fmt.Errorf("a bug: %v", p.Value))
	})
	return middleware.Chain(mail, logging, breaker, giveUp, middleware.Timeout(10*time.Second)), nil
}

// A mail server fails twice; the messages after that do not even reach it, and are snoozed.
func ExampleChain() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" || a.Key == "took" || a.Key == "entry" || a.Key == "id" {
				return slog.Attr{} // differs from run to run
			}
			return a
		},
	}))
	handler, err := guarded(func(_ context.Context, d *consumer.Delivery) error {
		if d.Key == "" {
			panic("no customer")
		}
		return errors.New("mail server is down")
	}, logger)
	if err != nil {
		log.Fatal(err)
	}
	for _, customer := range []string{"ann", "", "bob", "cem", "dan"} {
		d := &consumer.Delivery{Attempt: 1}
		d.Message = codec.Message{Type: "order.placed", Key: customer}
		_ = handler(context.Background(), d) // a consumer would do this
	}

	// Output:
	// level=WARN msg="handler failed" type=order.placed attempt=1 verdict=retry err="mail server is down"
	// level=ERROR msg="message given up" type=order.placed attempt=1 verdict=permanent err="a bug: no customer"
	// level=WARN msg="handler failed" type=order.placed attempt=1 verdict=retry err="mail server is down"
	// level=DEBUG msg="message snoozed" type=order.placed attempt=1 verdict=snooze err="consumer: snoozed"
	// level=DEBUG msg="message snoozed" type=order.placed attempt=1 verdict=snooze err="consumer: snoozed"
}

// traced makes spans of what the handler does, as children of the writer's.
func traced(mail consumer.Handler, provider trace.TracerProvider) (consumer.Handler, error) {
	tracing, err := middleware.Tracing(middleware.TracingConfig{
		Provider: provider, Propagator: propagation.TraceContext{}, Stream: "shop/orders", Group: "mailer",
	})
	if err != nil {
		return nil, err
	}
	return middleware.Chain(mail, tracing), nil
}

// place appends a message that carries the span of ctx.
func place(ctx context.Context, w *stream.Writer, m codec.Message) error {
	middleware.Inject(ctx, propagation.TraceContext{}, &m)
	_, err := w.Append(ctx, m)
	return err
}

// bank is what the example pays at. It remembers keys, as most payment services do.
type bank struct{ paid map[string]bool }

// charge takes the money of an order, once.
func (b *bank) charge(ctx context.Context, d *consumer.Delivery) error {
	effect := middleware.EffectOf(ctx)
	if effect.Repeated() && b.paid[effect.Key] { // only the bank knows
		fmt.Println("the bank has it already")
		return nil
	}
	b.paid[effect.Key] = true
	fmt.Println("charged", d.Key)
	if d.Attempt == 1 {
		return errors.New("the bank's answer was lost")
	}
	return nil
}

// chargeOnce keeps a record of each charge at the server.
func chargeOnce(client *tier.Client, charge consumer.Handler) (consumer.Handler, error) {
	records, err := stream.NewRecords(client, stream.RecordsConfig{Address: "shop/orders", Name: "cashier"})
	if err != nil {
		return nil, err
	}
	once, err := middleware.Once(middleware.OnceConfig{Records: records})
	if err != nil {
		return nil, err
	}
	return middleware.Chain(charge, once), nil
}

// The answer of the bank is lost, so nobody here knows whether it has the money. The next attempt is told, and asks.
func ExampleOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	if err := place(ctx, w, codec.Message{Type: "order.placed", Key: "ann"}); err != nil {
		log.Fatal(err)
	}
	handler, err := chargeOnce(client, (&bank{paid: map[string]bool{}}).charge)
	if err != nil {
		log.Fatal(err)
	}
	group, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/orders", Name: "cashier", Start: stream.Head()})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(consumer.Group(group), func(ctx context.Context, d *consumer.Delivery) error {
		err := handler(ctx, d)
		if err == nil {
			cancel() // a program would wait for a signal
		}
		return err
	}, consumer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}

	// Output:
	// charged ann
	// the bank has it already
}
