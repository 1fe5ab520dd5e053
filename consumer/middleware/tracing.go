package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// TracingConfig says who makes spans and what of. Provider, Propagator and Stream are needed: the globals of OpenTelemetry
// are not used.
type TracingConfig struct {
	Provider trace.TracerProvider
	// Propagator reads the context of the producer in a message's headers: propagation.TraceContext{} reads traceparent and
	// tracestate, as Inject with the same writes them.
	Propagator propagation.TextMapPropagator
	// Stream is the address of the messages, "scope/stream", and Group the name of who handles them.
	Stream, Group string
	// NewTrace begins a trace for each message, which is linked to the producer's. Default: the span is a child of the
	// producer's, and linked too, so that one trace shows a message's whole way. With NewTrace traces stay small where many
	// messages follow from one, or come again for days.
	NewTrace bool
}

// system is what a trace calls EchoMQ. The conventions have no name for it, and allow one's own.
var system = semconv.MessagingSystemKey.String("echomq")

// Tracing makes a span of kind consumer for each delivery, by the semantic conventions of OpenTelemetry for messaging
// (opentelemetry.io/docs/specs/semconv/messaging/messaging-spans, operation type process): it is called
// "process scope/stream", and names the stream, the group, the message's id and the attempt. A failure is the span's error; a
// snooze is none. A header that cannot be read leaves the span without a producer's.
func Tracing(cfg TracingConfig) (Middleware, error) {
	if cfg.Provider == nil || cfg.Propagator == nil || cfg.Stream == "" {
		return nil, fmt.Errorf("%w: Tracing needs a Provider, a Propagator and a Stream", ErrConfig)
	}
	tracer := cfg.Provider.Tracer("github.com/echomq/pipeline/consumer/middleware", trace.WithSchemaURL(semconv.SchemaURL))
	constant := []attribute.KeyValue{
		system, semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("process"), semconv.MessagingDestinationName(cfg.Stream),
	}
	if cfg.Group != "" {
		constant = append(constant, semconv.MessagingConsumerGroupName(cfg.Group))
	}
	name := "process " + cfg.Stream
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			ctx = cfg.Propagator.Extract(ctx, headerCarrier{&m.Headers})
			ctx, span := tracer.Start(ctx, name, cfg.options(trace.SpanContextFromContext(ctx), m, constant)...)
			returned := false
			defer func() { // after a panic, too
				if !returned {
					span.SetStatus(codes.Error, "the handler did not return")
				}
				span.End()
			}()
			err := next(ctx, m)
			returned = true
			outcome(span, err)
			return err
		}
	}, nil
}

// options of the span of a message, whose parent is to be the producer's, if that is remote.
func (c *TracingConfig) options(parent trace.SpanContext, m *consumer.Delivery, constant []attribute.KeyValue) []trace.SpanStartOption {
	attrs := append(slices.Clip(constant), semconv.MessagingMessageID(MessageID(m)), attribute.Int("echomq.attempt", m.Attempt))
	opts := append(make([]trace.SpanStartOption, 0, 4), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attrs...))
	if parent.IsValid() && parent.IsRemote() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: parent}))
	}
	if c.NewTrace {
		opts = append(opts, trace.WithNewRoot())
	}
	return opts
}

func outcome(span trace.Span, err error) {
	verdict, _ := consumer.VerdictOf(err)
	switch verdict {
	case consumer.VerdictSettle:
		return
	case consumer.VerdictSnooze:
	default:
		span.SetAttributes(semconv.ErrorType(root(err)))
		span.SetStatus(codes.Error, clip(err.Error()))
	}
	span.SetAttributes(attribute.String("echomq.verdict", verdict.String()))
}

// root is what an error wraps, whose type says more than those of what is around it.
func root(err error) error {
	for {
		if p, ok := errors.AsType[*consumer.PanicError](err); ok {
			return p
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

const maxStatus = 1024 // bytes of an error's text; that of a panic has a stack in it

func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxStatus)], "")
}

// Inject writes the context of the span that ctx carries into the message's headers, for [Tracing] on the other side. The
// headers are copied first: they may be another message's.
func Inject(ctx context.Context, p propagation.TextMapPropagator, m *codec.Message) {
	m.Headers = slices.Clone(m.Headers)
	p.Inject(ctx, headerCarrier{&m.Headers})
}

// headerCarrier is a message's headers as propagators see them.
type headerCarrier struct{ h *codec.Headers }

func (c headerCarrier) Get(key string) string {
	value, _ := c.h.Get(key)
	return value
}

func (c headerCarrier) Set(key, value string) { c.h.Set(key, value) }

func (c headerCarrier) Keys() []string {
	keys := make([]string, len(*c.h))
	for i := range *c.h {
		keys[i] = (*c.h)[i].Key
	}
	return keys
}
