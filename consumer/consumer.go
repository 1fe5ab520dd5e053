package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/echomq/pipeline/tier"
)

// Consumer gives the messages of one source to a handler. It is used once.
type Consumer struct {
	source  Source
	handler Handler      // or, if nil,
	batch   BatchHandler // of NewBatch
	cfg     Config
	ran     atomic.Bool
	ready   chan struct{}
}

// New checks the configuration and fills in its defaults. It sends nothing and starts nothing. The error is ErrConfig.
func New(source Source, handler Handler, cfg Config) (*Consumer, error) {
	if source == nil || handler == nil {
		return nil, fmt.Errorf("%w: a consumer needs a source and a handler", ErrConfig)
	}
	if err := cfg.unbatched(); err != nil {
		return nil, err
	}
	return newConsumer(source, handler, nil, cfg)
}

func newConsumer(source Source, handler Handler, batch BatchHandler, cfg Config) (*Consumer, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Consumer{source: source, handler: handler, batch: batch, cfg: cfg, ready: make(chan struct{})}, nil
}

// Ready is closed when the consumer has joined its group and begins to read.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

// Run joins the group and handles its messages until ctx ends, then stops: it fetches nothing more, hands back what was
// not begun, lets handlers finish for up to Config.DrainTimeout, settles what they did, and leaves the group. It returns
// nil after a clean stop.
//
// A server that cannot be reached, is loading or failing over, is waited for, and a group or stream that it has lost is
// made again. What does not get better by waiting ends Run in the same orderly way: a missing right, a key of a wrong
// type, a stream or a group that was deleted by its verb.
//
// Errors, possibly joined: what Join answered last; ErrRan; a *tier.Error that is not worth waiting for;
// *StuckError; *UnsettledError.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.ran.CompareAndSwap(false, true) {
		return ErrRan
	}
	member, err := c.join(ctx)
	if err != nil {
		return fmt.Errorf("consumer: join: %w", err)
	}
	if err := c.cfg.orderable(member); err != nil {
		return errors.Join(err, member.Leave(context.WithoutCancel(ctx)))
	}
	close(c.ready)
	return newRun(c, ctx, member).untilStopped(ctx)
}

// join joins the source, and waits for a server that is not to be had just now.
func (c *Consumer) join(ctx context.Context) (Member, error) {
	for try := 1; ; try++ {
		member, err := c.source.Join(ctx, c.cfg.Name)
		if err == nil || reactionTo(err) == giveUp {
			return member, err
		}
		if try == 1 {
			c.cfg.Logger.Warn("consumer waits for its server", slog.Any("err", err))
		}
		if !tier.Pause(ctx, tier.CallDelay(try)) {
			return nil, err
		}
	}
}
