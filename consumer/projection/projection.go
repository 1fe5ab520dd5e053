package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/internal/throttle"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

const (
	defaultAttempts = 10
	defaultBackoff  = 100 * time.Millisecond
	maxBackoff      = 30 * time.Second
	defaultBatch    = 2048
	maxBatch        = 4096 // messages that one commit ends, unless a pack has more
	drainTimeout    = 10 * time.Second
)

// Config of a projection. Address and Name are needed.
type Config struct {
	// Address is "scope/stream", of what is folded.
	Address string
	// Name of the projection, one of its scope.
	Name string
	// Version of what is made of the messages. Default 1. A higher one is made from the head, beside those that there are.
	Version int
	// Lease is how long the owner may be silent before another takes over. Default 30 s; see stream.CursorConfig.
	Lease time.Duration
	// Batch is how many messages are folded and committed at once, at most. Default 2048; at most 4096, but a pack is never
	// split. Small, each costs more; large, more is folded again after a crash.
	Batch int
	// Attempts is how often a message is folded at most; then it goes to the dead letters, and those after it go on. Default
	// 10. consumer.Permanent gives it up at once; crashes count. Small, an outage of what a fold needs loses messages for the
	// state; large, a message that cannot be folded stops all.
	Attempts int
	// Backoff is the pause after the first failure of a message; it doubles with each, up to 30 s, unless the error is one of
	// consumer.RetryAfter or Snooze. Default 100 ms. Nothing is folded meanwhile.
	Backoff time.Duration
	// Upcasts turn old messages into newer ones before they are folded.
	Upcasts codec.Upcasts
	// Past has what the log has no more, see stream.CursorConfig. Nil: a version is made of what the log has.
	Past stream.Past
	// Logger receives what happens. Nil discards.
	Logger *slog.Logger
}

func (c *Config) setDefaults() {
	if c.Version == 0 {
		c.Version = 1
	}
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	if c.Attempts == 0 {
		c.Attempts = defaultAttempts
	}
	if c.Backoff == 0 {
		c.Backoff = defaultBackoff
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{consumer.ErrConfig}, args...)...)
	}
	if err := tier.CheckName("projection", c.Name); err != nil {
		return refuse("Name: %w", err)
	}
	if err := tier.CheckName("projection", c.Name+".9999.rank"); err != nil {
		return refuse("Name has %d bytes: its states have longer names", len(c.Name))
	}
	switch {
	case c.Version < 1 || c.Version > 9999:
		return refuse("Version is %d, want 1 to 9999", c.Version)
	case c.Batch < 1 || c.Batch > maxBatch:
		return refuse("Batch is %d, want 1 to %d: one call commits no more", c.Batch, maxBatch)
	case c.Attempts < 1:
		return refuse("Attempts is %d, want 1 or more", c.Attempts)
	case c.Backoff < 0:
		return refuse("Backoff is %s, want more than nothing", c.Backoff)
	}
	return nil
}

// Projection folds the messages of a stream. It is used once.
type Projection struct {
	cfg    Config
	client *tier.Client
	cursor *stream.Cursor
	sink   sink
	ran    atomic.Bool
	ready  chan struct{}

	unnamed bool // a process, which no view looks for
}

func newProjection(client *tier.Client, cfg Config, s sink) (*Projection, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cursor, err := stream.NewCursor(client, stream.CursorConfig{
		Address: cfg.Address, Name: Versioned(cfg.Name, cfg.Version), Start: stream.Head(), Lease: cfg.Lease, Past: cfg.Past,
	})
	if err != nil {
		return nil, err
	}
	return &Projection{cfg: cfg, client: client, cursor: cursor, sink: s, ready: make(chan struct{})}, nil
}

// Versioned is the name of the cursor, and of the state, of a version.
func Versioned(name string, version int) string { return name + "." + strconv.Itoa(version) }

// Ready is closed when Run takes part: it owns the projection, or stands by.
func (p *Projection) Ready() <-chan struct{} { return p.ready }

// Run folds messages while it owns the projection, and stands by while another does, until ctx ends; then it hands the
// ownership over. It waits for a server that cannot be reached. The first version that runs becomes the live one.
//
// Errors: consumer.ErrRan; *NameTakenError; *StateLostError; *SchemaError; stream.ErrStreamRemoved, stream.ErrCursorDeleted;
// *tier.OutputError of a state that holds something else; a *tier.Error that is not worth waiting for.
func (p *Projection) Run(ctx context.Context) error {
	if !p.ran.CompareAndSwap(false, true) {
		return consumer.ErrRan
	}
	owner, err := p.join(ctx)
	if err != nil || owner == nil {
		return err
	}
	close(p.ready)
	r := &run{Projection: p, owner: owner, log: p.cfg.Logger.With(
		slog.String("stream", p.cursor.Address().String()), slog.String("projection", p.cursor.Name()), slog.String("consumer", owner.Name()))}
	r.often = throttle.New(r.log)
	var endCalls, endBeat context.CancelFunc
	r.calls, endCalls = context.WithCancel(context.WithoutCancel(ctx))
	defer endCalls()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainTimeout, endCalls) })()
	beating, endBeat := context.WithCancel(r.calls)
	var beat conc.WaitGroup
	beat.Go(func() { r.beat(beating) })
	err = r.loop(ctx)
	endBeat()
	beat.Wait()
	err = errors.Join(err, r.leave())
	r.log.Info("projection stopped", slog.Any("err", err))
	return err
}

// join takes part, and waits for a server that is not to be had just now; nil when ctx ends before.
func (p *Projection) join(ctx context.Context) (*stream.Owner, error) {
	a, mine := p.cursor.Address(), tier.LiveVersion{}
	mine.Stream, mine.Version = a.Stream, p.cfg.Version
	host, _ := os.Hostname()
	prefix := "projection-" + strconv.Itoa(os.Getpid())
	if tier.CheckName("consumer", host) == nil && len(host) < 64 {
		prefix = host + "-" + strconv.Itoa(os.Getpid())
	}
	for try := 1; ; try++ {
		owner, err := p.cursor.Join(ctx, prefix)
		if err == nil {
			if p.unnamed {
				return owner, nil
			}
			var live tier.LiveVersion
			if live, err = p.client.ClaimProjection(ctx, a.Scope, p.cfg.Name, mine); err == nil && live.Stream != a.Stream {
				err = &NameTakenError{Name: p.cfg.Name, Stream: tier.Address{Scope: a.Scope, Stream: live.Stream}.String()}
			}
			if err == nil {
				return owner, nil
			}
			_ = owner.Leave(context.WithoutCancel(ctx))
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case reactionTo(err) == giveUp:
			return nil, fmt.Errorf("projection %s: join: %w", p.cursor.Name(), err)
		case !tier.Pause(ctx, tier.CallDelay(try)):
			return nil, nil
		}
	}
}
