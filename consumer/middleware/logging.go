package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/echomq/pipeline/consumer"
)

// LoggingConfig says what is logged, and where. Logger is needed; whatever all lines are to have is the logger's: stream and
// group, as a rule.
type LoggingConfig struct {
	Logger *slog.Logger
	// Successes is of how many messages without an error one is logged. Default 1: each.
	Successes int
	// Level is that of a message without an error. Default Info, which is its zero value.
	Level slog.Level
}

// Logging writes a line for each delivery, with the constant keys entry, id, type, attempt, took, verdict, and err. It never writes a
// message's key, headers and data; what stands in an error's text is the handler's affair. The level says who must act:
//
//	without an error   Config.Level, one of so many, with how many as every
//	snoozed            Debug
//	comes again        Warn
//	interrupted        Warn, by a stop or a lost lease
//	permanent, panic   Error
func Logging(cfg LoggingConfig) (Middleware, error) {
	if cfg.Successes == 0 {
		cfg.Successes = 1
	}
	if cfg.Logger == nil || cfg.Successes < 0 {
		return nil, fmt.Errorf("%w: Logging needs a Logger, and Successes of at least 1", ErrConfig)
	}
	var successes atomic.Int64
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			start := time.Now()
			err := errDidNotReturn
			defer func() {
				if err == nil && successes.Add(1)%int64(cfg.Successes) != 0 {
					return
				}
				cfg.line(ctx, m, time.Since(start), err)
			}()
			err = next(ctx, m)
			return err
		}
	}, nil
}

func (c *LoggingConfig) line(ctx context.Context, m *consumer.Delivery, took time.Duration, err error) {
	verdict, _ := consumer.VerdictOf(err)
	level, text := c.level(ctx, err)
	if !c.Logger.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 8),
		slog.String("entry", m.Position.String()), slog.String("id", m.ID.String()), slog.String("type", m.Type),
		slog.Int("attempt", m.Attempt), slog.Duration("took", took), slog.String("verdict", verdict.String()))
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	} else if c.Successes > 1 {
		attrs = append(attrs, slog.Int("every", c.Successes))
	}
	c.Logger.LogAttrs(ctx, level, text, attrs...)
}

// level is how loud an outcome is, and what it is called.
func (c *LoggingConfig) level(ctx context.Context, err error) (slog.Level, string) {
	verdict, _ := consumer.VerdictOf(err)
	cause := context.Cause(ctx)
	_, panicked := errors.AsType[*consumer.PanicError](err)
	switch {
	case err == nil:
		return c.Level, "message handled"
	case verdict == consumer.VerdictSnooze:
		return slog.LevelDebug, "message snoozed"
	case errors.Is(cause, consumer.ErrLeaseLost), errors.Is(cause, consumer.ErrDrainTimeout):
		return slog.LevelWarn, "handler interrupted"
	case verdict == consumer.VerdictPermanent:
		return slog.LevelError, "message given up"
	case panicked, errors.Is(err, errDidNotReturn):
		return slog.LevelError, "handler did not return"
	default:
		return slog.LevelWarn, "handler failed"
	}
}
