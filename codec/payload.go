package codec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// Codec turns values of T into the payload of a message and back. Encode sets
// Data and Format, and a header where it says so; Decode changes nothing. Both
// are safe for concurrent use on different messages.
type Codec[T any] interface {
	Encode(m *Message, v T) error
	Decode(m *Message) (T, error)
}

type msgpackCodec[T any] struct{}

// MsgpackOf returns the codec of msgpack values in line (format Msgpack).
func MsgpackOf[T any]() Codec[T] { return msgpackCodec[T]{} }

func (msgpackCodec[T]) Encode(m *Message, v T) error {
	var buf bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("codec: encode %T as msgpack: %w", v, err)
	}
	m.Data, m.Format = buf.Bytes(), Msgpack
	return nil
}

func (msgpackCodec[T]) Decode(m *Message) (v T, err error) {
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(m.Data))
	if err := dec.Decode(&v); err != nil {
		return v, fmt.Errorf("codec: decode msgpack: %w", err)
	}
	return v, nil
}

type jsonCodec[T any] struct{}

// JSON returns the codec of JSON texts (format Bytes, header content-type).
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

func (jsonCodec[T]) Encode(m *Message, v T) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("codec: encode %T as json: %w", v, err)
	}
	m.Data, m.Format = data, Bytes
	m.Headers.Set(HeaderContentType, "application/json")
	return nil
}

func (jsonCodec[T]) Decode(m *Message) (v T, err error) {
	if err := json.Unmarshal(m.Data, &v); err != nil {
		return v, fmt.Errorf("codec: decode %T from json: %w", v, err)
	}
	return v, nil
}

type rawCodec struct{}

// Raw returns the codec of payloads that are bytes already. Nothing is copied.
func Raw() Codec[[]byte] { return rawCodec{} }

func (rawCodec) Encode(m *Message, v []byte) error {
	m.Data, m.Format = v, Bytes
	return nil
}

func (rawCodec) Decode(m *Message) ([]byte, error) { return m.Data, nil }
