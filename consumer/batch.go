package consumer

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

const (
	defaultBatchSize = 100
	maxBatchSize     = 4096 // what one script settles
)

// BatchHandler does the work that several messages ask for at once. It returns one verdict for each, in their order, which
// counts as the error of a [Handler] for that message: nil settles it, an error brings it back. Nil in place of all verdicts
// settles every one. Any other number of verdicts fails them all, as does a panic or a runtime.Goexit.
//
// The messages are in the order in which they were to be begun, and with an order there is one of a lane at most: of each
// key one, so that a verdict never comes too late for the next message of its key. The context is that of a Handler; it
// ends when the lease of one of the messages is lost.
type BatchHandler func(ctx context.Context, batch []*Delivery) []error

// NewBatch is [New] with a handler that is given several messages at once: up to Config.BatchSize, or as many as there are
// Config.BatchWait after the first.
func NewBatch(source Source, handler BatchHandler, cfg Config) (*Consumer, error) {
	if source == nil || handler == nil {
		return nil, fmt.Errorf("%w: a consumer needs a source and a handler", ErrConfig)
	}
	switch {
	case cfg.BatchSize != 0:
	case cfg.Order == Strict:
		cfg.BatchSize = 1
	case cfg.MaxInFlight > 0:
		cfg.BatchSize = min(defaultBatchSize, cfg.MaxInFlight)
	default:
		cfg.BatchSize = defaultBatchSize
	}
	return newConsumer(source, nil, handler, cfg)
}

// batch is what one worker handles at once.
type batch struct {
	turns      []turn
	deliveries []*Delivery
}

// batchLoop handles batches until there will be no message.
func (r *run) batchLoop() {
	for {
		b := &batch{}
		if b.turns = r.desk.beginBatch(r.cfg.BatchSize, r.cfg.BatchWait); len(b.turns) == 0 {
			return
		}
		r.handleBatch(b)
	}
}

// handleBatch gives a batch to the handler. A panic ends here; a Goexit takes this goroutine with it, so another begins.
func (r *run) handleBatch(b *batch) {
	start := time.Now()
	verdicts, returned := []error(nil), false
	var failed error
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				failed = &PanicError{Value: v, Stack: debug.Stack()}
			} else {
				failed = errGoexit
				r.workers.Go(r.batchLoop)
			}
		}
		took := time.Since(start)
		verdict := func(i int) error {
			if failed == nil && verdicts != nil {
				return verdicts[i]
			}
			return failed
		}
		for _, w := range b.turns {
			w.m.ctx.end(context.Canceled)
		}
		for i, o := range r.desk.finishBatch(b.turns, verdict) {
			r.handled(b.turns[i].m, o, verdict(i), took)
		}
	}()
	first := b.turns[0].m
	for _, w := range b.turns {
		w.m.notes = r.notes
		b.deliveries = append(b.deliveries, &w.m.Delivery)
	}
	verdicts = r.batch(&first.ctx, b.deliveries)
	returned = true
	if verdicts != nil && len(verdicts) != len(b.turns) {
		failed = fmt.Errorf("consumer: the batch handler returned %d verdicts for %d messages: want one for each, or nil", len(verdicts), len(b.turns))
	}
}

// beginBatch waits for a message, and then, for so long at most, for as many as a batch may have; none when there will be
// none. Those that were lost meanwhile are left out.
func (d *desk) beginBatch(size int, wait time.Duration) (batch []turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if batch = d.gather(batch, size); len(batch) > 0 && wait > 0 {
			if batch = d.fill(batch, size, wait); len(batch) == 0 {
				continue // all was lost, and nobody else is sure to begin what waited for it
			}
		}
		if len(batch) > 0 || d.t.closed {
			for i := 1; i < len(batch); i++ {
				batch[i].m.ctx.share(&batch[0].m.ctx)
			}
			return batch
		}
		d.work.Wait()
	}
}

// gather adds what is at hand.
func (d *desk) gather(batch []turn, size int) []turn {
	for len(batch) < size {
		w, ok := d.t.begin()
		if !ok {
			break
		}
		batch = append(batch, w)
	}
	return batch
}

// fill waits for more, and leaves out what was lost meanwhile.
func (d *desk) fill(batch []turn, size int, wait time.Duration) []turn {
	over := false
	timer := time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		over = true
		d.work.Broadcast()
	})
	defer timer.Stop()
	for len(batch) < size && !over && !d.t.closed {
		d.work.Wait()
		batch = d.gather(batch, size)
	}
	batch = slices.DeleteFunc(batch, func(w turn) bool {
		if w.f.dropped {
			d.t.finish(w, nil)
		}
		return w.f.dropped
	})
	d.wakeLanes(0) // of what was lost
	return batch
}

// finishBatch takes messages back, each with its error, and tells how each counts.
func (d *desk) finishBatch(batch []turn, errs func(i int) error) []outcome {
	outcomes, through := make([]outcome, len(batch)), false
	d.mu.Lock()
	for i, w := range batch {
		o, ended := d.t.finish(w, errs(i))
		outcomes[i], through = o, through || ended
	}
	d.wakeLanes(1)
	d.mu.Unlock()
	if through {
		signal(d.through)
	}
	return outcomes
}
