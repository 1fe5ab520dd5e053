package consumer

import (
	"context"
	"sync"
)

// handling is the context of one running handler. Most handlers never ask whether it has ended, so the part that can end
// is made when somebody does; until then a handling costs nothing beyond its own bytes.
type handling struct {
	context.Context // the values of Run's context; never ends

	mu    sync.Mutex
	inner context.Context // nil until it is asked for
	stop  context.CancelCauseFunc
	cause error // why it has ended; nil while it has not

	shared *handling // of the batch, which ends with this one; nil: none
}

// end ends the context. A later end has no effect.
func (h *handling) end(cause error) {
	if shared := h.endAlone(cause); shared != nil {
		shared.end(cause)
	}
}

func (h *handling) endAlone(cause error) (shared *handling) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		return nil
	}
	h.cause = cause
	if h.stop != nil {
		h.stop(cause)
	}
	return h.shared
}

// share ends another together with this one.
func (h *handling) share(with *handling) {
	h.mu.Lock()
	h.shared = with
	cause := h.cause
	h.mu.Unlock()
	if cause != nil {
		with.end(cause)
	}
}

// live returns the part that can end. The caller holds mu.
func (h *handling) live() context.Context {
	if h.inner == nil {
		h.inner, h.stop = context.WithCancelCause(h.Context)
		if h.cause != nil {
			h.stop(h.cause)
		}
	}
	return h.inner
}

func (h *handling) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live().Done()
}

func (h *handling) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner == nil && h.cause == nil {
		return nil
	}
	return h.live().Err()
}

// Value finds the live part too: context.Cause, and contexts made from this one, look for it that way.
func (h *handling) Value(key any) any {
	h.mu.Lock()
	from := h.Context
	if h.inner != nil || h.cause != nil {
		from = h.live()
	}
	h.mu.Unlock()
	return from.Value(key)
}
