package codec

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// buffers are what small values are encoded into, before they are as large as they are.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// mostKept is the size of a buffer that is used again.
const mostKept = 16 << 10

type msgpackCodec[T any] struct{}

// Msgpack returns the default codec: one msgpack value in line
// ([FormatMsgpack]), structs as maps by field name or `msgpack` tag, integers in their
// shortest form.
//
// Typed values come back as they went in; times keep their instant, not their
// zone; a nil pointer, map or slice is nil. Inside an `any` the wire does not say
// which Go type it was: integers are int64 when they are negative or below 128,
// and may be uint64 otherwise; floats are float64, whole ones too; strings and
// bytes are both string; maps are map[string]any, and another kind of key is an
// error; times are time.Time.
//
// Decode checks the data before the library sees it: one well-formed value, at
// most [MaxDepth] deep, no length beyond its end. A payload of FormatBytes is
// taken as the bin that it is on the wire, so that it decodes into []byte or any
// and into nothing else.
func Msgpack[T any]() Codec[T] { return msgpackCodec[T]{} }

func (msgpackCodec[T]) Encode(m *Message, v T) (err error) {
	defer caught("encode msgpack", &err)
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	enc := msgpack.GetEncoder()
	enc.Reset(buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(&v); err != nil { // by address: methods with a pointer receiver count
		return fmt.Errorf("codec: encode msgpack: %w", err)
	}
	msgpack.PutEncoder(enc) // one that failed or panicked is not used again
	m.Data, m.Format = buf.Bytes(), FormatMsgpack
	if buf.Cap() <= mostKept {
		m.Data = bytes.Clone(m.Data)
		buffers.Put(buf)
	}
	return nil
}

func (msgpackCodec[T]) Decode(m *Message) (v T, err error) {
	defer caught("decode msgpack", &err)
	data := m.Data
	if m.Format == FormatBytes {
		data = append(appendBinHead(nil, len(m.Data)), m.Data...)
	} else if err := checkValue(data); err != nil {
		return v, fmt.Errorf("codec: decode msgpack: %w", err)
	}
	dec := msgpack.GetDecoder()
	dec.Reset(bytes.NewReader(data))
	dec.UseLooseInterfaceDecoding(true)
	if err := dec.Decode(&v); err != nil {
		return v, fmt.Errorf("codec: decode msgpack: %w", err)
	}
	msgpack.PutDecoder(dec)
	return v, nil
}
