package aggregate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Config says which stream the aggregates stand in, and what their messages mean. Address and Fold are needed.
type Config[T any] struct {
	// Address is "scope/stream", of a keyed stream. It is declared as one by the first append.
	Address string
	// Brand is that of the stream's ids, see stream.WriterConfig.
	Brand codec.Brand
	// Fold is the state after a message, given the one before it, at first the zero T. It may change the state that it is
	// given, and depends on nothing else than its arguments. An error is that of Load: the state cannot be had.
	Fold func(state T, record codec.Record) (T, error)
	// Schema is the number of T and Fold for snapshots: raise it whenever either changes, so that states of the old ones are
	// not used. Two repositories of one stream with different states have different numbers, and spoil each other's
	// snapshots; turn them off in one.
	Schema int
	// SnapshotEvery is after how many messages Load keeps the state again, in msgpack: of T, what is exported. Default 100;
	// below 0: never. Small, states are written often; large, many messages are read for each load.
	SnapshotEvery int
	// Attempts is how often a decision is taken at most when others win. Default 50. Small, contended keys fail; large, callers
	// wait for long.
	Attempts int
	// Upcasts turn old messages into newer ones before Fold sees them.
	Upcasts codec.Upcasts
	// Registerer takes the metrics of the writer. Nil: none.
	Registerer prometheus.Registerer
}

func (c *Config[T]) setDefaults() {
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = 100
	}
	if c.Attempts == 0 {
		c.Attempts = 50
	}
}

func (c *Config[T]) validate() error {
	if c.Fold == nil {
		return fmt.Errorf("%w: Fold is needed: it says what a message means", stream.ErrBadCall)
	}
	if c.Attempts < 1 {
		return fmt.Errorf("%w: Attempts %d: 1 or more", stream.ErrBadCall, c.Attempts)
	}
	return nil
}

// State is an aggregate as of a version.
type State[T any] struct {
	Value   T
	Version uint64 // of the key; 0: it has no messages
	at      codec.EntryID
}

// Repository loads aggregates and executes decisions on them. It is safe for concurrent use.
type Repository[T any] struct {
	cfg    Config[T]
	client *tier.Client
	addr   tier.Address
	writer *stream.Writer
	reader *stream.Reader
	known  atomic.Bool // the stream is declared
}

// New checks the configuration. It sends nothing.
func New[T any](client *tier.Client, cfg Config[T]) (*Repository[T], error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	addr, err := tier.ParseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: cfg.Address, Brand: cfg.Brand, Keyed: true, Registerer: cfg.Registerer})
	if err != nil {
		return nil, err
	}
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: cfg.Address, Upcasts: cfg.Upcasts})
	if err != nil {
		return nil, err
	}
	return &Repository[T]{cfg: cfg, client: client, addr: addr, writer: w, reader: r}, nil
}

// Load folds the messages of a key, those after its snapshot if that is of use. Of a key without messages it is the zero
// state.
//
// Errors: that of Fold, or of a message that cannot be decoded, with the key and its version; those of Reader.ReadKey but
// stream.ErrNoStream: of messages that were trimmed, stream.ErrTrimmed.
func (r *Repository[T]) Load(ctx context.Context, key string) (State[T], error) {
	state := r.snapshot(ctx, key)
	kept := state.Version
	for v, err := range r.reader.ReadKey(ctx, key, state.Version+1) {
		if errors.Is(err, stream.ErrNoStream) {
			return State[T]{}, nil // the first append declares it
		}
		if err == nil && v.Err != nil {
			err = v.Err
		}
		if err == nil {
			state.Value, err = r.cfg.Fold(state.Value, v.Record)
		}
		if err != nil {
			return State[T]{}, fmt.Errorf("aggregate: load %s of %s, at version %d: %w", key, r.addr, state.Version+1, err)
		}
		state.Version, state.at = v.Version, v.Addr
	}
	if r.cfg.SnapshotEvery > 0 && state.Version-kept >= uint64(r.cfg.SnapshotEvery) {
		r.keep(ctx, key, state)
	}
	return state, nil
}

// Decide answers with the messages that follow from the states of its keys, or with an error, which is the caller's.
// Without messages nothing is appended.
type Decide[T any] func(states ...T) ([]codec.Message, error)

// Execute loads an aggregate, decides, and appends what was decided if the key still has the version that was loaded;
// else it begins again after a pause, up to Attempts times. A message without a key gets the aggregate's.
//
// Errors: that of decide, as it is; *GaveUpError; those of Load and Writer.AppendIf: with tier.OutcomeUnknown(err) the
// messages may have been appended.
func (r *Repository[T]) Execute(ctx context.Context, key string, decide func(state T) ([]codec.Message, error)) ([]codec.ID, error) {
	return r.ExecuteAll(ctx, []string{key}, func(states ...T) ([]codec.Message, error) {
		ms, err := decide(states[0])
		for i := range ms {
			if ms[i].Key == "" {
				ms[i].Key = key
			}
		}
		return ms, err
	})
}

// ExecuteAll is Execute on several aggregates at once: all messages are appended, if all keys still have their versions,
// or none. Each message has one of the keys; the states stand in their order.
func (r *Repository[T]) ExecuteAll(ctx context.Context, keys []string, decide Decide[T]) ([]codec.ID, error) {
	if !r.known.Load() { // one that was removed before is made anew, as by any writer that begins
		if _, err := r.writer.Declare(ctx); err != nil {
			return nil, err
		}
		r.known.Store(true)
	}
	for try := 1; ; try++ {
		states, conditions := make([]T, len(keys)), make([]stream.Condition, len(keys))
		for i, key := range keys {
			state, err := r.Load(ctx, key)
			if err != nil {
				return nil, err
			}
			states[i], conditions[i] = state.Value, stream.ExpectVersion(key, state.Version)
		}
		ms, err := decide(states...)
		if err != nil || len(ms) == 0 {
			return nil, err
		}
		for i := range ms {
			if !slices.Contains(keys, ms[i].Key) {
				return nil, fmt.Errorf("%w: a decision on %q has a message of %q: name each key whose messages are decided", stream.ErrBadCall, keys, ms[i].Key)
			}
		}
		ids, err := r.writer.AppendIf(ctx, ms, conditions...)
		conflict, lost := errors.AsType[*stream.ConflictError](err)
		if !lost {
			return ids, err
		}
		if try == r.cfg.Attempts {
			return nil, &GaveUpError{Attempts: try, Err: conflict}
		}
		if !tier.Pause(ctx, pause(try)) {
			return nil, fmt.Errorf("aggregate: execute on %q: not appended: %w", keys, context.Cause(ctx))
		}
	}
}

// pause is drawn whole, so that those who lost to the same one do not meet again: up to 2 ms, doubled each time up to 100 ms.
func pause(try int) time.Duration {
	return rand.N(tier.Doubled(try, 2*time.Millisecond, 100*time.Millisecond)) + 1
}

// GaveUpError says that others changed the aggregate each time before a decision could be appended. Nothing was.
type GaveUpError struct {
	Attempts int
	Err      *stream.ConflictError // of the last one
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("aggregate: gave up after %d attempts, each lost to another writer: try later, or split what is contended into several keys: %v", e.Attempts, e.Err)
}

func (e *GaveUpError) Unwrap() error { return e.Err }
