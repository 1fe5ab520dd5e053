package consumer

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// work handles messages until there will be none.
func (r *run) workLoop() {
	for {
		f, m, ok := r.desk.begin()
		if !ok {
			return
		}
		r.handle(f, m)
	}
}

// handle gives one message to the handler. A panic ends here; a Goexit takes this goroutine with it, so another begins.
func (r *run) handle(f *flight, m *message) {
	start := time.Now()
	var err error
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			} else {
				err = errGoexit
				r.workers.Go(r.workLoop)
			}
		}
		m.ctx.end(context.Canceled)
		took := time.Since(start)
		o := r.desk.finish(f, m, err)
		r.metrics.handled(o, took)
		if o != outcomeOK {
			r.unsuccessful(m, o, err)
		}
	}()
	err = r.handler(&m.ctx, &m.Delivery)
	returned = true
}

// outcomeOf tells how a failed handler ended.
func outcomeOf(err error) outcome {
	if err == nil {
		return outcomeOK
	}
	if errors.Is(err, errSnoozed) {
		return outcomeSnoozed
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return outcomePanic
	}
	return outcomeError
}

func (r *run) unsuccessful(m *message, o outcome, err error) {
	attrs := []any{slog.String("entry", m.Position.String()), slog.Int("attempt", m.Attempt), slog.Any("err", err)}
	switch o {
	case outcomePanic:
		r.log.error("handler panicked, the message comes again", attrs...)
	case outcomeError:
		r.log.warn("handler failed, the message comes again", attrs...)
	case outcomeSnoozed:
	case outcomeInterrupted:
		r.log.warn("handler interrupted by the stop, the message is handed back", attrs...)
	case outcomeLost:
		r.log.warn("handler ended after its lease was lost, the message is another's", attrs...)
	}
}
