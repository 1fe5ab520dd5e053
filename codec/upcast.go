package codec

import (
	"errors"
	"fmt"
)

// Upcasts turns old versions of a type into newer ones before a handler sees
// them: from a type's name to the function that makes the message one of a newer
// type. The function must change Type; it assigns Data and Headers anew rather
// than writing into them, because they alias what was read.
//
// Build it once and share it: Apply only reads it. Nil has no rules.
type Upcasts map[string]func(*Message) error

// ErrUpcastCycle is wrapped when the rules lead in a circle, or one leaves the
// type as it was.
var ErrUpcastCycle = errors.New("upcasts do not end")

// UpcastError says at which type upcasting a message failed.
type UpcastError struct {
	Type string
	Err  error
}

func (e *UpcastError) Error() string {
	return fmt.Sprintf("codec: upcast %q: %v", clip(e.Type), e.Err)
}

func (e *UpcastError) Unwrap() error { return e.Err }

// Apply applies rules until none matches m.Type, each at most once. The error is
// an *UpcastError with what a rule returned, or ErrUpcastCycle; m is then not to
// be used.
func (u Upcasts) Apply(m *Message) error {
	for range u {
		rule, ok := u[m.Type]
		if !ok {
			return nil
		}
		from := m.Type
		if err := rule(m); err != nil {
			return &UpcastError{from, err}
		}
	}
	if _, again := u[m.Type]; again {
		return &UpcastError{m.Type, ErrUpcastCycle}
	}
	return nil
}
