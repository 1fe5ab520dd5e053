package projection

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

const defaultSnapshotEvery = time.Minute

// MemoryConfig of a Memory. Address, Name and Fold are needed.
type MemoryConfig[S any] struct {
	// Address is "scope/stream", of what is folded; of a partitioned stream one partition, "scope/stream@0".
	Address string
	// Name of the projection, one of its stream.
	Name string
	// Version of S and Fold. Default 1. Raise it whenever either changes, so that snapshots of the old ones are not used.
	Version int
	// New is the state before the first message. Nil: the zero S.
	New func() S
	// Fold makes the state of the whole stream: each message, of whatever key, changes it. What it emits has no effect. An error
	// ends Run; a message that is to be passed over is one after which the state is the same.
	Fold Fold[S]
	// Codec is how snapshots are stored. Default codec.Msgpack: of S, what is exported.
	Codec codec.Codec[S]
	// SnapshotEvery is after what time each process keeps its state again, if that has changed. Default 1 min; below 0: snapshots
	// are neither kept nor used. Small, the whole state is written often, during which nothing is folded; large, more is
	// folded again after a crash, and the log may be trimmed meanwhile.
	SnapshotEvery time.Duration
	// Upcasts turn old messages into newer ones before they are folded.
	Upcasts codec.Upcasts
	// History has what the log has no more, with the same Upcasts: a retention.Reader. Nil: the state is made of what the log has.
	History History
	// Logger receives what happens. Nil discards.
	Logger *slog.Logger
}

// History is a stream that is read beyond its log.
type History interface {
	// Tail yields the messages from an address on, as stream.Reader.Tail does.
	Tail(ctx context.Context, from codec.EntryID) iter.Seq2[codec.Record, error]
	// Newest is the address of the newest message; zero: there is none.
	Newest(ctx context.Context) (codec.EntryID, error)
}

func (c *MemoryConfig[S]) setDefaults() {
	if c.Version == 0 {
		c.Version = 1
	}
	if c.New == nil {
		c.New = func() (zero S) { return zero }
	}
	if c.Codec == nil {
		c.Codec = codec.Msgpack[S]()
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = defaultSnapshotEvery
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *MemoryConfig[S]) validate() error {
	switch {
	case c.Fold == nil:
		return fmt.Errorf("%w: Fold is needed: it says what a message means", consumer.ErrConfig)
	case c.Version < 1 || c.Version > 9999:
		return fmt.Errorf("%w: Version is %d, want 1 to 9999", consumer.ErrConfig, c.Version)
	}
	return nil
}

// Memory is a projection into the memory of the process: each that runs it has the whole state, of its own, and reads all of the
// stream. It owns nothing and commits nothing. A snapshot, which any of them keeps, spares the next start the fold of what is
// in it; whatever is wrong with it, the messages are folded from the head. It is used once, and safe for concurrent use.
type Memory[S any] struct {
	cfg       MemoryConfig[S]
	reader    *stream.Reader
	snapshots *stream.Snapshots
	log       *slog.Logger
	ran       atomic.Bool
	ready     chan struct{}
	live      codec.EntryID // messages up to it are a replay

	kept  codec.EntryID // how far the state was when it was kept last, by this process or the one before
	mu    sync.RWMutex
	state S
	at    stream.Snapshot // how far the state is, without its bytes
	spoil bool            // a fold failed: nobody knows what it has changed
}

// NewMemory checks the configuration. It sends nothing.
func NewMemory[S any](client *tier.Client, cfg MemoryConfig[S]) (*Memory[S], error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	snapshots, err := stream.NewSnapshots(client, cfg.Address, Versioned(cfg.Name, cfg.Version))
	if err != nil {
		return nil, err
	}
	reader, err := stream.NewReader(client, stream.ReaderConfig{Address: cfg.Address, Upcasts: cfg.Upcasts})
	if err != nil {
		return nil, err
	}
	m := &Memory[S]{cfg: cfg, reader: reader, snapshots: snapshots, ready: make(chan struct{}), state: cfg.New()}
	m.log = cfg.Logger.With(slog.String("stream", cfg.Address), slog.String("projection", Versioned(cfg.Name, cfg.Version)))
	return m, nil
}

// Ready is closed when all is folded that the stream held when Run began.
func (m *Memory[S]) Ready() <-chan struct{} { return m.ready }

// View calls f with the state while nothing is folded. F keeps nothing of it, and changes nothing.
func (m *Memory[S]) View(f func(state S)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.state)
}

// Lag is the age of the oldest entry that is not folded here, by the server's clock; 0: all is.
func (m *Memory[S]) Lag(ctx context.Context) (time.Duration, error) {
	m.mu.RLock()
	at := m.at.At
	m.mu.RUnlock()
	return m.reader.UnreadAge(ctx, at)
}

// Run folds all messages of the stream, and goes on with what is appended, until ctx ends; then it keeps the state. It waits for a
// server that cannot be reached, and for a stream that is not there yet. A message that cannot be read is passed over.
//
// Errors: consumer.ErrRan; *GapError, which is a *stream.TrimmedError; that of Fold, with the place of the message;
// stream.ErrStreamRemoved; stream.ErrPartitioned; a *tier.Error that is not worth waiting for.
func (m *Memory[S]) Run(ctx context.Context) error {
	if !m.ran.CompareAndSwap(false, true) {
		return consumer.ErrRan
	}
	from, err := m.begin(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	keeping, end := context.WithCancel(ctx)
	var keeper conc.WaitGroup
	keeper.Go(func() { m.keepOn(keeping) })
	err = m.follow(ctx, from)
	end()
	keeper.Wait()
	if err == nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		m.keep(last)
	}
	m.log.Info("projection stopped", slog.Any("err", err))
	return err
}

// begin finds where to begin, and waits for a server that is not to be had just now.
func (m *Memory[S]) begin(ctx context.Context) (from stream.Snapshot, err error) {
	for try := 1; ctx.Err() == nil; try++ {
		if m.live, err = m.newest(ctx); errors.Is(err, stream.ErrNoStream) {
			err = nil
		}
		if err == nil {
			from, err = m.load(ctx)
		}
		if err == nil {
			m.log.Info("projection is folded", slog.String("from", from.At.String()), slog.String("live", m.live.String()))
			m.caughtUp(from.At)
			return from, nil
		}
		if reactionTo(err) == giveUp && ctx.Err() == nil {
			return from, fmt.Errorf("projection %s of %s: begin: %w", m.cfg.Name, m.cfg.Address, err)
		}
		tier.Pause(ctx, tier.CallDelay(try))
	}
	return from, nil
}

func (m *Memory[S]) newest(ctx context.Context) (at codec.EntryID, err error) {
	if m.cfg.History != nil {
		return m.cfg.History.Newest(ctx)
	}
	newest, err := m.reader.Last(ctx, 1)
	if len(newest) > 0 {
		at = newest[0].Addr
	}
	return at, err
}

// caughtUp is told how far the state is.
func (m *Memory[S]) caughtUp(at codec.EntryID) {
	select {
	case <-m.ready:
	default:
		if at.Compare(m.live) >= 0 {
			close(m.ready)
		}
	}
}

// follow folds what comes after a snapshot.
func (m *Memory[S]) follow(ctx context.Context, from stream.Snapshot) error {
	for r, err := range m.after(ctx, from) {
		if errors.Is(err, stream.ErrTrimmed) {
			return &GapError{Name: m.cfg.Name, Stream: m.cfg.Address, At: m.at.At, Err: err}
		}
		if err != nil {
			return fmt.Errorf("projection %s of %s: %w", m.cfg.Name, m.cfg.Address, err)
		}
		if err := m.foldOne(&r); err != nil {
			return fmt.Errorf("projection %s of %s: fold of %s: %w", m.cfg.Name, m.cfg.Address, r.Position, err)
		}
		m.caughtUp(r.Addr)
	}
	return nil
}

// after yields what comes after a snapshot: when the log lacks some of it, from the archive.
func (m *Memory[S]) after(ctx context.Context, from stream.Snapshot) iter.Seq2[codec.Record, error] {
	if m.cfg.History == nil {
		return m.reader.Resume(ctx, from)
	}
	return func(yield func(codec.Record, error) bool) {
		next := codec.EntryID{}
		if !from.At.IsZero() {
			next = from.At.Next()
			for r, err := range m.reader.Resume(ctx, from) {
				if trimmed, ok := errors.AsType[*stream.TrimmedError](err); ok && !trimmed.Lost {
					break
				}
				if !yield(r, err) || err != nil {
					return
				}
				next = r.Addr.Next()
			}
		}
		for r, err := range m.cfg.History.Tail(ctx, next) {
			if !yield(r, err) {
				return
			}
		}
	}
}

func (m *Memory[S]) foldOne(r *codec.Record) (err error) {
	if r.Err != nil {
		m.log.Error("message passed over, it cannot be read", slog.String("entry", r.Position.String()), slog.Any("err", r.Err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.spoil = err != nil }()
	defer caught(&err)
	if r.Err == nil {
		d := consumer.Delivery{Record: *r, Attempt: 1, Replay: r.Addr.Compare(m.live) <= 0 || r.Repeats()}
		state, err := m.cfg.Fold(m.state, &d)
		if err != nil {
			return err
		}
		m.state = state
	}
	m.at.At, m.at.Entry = r.Addr, r.Position.Entry
	return nil
}
