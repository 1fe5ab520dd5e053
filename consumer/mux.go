package consumer

import (
	"context"
	"fmt"

	"github.com/echomq/pipeline/codec"
)

// Mux gives messages to handlers by their types. Its method Serve is a Handler. The zero value knows no type. It is set up
// before it serves.
type Mux struct{ handlers map[string]Handler }

// UnknownTypeError says that nobody here handles messages of a type. The message comes again, as after any failure: another
// consumer, or a newer version of this one, may know it.
type UnknownTypeError struct{ Type string }

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("consumer: no handler for messages of type %q", e.Type)
}

// Handle lets a handler have the messages of a type. It panics if the type has one.
func (m *Mux) Handle(messageType string, h Handler) {
	if m.handlers[messageType] != nil || h == nil {
		panic(fmt.Sprintf("consumer: type %q: want one handler", messageType))
	}
	if m.handlers == nil {
		m.handlers = map[string]Handler{}
	}
	m.handlers[messageType] = h
}

// Serve gives a message to the handler of its type.
func (m *Mux) Serve(ctx context.Context, d *Delivery) error {
	h := m.handlers[d.Type]
	if h == nil {
		return &UnknownTypeError{Type: d.Type}
	}
	return h(ctx, d)
}

// Handle lets a handler have the messages of a type, with their payloads decoded. One that does not decode is given up at
// once: it is dead with its bytes as they are.
func Handle[T any](m *Mux, messageType string, c codec.Codec[T], h func(ctx context.Context, d *Delivery, v T) error) {
	m.Handle(messageType, func(ctx context.Context, d *Delivery) error {
		v, err := c.Decode(&d.Message)
		if err != nil {
			return Permanent(fmt.Errorf("consumer: payload of type %q: %w", messageType, err))
		}
		return h(ctx, d, v)
	})
}
