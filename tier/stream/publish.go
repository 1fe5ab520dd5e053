package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

var errStopped = errors.New("the writer was stopped")

// perMessage is about what a queued message takes beside its bytes: its place in a batch, and its callback.
const perMessage = 128

// Publish queues a message and returns; done, which may be nil, is called with its id or error, in the order of the
// calls, from the goroutine that sends: it must neither block nor panic. While MaxQueued bytes are queued, Publish waits. It needs Run.
//
// Errors: ErrNotRunning, those of the message's size, or that of ctx; then done is not called.
func (w *Writer) Publish(ctx context.Context, m codec.Message, done func(codec.ID, error)) error {
	if w.cfg.Producer != "" {
		return errNamed
	}
	size, err := w.size(&m)
	if err != nil {
		return err
	}
	held := min(int64(size+perMessage), int64(w.cfg.MaxQueued))
	if err := w.room.Acquire(ctx, held); err != nil {
		return w.notSent(err)
	}
	if err := w.publish(&m, size, held, done); err != nil {
		w.room.Release(held)
		return err
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

func (w *Writer) publish(m *codec.Message, size int, held int64, done func(codec.ID, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return ErrNotRunning
	}
	b, _, err := w.put(m, size)
	if err != nil {
		return err
	}
	b.room, b.held = w.room, b.held+held
	if b.notify == nil {
		b.notify = make([]func(codec.ID, error), 0, cap(b.messages))
	}
	for len(b.notify) < len(b.messages)-1 {
		b.notify = append(b.notify, nil)
	}
	b.notify = append(b.notify, done)
	return nil
}

// Flush waits until everything that was queued before it is in the log or has failed.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	n := len(w.queue)
	if n > 0 {
		b := w.queue[n-1]
		b.waiters++
		w.mu.Unlock()
		w.wait(ctx, b, false) // its error is that of its messages
		return ctx.Err()
	}
	w.mu.Unlock()
	select { // what was sent is done when the line is free and nothing is kept for another try
	case w.line <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-w.line }()
	defer w.out.tell()
	for len(w.out.sent) > 0 && ctx.Err() == nil {
		w.round(ctx)
	}
	return ctx.Err()
}

// Ready is closed when Run has begun, and Publish works.
func (w *Writer) Ready() <-chan struct{} { return w.ready }

// Run sends what Publish queues until ctx ends, then what is still queued, for at most RetryFor. It can run once.
func (w *Writer) Run(ctx context.Context) error {
	if w.begun.Swap(true) {
		return fmt.Errorf("%w: Writer.Run was called before", ErrBadCall)
	}
	w.serve(true)
	close(w.ready)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-w.wake:
			w.drain(ctx)
		}
	}
	w.serve(false)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.RetryFor)
	defer cancel()
	w.drain(last)
	w.giveUp()
	return nil
}

func (w *Writer) serve(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = on
}

// drain sends until nothing that was published waits. Callers of Append send by themselves, and may do so without end.
func (w *Writer) drain(ctx context.Context) {
	select {
	case w.line <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-w.line }()
	defer w.out.tell()
	for w.publishing() && ctx.Err() == nil {
		w.round(ctx)
	}
}

// giveUp fails what is left of Publish. Callers of Append send by themselves.
func (w *Writer) giveUp() {
	w.line <- struct{}{}
	defer func() { <-w.line }()
	w.mu.Lock()
	published, rest := split(w.queue)
	w.queue = rest
	w.mu.Unlock()
	w.out.begin(w.cfg.RetryFor)
	w.out.stop(&tier.Error{Op: "append", Key: w.place.addr.LogKey(), Class: tier.ErrClosed, Err: errStopped})
	for _, b := range published {
		w.out.end(b, w.notSent(errStopped))
	}
	w.out.tell()
	w.metrics.round(&w.out)
}

// split tells batches with messages of Publish from others.
func split(batches []*batch) (published, rest []*batch) {
	for _, b := range batches {
		if len(b.notify) > 0 {
			published = append(published, b)
		} else {
			rest = append(rest, b)
		}
	}
	return published, rest
}

// publishing reports whether something waits that was published. The caller holds the line.
func (w *Writer) publishing() bool {
	published := func(b *batch) bool { return len(b.notify) > 0 }
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.out.sent, published) || slices.ContainsFunc(w.queue, published)
}
