package consumer

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// workLoop handles messages until there will be none. Where one follows upon another, both share a turn at the desk and a
// reading of the clock, which cost as much as a small handler does.
func (r *run) workLoop() {
	w, ok := r.desk.begin()
	start := r.clock()
	for ok {
		err := r.handle(w, start)
		end := r.clock()
		o, next, follows := r.desk.exchange(w, err, true)
		r.handled(w.m, o, err, end-start)
		if w, ok, start = next, follows, end; !ok {
			w, ok = r.desk.begin()
			start = r.clock()
		}
	}
}

// clock is what has passed since the run began: half the price of the time of day.
func (r *run) clock() time.Duration { return time.Since(r.began) }

// handle gives one message to the handler. A panic ends here; a Goexit takes this goroutine with it, so another begins.
func (r *run) handle(w turn, start time.Duration) (err error) {
	returned := false
	defer func() {
		w.m.ctx.end(context.Canceled)
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
			return
		}
		r.handled(w.m, r.desk.finish(w, errGoexit), errGoexit, r.clock()-start)
		r.workers.Go(r.workLoop)
	}()
	err = r.perform(w.m)
	returned = true
	return err
}

// handled tells how a message's handler ended.
func (r *run) handled(m *message, o outcome, err error, took time.Duration) {
	r.metrics.handled(o, took)
	if o != outcomeOK {
		r.unsuccessful(m, o, err)
	}
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
		r.log.Error("handler panicked, the message comes again", attrs...)
	case outcomeError:
		r.log.Warn("handler failed, the message comes again", attrs...)
	case outcomeSnoozed:
	case outcomeInterrupted:
		r.log.Warn("handler interrupted by the stop, the message is handed back", attrs...)
	case outcomeLost:
		r.log.Warn("handler ended after its lease was lost, the message is another's", attrs...)
	}
}
