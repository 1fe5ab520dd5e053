package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/middleware"
)

// TestLogging: each outcome has its level and its words, always with the same keys, and nothing of what is in the message.
func TestLogging(t *testing.T) {
	returns := func(err error) consumer.Handler {
		return func(context.Context, *consumer.Delivery) error { return err }
	}
	tests := []struct {
		name, level, msg, verdict string
		ctx                       context.Context
		handler                   consumer.Handler
	}{
		{"nil", "INFO", "message handled", "settle", t.Context(), returns(nil)},
		{"snooze", "DEBUG", "message snoozed", "snooze", t.Context(), returns(consumer.Snooze(1))},
		{"error", "WARN", "handler failed", "retry", t.Context(), returns(errMailbox)},
		{"after", "WARN", "handler failed", "retry after", t.Context(), returns(consumer.RetryAfter(errMailbox, 1))},
		{"permanent", "ERROR", "message given up", "permanent", t.Context(), returns(consumer.Permanent(errMailbox))},
		{"lost", "WARN", "handler interrupted", "permanent", ended(consumer.ErrLeaseLost), returns(consumer.Permanent(errMailbox))},
		{"stopped", "WARN", "handler interrupted", "retry", ended(consumer.ErrDrainTimeout), returns(errMailbox)},
		{"panic", "ERROR", "handler did not return", "retry", t.Context(), func(context.Context, *consumer.Delivery) error { panic("oh") }},
		{"panic, recovered", "ERROR", "handler did not return", "retry", t.Context(), middleware.Recover(nil)(func(context.Context, *consumer.Delivery) error { panic("oh") })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			h := must(t)(middleware.Logging(middleware.LoggingConfig{Logger: logger}))(tt.handler)
			d := delivery(0)
			d.Headers.Set("token", "secret")
			d.Key = "secret"
			func() {
				defer func() { _ = recover() }()
				_ = h(tt.ctx, d)
			}()
			var line map[string]any
			require.NoError(t, json.Unmarshal(out.Bytes(), &line))
			require.Equal(t, tt.level, line["level"])
			require.Equal(t, tt.msg, line["msg"])
			require.Equal(t, tt.verdict, line["verdict"])
			require.Equal(t, d.Position.String(), line["entry"])
			require.Equal(t, d.ID.String(), line["id"])
			require.Equal(t, "order.placed", line["type"])
			require.EqualValues(t, 1, line["attempt"])
			require.Contains(t, line, "took")
			_, failed := line["err"]
			require.Equal(t, tt.verdict != "settle", failed)
			require.NotContains(t, out.String(), "secret")
		})
	}
}

// TestLoggingSamples: of successes one of so many, of all else each.
func TestLoggingSamples(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	calls := 0
	errs := make([]error, 100)
	errs[7], errs[50] = errMailbox, errMailbox
	h := must(t)(middleware.Logging(middleware.LoggingConfig{Logger: logger, Successes: 10, Level: slog.LevelWarn}))(answers(&calls, errs...))
	for i := range errs {
		_ = h(t.Context(), delivery(i))
	}
	require.Equal(t, 9, strings.Count(out.String(), "message handled"))
	require.Equal(t, 9, strings.Count(out.String(), "every=10"))
	require.Equal(t, 2, strings.Count(out.String(), "handler failed"))
	require.Equal(t, 11, strings.Count(out.String(), "level=WARN"))
}
