package codec

import (
	"errors"
	"fmt"
)

// ErrDecode is what every *DecodeError is: errors.Is(err, ErrDecode).
var ErrDecode = errors.New("codec: undecodable")

// DecodeError says why bytes could not be read, and where. Offset counts from
// the start of the value that was given to the decoder.
type DecodeError struct {
	Offset int
	What   string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("codec: undecodable at byte %d: %s", e.Offset, e.What)
}

// Is reports whether target is [ErrDecode].
func (e *DecodeError) Is(target error) bool { return target == ErrDecode }

// LimitError says that a part of a message is over its cap, and by how much.
type LimitError struct {
	What       string // "type", "key", "headers", "header key", "header value", "data", "pack"
	Limit, Got int    // bytes, or a count for "headers" and "pack"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("codec: %s is over its cap: %d, at most %d", e.What, e.Got, e.Limit)
}
