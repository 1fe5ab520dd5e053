package consumer

import (
	"context"
	"sync/atomic"
)

// handling is the context of one running handler. Most handlers never ask whether it has ended, so the part that can end
// is made when somebody does; until then a handling costs nothing beyond its own few bytes.
type handling struct {
	context.Context // the values of Run's context; never ends

	ending atomic.Pointer[ending]   // nil: it has not ended, and nobody has asked
	shared atomic.Pointer[handling] // of the batch, which ends with this one; nil: none
}

// ending is the part that can end.
type ending struct {
	context.Context
	stop context.CancelCauseFunc
}

// over stands for the part of a handling that ended before anybody asked, as it does when its handler returns.
var over ending

// end ends the context. A later end has no effect.
func (h *handling) end(cause error) {
	switch {
	case cause == context.Canceled && h.ending.CompareAndSwap(nil, &over):
	case h.ending.Load() == &over:
		return
	default:
		h.live().stop(cause)
	}
	if with := h.shared.Load(); with != nil {
		with.end(cause)
	}
}

// share ends another together with this one.
func (h *handling) share(with *handling) {
	h.shared.Store(with)
	if h.Err() != nil { // else whoever ends it from now on sees the other
		with.end(context.Cause(h.live()))
	}
}

// live returns the part that can end.
func (h *handling) live() *ending {
	for {
		is := h.ending.Load()
		if is != nil && is != &over {
			return is
		}
		made := new(ending)
		made.Context, made.stop = context.WithCancelCause(h.Context)
		if is == &over {
			made.stop(context.Canceled)
		}
		if h.ending.CompareAndSwap(is, made) {
			return made
		}
		made.stop(nil) // another was faster
	}
}

// cause is why the context has ended, if anybody could have seen it.
func (h *handling) cause() error {
	if is := h.ending.Load(); is != nil && is != &over {
		return context.Cause(is.Context)
	}
	return nil
}

func (h *handling) Done() <-chan struct{} { return h.live().Done() }

func (h *handling) Err() error {
	if h.ending.Load() == nil {
		return nil
	}
	return h.live().Err()
}

// Value finds the live part too: context.Cause, and contexts made from this one, look for it that way.
func (h *handling) Value(key any) any {
	if h.ending.Load() == nil {
		return h.Context.Value(key)
	}
	return h.live().Value(key)
}
