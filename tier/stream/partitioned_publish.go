package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/sourcegraph/conc"
	"golang.org/x/sync/errgroup"

	"github.com/echomq/pipeline/codec"
)

// Publish queues a message for the partition of its key and returns, as Writer.Publish does: done is called in the order of the
// calls for one key. While the partitions are changed, it is called with ErrRepartitioned, and whoever needs the order of a key
// publishes what was refused again before what follows. It needs Run.
func (w *PartitionedWriter) Publish(ctx context.Context, m codec.Message, done func(codec.ID, error)) error {
	turn := w.turn.Add(1)
	for {
		r, err := w.served(ctx)
		if err != nil {
			return err
		}
		err = r.writers[r.partition(m.Key, turn)].Publish(ctx, m, func(id codec.ID, err error) {
			if errors.Is(err, ErrRepartitioned) {
				w.now.CompareAndSwap(r, nil)
			}
			if done != nil {
				done(id, err)
			}
		})
		if !errors.Is(err, ErrNotRunning) || w.now.Load() == r {
			return err
		} // else other partitions have taken over in this moment
	}
}

// served are the routes, when Run serves them.
func (w *PartitionedWriter) served(ctx context.Context) (*routes, error) {
	if !w.begun.Load() || closed(w.ended) {
		return nil, ErrNotRunning
	}
	r, err := w.routes(ctx)
	if err != nil || closed(r.running) {
		return r, err
	}
	select {
	case w.hand <- r:
	case <-r.running:
	case <-w.ended:
		return nil, ErrNotRunning
	case <-ctx.Done():
		return nil, fmt.Errorf("stream: append to %s: not sent: %w", w.addr, context.Cause(ctx))
	}
	select {
	case <-r.running:
		return r, nil
	case <-w.ended:
		return nil, ErrNotRunning
	}
}

// Flush waits until everything that was queued before it is in the log or has failed.
func (w *PartitionedWriter) Flush(ctx context.Context) error {
	r := w.now.Load()
	if r == nil {
		return ctx.Err()
	}
	var all errgroup.Group
	for _, one := range r.writers {
		all.Go(func() error { return one.Flush(ctx) })
	}
	return all.Wait()
}

// Ready is closed when Run has begun, and Publish works.
func (w *PartitionedWriter) Ready() <-chan struct{} { return w.ready }

// Run sends what Publish queues until ctx ends, then what is still queued, for at most RetryFor. It can run once.
func (w *PartitionedWriter) Run(ctx context.Context) error {
	if w.begun.Swap(true) {
		return fmt.Errorf("%w: PartitionedWriter.Run was called before", ErrBadCall)
	}
	var p conc.WaitGroup
	defer p.Wait()
	defer close(w.ended)
	close(w.ready)
	retire := func() {}
	defer func() { retire() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-w.hand:
			if closed(r.running) {
				continue
			}
			retire() // of other partitions: what they hold goes through, or fails
			retire = r.run(ctx, &p)
		}
	}
}

// run serves Publish until ctx ends or stop is called.
func (r *routes) run(ctx context.Context, p *conc.WaitGroup) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	for _, one := range r.writers {
		p.Go(func() { _ = one.Run(ctx) }) // it runs once, so it has no error
		<-one.Ready()
	}
	close(r.running)
	return stop
}
