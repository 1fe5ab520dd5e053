package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// BreakerConfig of a [Breaker]. The zero value is ready to use.
type BreakerConfig struct {
	// Name of what the handler depends on, for the log.
	Name string
	// Failures in a row open the breaker. Default 5. Small, a few bad messages in a row stop all; large, an outage costs as many
	// attempts, and as many calls that wait for their timeouts.
	Failures int
	// Open is how long it lets nothing through. Default 30 s. Short, what has just broken down is asked again and again; long,
	// messages wait although it is well again.
	Open time.Duration
	// Trials is how many messages are let through at a time when Open is over, and how many must succeed in a row for all to
	// be let through. Default 1. One failure opens it again.
	Trials int
	// Hold is how long a message that is not let through keeps its worker before it is snoozed. Default 1 s, below 0 not at
	// all. A message that is snoozed is parked at the server, and another is read: with 8 workers and a second, at most 8 each
	// second while the breaker is open. With none, the whole backlog is read and parked as fast as it can be.
	Hold time.Duration
	// Failure tells whether an error is one of what the handler depends on. Default: every one. It is not asked about those
	// that never are.
	Failure func(error) bool
	// Logger receives each change of state. Nil discards.
	Logger *slog.Logger
}

func (c *BreakerConfig) setDefaults() {
	if c.Failures == 0 {
		c.Failures = 5
	}
	if c.Open == 0 {
		c.Open = 30 * time.Second
	}
	if c.Trials == 0 {
		c.Trials = 1
	}
	if c.Hold == 0 {
		c.Hold = time.Second
	}
	if c.Failure == nil {
		c.Failure = func(error) bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Breaker stops calling the handler for a while when it has failed several times in a row, as it does when what it depends
// on is down: messages are snoozed for what is left of that time, so that they come again without having spent an attempt.
// Then a few are let through, and all when these succeed.
//
// It counts errors that the default policy or consumer.RetryAfter is to mend, panics, and what [Timeout] ended. It does not count
// what says nothing about others: consumer.Permanent, consumer.Snooze, and handlers that a stop or a lost lease interrupted.
//
// A trial that never returns leaves it as it is: put [Timeout] inside, and heed the context. The breaker is this process's own:
// others find out by themselves.
func Breaker(cfg BreakerConfig) (Middleware, error) {
	cfg.setDefaults()
	if cfg.Failures < 1 || cfg.Trials < 1 || cfg.Open < 0 {
		return nil, fmt.Errorf("%w: Breaker needs Failures and Trials of at least 1, and an Open of more than nothing", ErrConfig)
	}
	b := &breaker{cfg: cfg}
	b.gate = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: cfg.Name, MaxRequests: uint32(cfg.Trials), Timeout: cfg.Open,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(cfg.Failures) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: b.changed,
	})
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			done, err := b.enter(ctx)
			if err != nil {
				return WithoutEffect(err)
			}
			err = errDidNotReturn
			defer func() { done(b.about(ctx, err)) }()
			err = next(ctx, m)
			return err
		}
	}, nil
}

// errNeutral says nothing about what the handler depends on.
var errNeutral = errors.New("middleware: neither a success nor a failure")

type breaker struct {
	cfg   BreakerConfig
	gate  *gobreaker.TwoStepCircuitBreaker[struct{}]
	until atomic.Int64 // when it is open no more, unix ns
}

// enter asks to be let through, for as long as a worker may be held.
func (b *breaker) enter(ctx context.Context) (done func(error), err error) {
	for left := b.cfg.Hold; ; {
		if done, err = b.gate.Allow(); err == nil {
			return done, nil
		}
		pause := b.rest()
		held := min(pause, left)
		if held <= 0 {
			return nil, consumer.Snooze(pause)
		}
		if !tier.Pause(ctx, held) {
			return nil, context.Cause(ctx)
		}
		left -= held
	}
}

// rest is what is left of the open time; while trials are under way, a moment.
func (b *breaker) rest() time.Duration {
	if rest := time.Until(time.Unix(0, b.until.Load())); rest > 0 {
		return rest + time.Millisecond // the gate opens behind it
	}
	return min(b.cfg.Open, time.Second)
}

// about is what a handler's error says of what it depends on: nil that it is well.
func (b *breaker) about(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	verdict, _ := consumer.VerdictOf(err)
	cause := context.Cause(ctx)
	switch {
	case verdict == consumer.VerdictPermanent, verdict == consumer.VerdictSnooze:
		return errNeutral
	case errors.Is(cause, consumer.ErrLeaseLost), errors.Is(cause, consumer.ErrDrainTimeout):
		return errNeutral
	case !errors.Is(err, errDidNotReturn) && !b.cfg.Failure(err):
		return errNeutral
	}
	return err
}

// changed is called by the gate, which is locked.
func (b *breaker) changed(name string, from, to gobreaker.State) {
	if to == gobreaker.StateOpen {
		b.until.Store(time.Now().Add(b.cfg.Open).UnixNano())
		b.cfg.Logger.Warn("breaker opened: messages are snoozed", slog.String("breaker", name), slog.Duration("open", b.cfg.Open))
		return
	}
	b.cfg.Logger.Info("breaker changed its state", slog.String("breaker", name), slog.String("from", from.String()), slog.String("to", to.String()))
}
