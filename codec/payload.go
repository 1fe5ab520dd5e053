package codec

import (
	"encoding/json"
	"fmt"
)

// Codec turns values of T into the payload of a message and back. Encode sets
// Data and Format, and a header where it says so; on error the message is as it
// was. Decode changes nothing. A Codec is safe for concurrent use on different
// messages. Neither method panics: what a value or its methods throw comes back
// as an error, because one bad payload must not end a consumer.
type Codec[T any] interface {
	Encode(m *Message, v T) error
	Decode(m *Message) (T, error)
}

// caught turns a panic into *err.
func caught(what string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("codec: %s: panic: %v", what, r)
	}
}

type jsonCodec[T any] struct{}

// JSON returns the codec of JSON texts: FormatBytes, with the header
// content-type set to application/json.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

func (jsonCodec[T]) Encode(m *Message, v T) (err error) {
	defer caught("encode json", &err)
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("codec: encode json: %w", err)
	}
	m.Data, m.Format = data, FormatBytes
	m.Headers.Set(HeaderContentType, "application/json")
	return nil
}

func (jsonCodec[T]) Decode(m *Message) (v T, err error) {
	defer caught("decode json", &err)
	if err := json.Unmarshal(m.Data, &v); err != nil {
		return v, fmt.Errorf("codec: decode json: %w", err)
	}
	return v, nil
}

type rawCodec struct{}

// Raw returns the codec of payloads that are bytes already: Encode sets format
// FormatBytes, Decode returns Data as it stands, of either format. Nothing is copied:
// what Decode returns aliases what the message was read from.
func Raw() Codec[[]byte] { return rawCodec{} }

func (rawCodec) Encode(m *Message, v []byte) error {
	m.Data, m.Format = v, FormatBytes
	return nil
}

func (rawCodec) Decode(m *Message) ([]byte, error) { return m.Data, nil }
