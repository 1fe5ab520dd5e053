package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// Source is a history that can be read again.
type Source interface {
	// Identity is what the ids of the stream are derived from.
	Identity(ctx context.Context) (codec.Identity, error)
	// Range yields the messages from one address to another, both included, ascending; an error ends it.
	Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error]
}

// ErrConfig is wrapped by what New refuses.
var ErrConfig = errors.New("replay: bad configuration")

// Config says what is replayed, and how fast. The zero value is all of it, as fast as it is taken.
type Config struct {
	// From and To are the addresses of the window, both included. Zero: the beginning, and the end as it is when it gets there.
	From, To codec.EntryID
	// Types and Keys are those of the messages that are replayed. Nil: all, foreign and undecodable entries too, which have
	// neither a type nor a key.
	Types, Keys []string
	// Speed is how fast time goes: 1 as it went, 10 ten times as fast. Default 0: there is no waiting. The time of a message is
	// that of its address, by the server's clock when it was appended.
	Speed float64
	// Rate is how many messages go in a second at most. Default 0: any number.
	Rate float64
}

func (c *Config) setDefaults() {
	if c.To.IsZero() {
		c.To = codec.MaxEntryID
	}
}

func (c *Config) validate() error {
	switch {
	case c.To.Compare(c.From) < 0:
		return fmt.Errorf("%w: the window ends at %s, before it begins at %s", ErrConfig, c.To, c.From)
	case !(c.Speed >= 0):
		return fmt.Errorf("%w: Speed is %v, want 0 or more", ErrConfig, c.Speed)
	case !(c.Rate >= 0):
		return fmt.Errorf("%w: Rate is %v, want 0 or more", ErrConfig, c.Rate)
	}
	return nil
}

// Replay gives the messages of a window out once more.
type Replay struct {
	source Source
	cfg    Config
}

// New checks the configuration. It reads nothing.
func New(source Source, cfg Config) (*Replay, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Replay{source: source, cfg: cfg}, nil
}

// Run gives the messages to a handler, one after another in the order of the stream: Attempt is 1, Replay is set. The first
// error ends it, of the handler, of the source, or of ctx; what comes again is the caller's to say, by a Replay from the address
// that failed.
func (r *Replay) Run(ctx context.Context, handle consumer.Handler) error {
	pace := pace{speed: r.cfg.Speed, rate: r.cfg.Rate}
	var d consumer.Delivery
	for record, err := range r.selected(ctx, r.cfg.From) {
		if err != nil {
			return err
		}
		if err := r.wait(ctx, &pace, record.Addr, 1); err != nil {
			return err
		}
		d = consumer.Delivery{Record: *record, Attempt: 1, Replay: true}
		if err := handle(ctx, &d); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until n messages are due, of which the first stands at an address.
func (r *Replay) wait(ctx context.Context, p *pace, at codec.EntryID, n int) error {
	if p.speed > 0 || p.rate > 0 {
		now := time.Now()
		tier.Pause(ctx, p.due(now, at.Time(), n).Sub(now))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// selected yields the messages of the window, from an address on, that are to be replayed. What it yields is good until the
// next one; its strings and bytes stay.
func (r *Replay) selected(ctx context.Context, from codec.EntryID) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		if from.Compare(r.cfg.To) > 0 {
			return
		}
		for record, err := range r.source.Range(ctx, from, r.cfg.To) {
			if err != nil {
				yield(nil, err)
				return
			}
			if r.wanted(&record) && !yield(&record, nil) {
				return
			}
		}
	}
}

func (r *Replay) wanted(m *codec.Record) bool {
	if r.cfg.Types == nil && r.cfg.Keys == nil {
		return true
	}
	return !m.Foreign() && m.Err == nil &&
		(r.cfg.Types == nil || slices.Contains(r.cfg.Types, m.Type)) && (r.cfg.Keys == nil || slices.Contains(r.cfg.Keys, m.Key))
}
