package middleware_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// tracer exports spans into memory.
func tracer() (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	return sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)), exporter
}

// TestTracing: the consumer's span is the producer's child, or begins a trace of its own, and is linked to it; it says what
// the conventions want.
func TestTracing(t *testing.T) {
	for _, newTrace := range []bool{false, true} {
		provider, exporter := tracer()
		state, err := trace.ParseTraceState("vendor=value")
		require.NoError(t, err)
		ctx, producer := provider.Tracer("test").Start(context.Background(), "place")
		ctx = trace.ContextWithSpanContext(ctx, producer.SpanContext().WithTraceState(state))
		d := delivery(0)
		d.Attempt = 3
		shared := append(make(codec.Headers, 0, 8), codec.Header{Key: "content-type", Value: "text/plain"})
		d.Headers = shared
		middleware.Inject(ctx, propagation.TraceContext{}, &d.Message)
		producer.End()
		require.Equal(t, codec.Header{}, shared[:2][1], "headers of another message were written")
		value, _ := d.Headers.Get("traceparent")
		require.Regexp(t, `^00-`+producer.SpanContext().TraceID().String()+`-`+producer.SpanContext().SpanID().String()+`-01$`, value)
		value, _ = d.Headers.Get("tracestate")
		require.Equal(t, "vendor=value", value)
		exporter.Reset()

		var inside trace.SpanContext
		h := must(t)(middleware.Tracing(middleware.TracingConfig{
			Provider: provider, Propagator: propagation.TraceContext{}, Stream: "shop/orders", Group: "mailer", NewTrace: newTrace,
		}))(func(ctx context.Context, _ *consumer.Delivery) error {
			inside = trace.SpanContextFromContext(ctx)
			return nil
		})
		require.NoError(t, h(t.Context(), d))
		spans := exporter.GetSpans()
		require.Len(t, spans, 1)
		s := spans[0]
		require.Equal(t, inside.SpanID(), s.SpanContext.SpanID())
		require.Equal(t, "process shop/orders", s.Name)
		require.Equal(t, trace.SpanKindConsumer, s.SpanKind)
		require.Equal(t, codes.Unset, s.Status.Code)
		require.Len(t, s.Links, 1)
		require.Equal(t, producer.SpanContext().SpanID(), s.Links[0].SpanContext.SpanID())
		require.Equal(t, !newTrace, producer.SpanContext().TraceID() == s.SpanContext.TraceID())
		require.Equal(t, !newTrace, producer.SpanContext().SpanID() == s.Parent.SpanID())
		require.ElementsMatch(t, []attribute.KeyValue{
			attribute.String("messaging.system", "echomq"), attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.operation.name", "process"), attribute.String("messaging.destination.name", "shop/orders"),
			attribute.String("messaging.consumer.group.name", "mailer"), attribute.String("messaging.message.id", d.ID.String()),
			attribute.Int("echomq.attempt", 3),
		}, s.Attributes)
	}
}

// TestTracingOutcomes: failures are errors of the span, with the type of what failed; a snooze is none; a panic ends the span, too;
// headers that cannot be read, or are not there, leave it without a producer.
func TestTracingOutcomes(t *testing.T) {
	tests := []struct {
		name    string
		handler consumer.Handler
		code    codes.Code
		text    string
		verdict string
		typ     string
	}{
		{"nil", func(context.Context, *consumer.Delivery) error { return nil }, codes.Unset, "", "", ""},
		{"error", func(context.Context, *consumer.Delivery) error { return errMailbox }, codes.Error, "mailbox full", "retry", "*errors.errorString"},
		{"permanent", func(context.Context, *consumer.Delivery) error { return consumer.Permanent(errMailbox) }, codes.Error, "mailbox full", "permanent", "*errors.errorString"},
		{"snooze", func(context.Context, *consumer.Delivery) error { return consumer.Snooze(1) }, codes.Unset, "", "snooze", ""},
		{"panic", func(context.Context, *consumer.Delivery) error { panic("oh") }, codes.Error, "the handler did not return", "", ""},
		{"panic, recovered", middleware.Recover(nil)(func(context.Context, *consumer.Delivery) error { panic(errMailbox) }), codes.Error, "", "retry", "*consumer.PanicError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			provider, exporter := tracer()
			h := must(t)(middleware.Tracing(middleware.TracingConfig{Provider: provider, Propagator: propagation.TraceContext{}, Stream: "shop/orders"}))(tt.handler)
			d := delivery(0)
			d.Headers.Set("traceparent", "00-nonsense")
			func() {
				defer func() { _ = recover() }()
				_ = h(t.Context(), d)
			}()
			require.Len(t, exporter.GetSpans(), 1)
			s := exporter.GetSpans()[0]
			require.Equal(t, tt.code, s.Status.Code)
			require.Contains(t, s.Status.Description, tt.text)
			require.LessOrEqual(t, len(s.Status.Description), 1024)
			require.Empty(t, s.Links)
			require.False(t, s.Parent.IsValid())
			got := map[attribute.Key]string{}
			for _, a := range s.Attributes {
				got[a.Key] = a.Value.String()
			}
			require.Equal(t, tt.verdict, got["echomq.verdict"])
			require.Equal(t, tt.typ, got["error.type"])
		})
	}
}

// TestInjectWithoutASpan writes nothing.
func TestInjectWithoutASpan(t *testing.T) {
	m := codec.Message{Type: "t"}
	middleware.Inject(t.Context(), propagation.TraceContext{}, &m)
	require.Empty(t, m.Headers)
}

// TestTracingThroughTheServer: a writer's span is the parent of its consumer's.
func TestTracingThroughTheServer(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		provider, exporter := tracer()
		ctx, producer := provider.Tracer("test").Start(t.Context(), "place")
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.address})
		require.NoError(t, err)
		require.NoError(t, place(ctx, w, codec.Message{Type: "order.placed"}))
		producer.End()
		exporter.Reset()
		handled := make(chan trace.SpanContext, 1)
		h, err := traced(func(ctx context.Context, _ *consumer.Delivery) error {
			handled <- trace.SpanContextFromContext(ctx)
			return nil
		}, provider)
		require.NoError(t, err)
		stop := s.run(h, consumer.Config{})
		inside := <-handled
		require.NoError(t, stop())
		require.Equal(t, producer.SpanContext().TraceID(), inside.TraceID())
		require.Len(t, exporter.GetSpans(), 1)
		require.Equal(t, producer.SpanContext().SpanID(), exporter.GetSpans()[0].Parent.SpanID())
	})
}
