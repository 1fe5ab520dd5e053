package middleware

import (
	"errors"
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// Middleware puts something around a handler. It must return the handler's error, wrapped or as it is, or nil for nil, unless
// it says otherwise: the verdict is in it.
type Middleware = func(consumer.Handler) consumer.Handler

// Chain puts middleware around h: the first is the outermost, which sees a message first and its error last.
func Chain(h consumer.Handler, m ...Middleware) consumer.Handler {
	for _, wrap := range slices.Backward(m) {
		h = wrap(h)
	}
	return h
}

// ErrConfig is matched by every refusal of a configuration.
var ErrConfig = errors.New("middleware: bad config")

// WithoutEffect is err, of a handler that has done nothing for its message yet: [Once] then does not count the attempt as
// one that may have had its effect. The verdict stays. WithoutEffect of nil is nil.
func WithoutEffect(err error) error {
	if err == nil {
		return nil
	}
	return &effectless{err}
}

type effectless struct{ err error }

func (e *effectless) Error() string { return e.err.Error() }
func (e *effectless) Unwrap() error { return e.err }

func isEffectless(err error) bool {
	_, ok := errors.AsType[*effectless](err)
	return ok
}

// errDidNotReturn stands for the error of a handler that panicked or ended its goroutine.
var errDidNotReturn = errors.New("middleware: the handler did not return")

// MessageID is what tells a message from all others of its stream: its id, or of a foreign one the address of its entry.
func MessageID(d *consumer.Delivery) string {
	if d.ID == (codec.ID{}) {
		return d.Position.String()
	}
	return d.ID.String()
}
