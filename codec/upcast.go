package codec

import (
	"errors"
	"fmt"
	"slices"
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

// Records applies the rules to what was decoded from an entry with these raw
// fields, nil where they are not at hand. A record that a rule fails on becomes
// an undecodable one: Err and Fields are set, the message is empty. Foreign and
// undecodable ones stay as they are.
func (u Upcasts) Records(records []Record, fields []string) {
	if len(u) == 0 {
		return
	}
	for i := range records {
		u.Record(&records[i], fields)
	}
}

// Record is Records of one.
func (u Upcasts) Record(r *Record, fields []string) {
	if len(u) == 0 || r.Foreign() || r.Err != nil {
		return
	}
	if r.Err = u.Apply(&r.Message); r.Err != nil {
		r.Message, r.Fields = Message{}, slices.Clone(fields)
	}
}

// Apply applies rules until none matches m.Type, each at most once. The error is
// an *UpcastError with what a rule returned or panicked with, or ErrUpcastCycle;
// m is then not to be used.
func (u Upcasts) Apply(m *Message) error {
	for range u {
		rule, ok := u[m.Type]
		if !ok {
			return nil
		}
		from := m.Type
		if err := guarded(rule, m); err != nil {
			return &UpcastError{from, err}
		}
	}
	if _, again := u[m.Type]; again {
		return &UpcastError{m.Type, ErrUpcastCycle}
	}
	return nil
}

// guarded runs a rule. One message that a rule panics on must not end the reader
// of all others.
func guarded(rule func(*Message) error, m *Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return rule(m)
}
