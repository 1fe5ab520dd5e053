package consumer

import (
	"context"
	"fmt"
	"runtime/debug"
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
		b.deliveries = append(b.deliveries, &w.m.Delivery)
	}
	verdicts = r.batch(&first.ctx, b.deliveries)
	returned = true
	if verdicts != nil && len(verdicts) != len(b.turns) {
		failed = fmt.Errorf("consumer: the batch handler returned %d verdicts for %d messages: want one for each, or nil", len(verdicts), len(b.turns))
	}
}
