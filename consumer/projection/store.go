package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// Store is where a Stored projection keeps its state, with a checkpoint and an epoch of its own in the same place. Both
// methods answer tier.ErrFenced, with no effect, when the epoch that the store has is higher than the one that is given: the
// caller was frozen, and another owns the projection by now. Any other error is one of the store: the call is made again,
// after a pause, until it succeeds.
type Store interface {
	// Begin raises the store's epoch to that of a new owner and returns the checkpoint, zero when nothing was applied.
	Begin(ctx context.Context, epoch uint64) (codec.EntryID, error)
	// Apply folds messages into the state, in their order, and sets the checkpoint, in one transaction that compares the
	// epoch. A message that cannot be folded is for Apply to pass over, with a note of its own: an error stops all.
	// Emit has no effect here: what is to be sent belongs into the transaction, too.
	Apply(ctx context.Context, epoch uint64, batch []*consumer.Delivery, checkpoint codec.EntryID) error
}

// NewStored makes a projection into a store. It sends nothing. Each version needs tables, a checkpoint and an epoch of its own
// in the store. Messages that cannot be read go to the dead letters, and do not reach it; redriven, they come late, and at
// least once.
func NewStored(client *tier.Client, cfg Config, store Store) (*Projection, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: a stored projection needs a store", consumer.ErrConfig)
	}
	return newProjection(client, cfg, &storeSink{store: store})
}

type storeSink struct {
	store Store
	epoch uint64
	at    codec.EntryID // checkpoint of the store
}

// storeError is a failure of the store, which passes.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// failed tells the store's errors from the server's.
func failed(err error) error {
	if err == nil || errors.Is(err, tier.ErrFenced) {
		return err
	}
	return &storeError{fmt.Errorf("store: %w", err)}
}

func (s *storeSink) begin(ctx context.Context, epoch uint64, _ codec.EntryID) (err error) {
	s.epoch = epoch
	s.at, err = s.store.Begin(ctx, epoch)
	return failed(err)
}

// fold applies what the store does not have yet.
func (s *storeSink) fold(ctx context.Context, b *batch) (writes, error) {
	if !b.late && b.through.Compare(s.at) <= 0 {
		b.deliveries, b.from = b.deliveries[:0], b.from[:0]
		return writes{}, nil
	}
	batch := make([]*consumer.Delivery, len(b.deliveries))
	for i := range b.deliveries {
		batch[i] = &b.deliveries[i]
	}
	at := s.at
	if !b.late {
		batch = slices.DeleteFunc(batch, func(d *consumer.Delivery) bool { return d.Position.Entry.Compare(s.at) <= 0 })
		at = b.through
	}
	err := s.store.Apply(ctx, s.epoch, batch, at)
	b.deliveries, b.from = b.deliveries[:0], b.from[:0]
	if err == nil {
		s.at = at
	}
	return writes{}, failed(err)
}

func (s *storeSink) committed()                 {}
func (s *storeSink) forget()                    {}
func (s *storeSink) look(context.Context) error { return nil } // it expects nothing
