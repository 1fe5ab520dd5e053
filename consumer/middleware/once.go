package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
)

// endPatience is how long a handler that has returned waits for its record: its context may have ended.
const endPatience = 5 * time.Second

// OnceConfig says where records are kept. Records is needed.
type OnceConfig struct {
	Records *stream.Records
	// ID is what the effect belongs to. Default MessageID: what happens once, happens once for each message. With an id that
	// the producer gave, it happens once for all messages of that id. A message of which it is empty is handled without a
	// record.
	ID func(*consumer.Delivery) string
	// Logger receives records that could not be written. Nil discards.
	Logger *slog.Logger
}

// Effect is what a handler inside [Once] may know of its message's effect.
type Effect struct {
	// Key is the effect's own: of the stream, the records and the message. Give it to whoever does the effect, if it takes
	// such keys: most payment services do.
	Key string
	// Earlier is how many deliveries began before this one and did not say that they had no effect: any of them may have had
	// it. First is when the first began, by the server's clock.
	Earlier int
	First   time.Time
}

// Repeated: the effect may have happened already.
func (e Effect) Repeated() bool { return e.Earlier > 0 }

type effectKey struct{}

// EffectOf is the effect of the message that is being handled; of a handler outside [Once] the zero value.
func EffectOf(ctx context.Context) Effect {
	e, _ := ctx.Value(effectKey{}).(Effect)
	return e
}

// Once keeps a record at the server of each message's effect, for effects outside the server: a mail, a payment. The record
// says begun before the handler is called, and done when it has returned nil. Then:
//
//   - The record says done: the message is settled without the handler, whoever did it, and however often it comes.
//   - There is none: the handler is called, and EffectOf(ctx).Repeated() is false. No other has begun.
//   - An earlier delivery began and is over, by an error, a panic, or since its process died or lost its lease: the handler is
//     called, and Repeated is true. Whether that one died before its effect or after it, nobody can tell but who had the
//     effect. So the handler decides: it asks there, with the Key or an id of its own; or it does it again, where twice is
//     better than not at all; or it returns consumer.Permanent, for a person to look.
//   - One that began is not known to be over, and this delivery is not a later attempt than that; or it is a lower attempt
//     than the last: since it is a process's that was frozen and has lost its lease, or attempts began anew, after a redrive, a
//     reset, or the crash of an exclusive owner. The message is snoozed until RecordsConfig.Hold is over, and then the handler is
//     called, with Repeated true.
//
// A handler that returns an error before it has done anything says so by [WithoutEffect]; its attempt then leaves no trace. The
// other middleware of this package does. An error of which nothing is said may have had its effect.
//
// So an effect is done twice only by a handler that chose to when Repeated was true; or when the record was lost, with a
// server that failed over or was flushed; or was too old (RecordsConfig.Keep, KeepOpen); or when a process was frozen so long,
// between its begin and its effect, that its lease ended and another did it meanwhile: the fence of a lease ends at the
// server, and what a process does elsewhere cannot be called back. A Key that the other side remembers covers all of these.
//
// When done cannot be written, the message is settled all the same; should that fail too, it comes again with Repeated true.
// When begun cannot be written, the handler is not called, and the message comes again, which counts as an attempt.
//
// It costs two calls at the server for each message, of which those of several workers share round trips.
func Once(cfg OnceConfig) (Middleware, error) {
	if cfg.Records == nil {
		return nil, fmt.Errorf("%w: Once needs Records", ErrConfig)
	}
	if cfg.ID == nil {
		cfg.ID = MessageID
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	prefix := cfg.Records.Address().String() + "/" + cfg.Records.Name() + "/"
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			id := cfg.ID(m)
			if id == "" {
				return next(ctx, m)
			}
			e, err := cfg.Records.Begin(ctx, id, m.Attempt)
			switch {
			case err != nil:
				return WithoutEffect(fmt.Errorf("middleware: the handler was not called, since its record cannot be written: %w", err))
			case e.State == stream.EffectDone:
				return nil
			case e.State == stream.EffectHeld:
				return WithoutEffect(consumer.Snooze(e.Wait))
			}
			err = errDidNotReturn
			defer func() { cfg.end(ctx, e, m, err) }()
			if ctx.Err() != nil { // the lease was lost, or the stop's time is over
				err = WithoutEffect(context.Cause(ctx))
				return err
			}
			err = next(context.WithValue(ctx, effectKey{}, Effect{Key: prefix + id, Earlier: e.Earlier, First: e.First}), m)
			return err
		}
	}, nil
}

// end writes how the handler ended.
func (c *OnceConfig) end(ctx context.Context, e stream.Effect, m *consumer.Delivery, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	end := c.Records.Leave
	if err == nil {
		end = c.Records.Done
	} else if isEffectless(err) {
		end = c.Records.Withdraw
	}
	if failed := end(ctx, e); failed != nil {
		c.Logger.Warn("the record of an effect was not written: if its message comes again, it is taken for one that may have had its effect",
			slog.String("entry", m.Position.String()), slog.Any("err", failed))
	}
}
