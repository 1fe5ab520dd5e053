package codec_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

// overTheWire encodes v, sends the message through its bytes, and decodes it.
func overTheWire[T any](t require.TestingT, c codec.Codec[T], v T) (T, error) {
	var m codec.Message
	require.NoError(t, c.Encode(&m, v))
	got := decode(t, encode(t, m))
	return c.Decode(&got)
}

func exact[T any](t *testing.T, name string, v T) {
	t.Run(name, func(t *testing.T) {
		got, err := overTheWire(t, codec.Msgpack[T](), v)
		require.NoError(t, err)
		require.Equal(t, v, got)
	})
}

type inner struct{ N int64 }

type order struct {
	ID    codec.ID
	Total float64
	Tags  []string
	Raw   []byte
	By    *inner
	None  *inner
	At    time.Time
	Wait  time.Duration
	Sub   inner
	Codes map[int]string
}

// B81: typed values come back as they went in.
func TestMsgpackTyped(t *testing.T) {
	exact(t, "int64 -1", int64(-1))
	exact(t, "int64 lowest", int64(math.MinInt64))
	exact(t, "int64 highest", int64(math.MaxInt64))
	exact(t, "uint64 1<<63", uint64(1)<<63)
	exact(t, "uint64 highest", uint64(math.MaxUint64))
	exact(t, "int8", int8(-128))
	exact(t, "int 200", 200)
	exact(t, "whole float64", 3.0)
	exact(t, "whole float32", float32(-7))
	exact(t, "large float", 1e300)
	exact(t, "infinity", math.Inf(-1))
	exact(t, "bool", true)
	exact(t, "string not utf-8", "\xff\x00")
	exact(t, "map of int", map[int]string{-1: "a", 1 << 30: "b"})
	exact(t, "map of string", map[string]string{"": "", "k": "v"})
	exact(t, "slice", []int64{-1, 0, 128, 1 << 40})
	exact(t, "nil slice", []int64(nil))
	exact(t, "nil map", map[string]int(nil))
	exact(t, "nil pointer", (*inner)(nil))
	exact(t, "pointer", &inner{7})
	exact(t, "bytes", []byte(allBytes()))
	exact(t, "empty bytes", []byte{})
	exact(t, "array", [3]uint16{1, 2, 65535})
	exact(t, "pointer receiver", custom{text: "by pointer"})
	exact(t, "struct", order{
		ID: codec.ID([]byte("EVT000xY9Wvvcd")), Total: 12, Tags: []string{"a", ""}, Raw: []byte{0, 255}, By: &inner{-1},
		At: time.UnixMilli(1780000000123), Wait: time.Minute, Sub: inner{1 << 62}, Codes: map[int]string{404: "none"},
	})
}

// custom has its msgpack methods on the pointer.
type custom struct{ text string }

func (c *custom) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeString(c.text) }

func (c *custom) DecodeMsgpack(d *msgpack.Decoder) (err error) {
	c.text, err = d.DecodeString()
	return err
}

// B81, B82: what an any becomes, where the wire does not say.
func TestMsgpackInsideAny(t *testing.T) {
	now := time.Unix(1780000000, 123456789)
	tests := []struct {
		name     string
		in, want any
	}{
		{"nil", nil, nil},
		{"nil pointer", (*inner)(nil), nil},
		{"int64 -1", int64(-1), int64(-1)},
		{"int64 -1000", int64(-1000), int64(-1000)},
		{"int 5", 5, int64(5)},
		{"int 200", 200, uint64(200)},
		{"uint64 1<<63", uint64(1) << 63, uint64(1) << 63},
		{"whole float64", 3.0, 3.0},
		{"float32", float32(0.5), 0.5},
		{"bool", true, true},
		{"string", "s", "s"},
		{"bytes", []byte("\x00\xff"), "\x00\xff"},
		{"slice", []any{int64(-1), "a"}, []any{int64(-1), "a"}},
		{"map of string", map[string]any{"a": nil}, map[string]any{"a": nil}},
		{"struct", inner{-1}, map[string]any{"N": int64(-1)}},
		{"pointer", &inner{-1}, map[string]any{"N": int64(-1)}},
		{"id", codec.ID([]byte("EVT000xY9Wvvcd")), "EVT000xY9Wvvcd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := overTheWire(t, codec.Msgpack[any](), tt.in)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			got, err = overTheWire(t, codec.Msgpack[any](), any([]any{tt.in}))
			require.NoError(t, err)
			require.Equal(t, []any{tt.want}, got)
		})
	}
	got, err := overTheWire(t, codec.Msgpack[map[string]any](), map[string]any{"at": now})
	require.NoError(t, err)
	at, ok := got["at"].(time.Time)
	require.True(t, ok)
	require.True(t, now.Equal(at))

	_, err = overTheWire(t, codec.Msgpack[any](), any(map[int]string{1: "a"}))
	require.Error(t, err, "an any holds maps of string only")
}

// B82: an error or an exact value, never a panic.
func TestMsgpackNeverPanics(t *testing.T) {
	type withAny struct{ V any }
	type withStringer struct{ V fmt.Stringer }
	type withError struct{ V error }
	var m codec.Message
	require.Error(t, codec.Msgpack[chan int]().Encode(&m, make(chan int)))
	require.Error(t, codec.Msgpack[withAny]().Encode(&m, withAny{func() {}}))
	require.Error(t, codec.Msgpack[any]().Encode(&m, panics{}))
	require.Error(t, codec.JSON[any]().Encode(&m, panics{}))
	require.Zero(t, m, "a failed Encode leaves the message")

	got, err := overTheWire(t, codec.Msgpack[withAny](), withAny{(*inner)(nil)})
	require.NoError(t, err)
	require.Nil(t, got.V)
	_, err = overTheWire(t, codec.Msgpack[withError](), withError{nil})
	require.NoError(t, err)

	text := codec.Message{Format: codec.FormatMsgpack, Data: []byte("\x81\xa1V\xa1x")} // {"V": "x"}
	_, err = codec.Msgpack[withStringer]().Decode(&text)
	require.Error(t, err, "a str is no fmt.Stringer")
	_, err = codec.Msgpack[panics]().Decode(&text)
	require.Error(t, err)
	_, err = codec.Msgpack[chan int]().Decode(&text)
	require.Error(t, err)
	_, err = codec.JSON[panics]().Decode(&codec.Message{Data: []byte(`"x"`)})
	require.Error(t, err)

	n, err := overTheWire(t, codec.Msgpack[int](), 5)
	require.NoError(t, err, "what failed before does not stay in a pool")
	require.Equal(t, 5, n)
}

// panics throws in every method.
type panics struct{}

func (panics) EncodeMsgpack(*msgpack.Encoder) error  { panic("encode") }
func (*panics) DecodeMsgpack(*msgpack.Decoder) error { panic("decode") }
func (panics) MarshalJSON() ([]byte, error)          { panic("marshal") }
func (*panics) UnmarshalJSON([]byte) error           { panic("unmarshal") }

// B86: Decode checks what was never on the wire, too.
func TestMsgpackDecodeBombs(t *testing.T) {
	for name, data := range map[string]string{
		"array32":     "\xdd\xff\xff\xff\xff",
		"map32":       "\xdf\xff\xff\xff\xff",
		"str32":       "\xdb\xff\xff\xff\xff",
		"nested":      strings.Repeat("\x91", 10_000) + "\xc0",
		"bytes after": "\x01\x02",
		"nothing":     "",
	} {
		t.Run(name, func(t *testing.T) {
			m := codec.Message{Format: codec.FormatMsgpack, Data: []byte(data)}
			_, err := codec.Msgpack[any]().Decode(&m)
			require.ErrorIs(t, err, codec.ErrDecode)
			_, err = codec.Msgpack[[]map[string][]string]().Decode(&m)
			require.ErrorIs(t, err, codec.ErrDecode)
		})
	}
}

func TestMsgpackOfBytes(t *testing.T) {
	m := codec.Message{Data: []byte("\x01opaque")}
	b, err := codec.Msgpack[[]byte]().Decode(&m)
	require.NoError(t, err)
	require.Equal(t, "\x01opaque", string(b))
	_, err = codec.Msgpack[int]().Decode(&m)
	require.Error(t, err, "opaque bytes that begin like a number are no number")
}

func TestMsgpackEncodeKeepsOthersData(t *testing.T) {
	src := encode(t, codec.Message{Data: []byte("0123456789")})
	m := decode(t, src)
	want := bytes.Clone(src)
	require.NoError(t, codec.Msgpack[string]().Encode(&m, "x"))
	require.Equal(t, want, src, "Encode does not write into what Data aliased")
}

func TestMsgpackIsShort(t *testing.T) {
	var m codec.Message
	require.NoError(t, codec.Msgpack[[]int64]().Encode(&m, []int64{5, -1, 200, 1 << 40}))
	require.Equal(t, []byte{0x94, 5, 0xff, 0xcc, 200, 0xcf, 0, 0, 1, 0, 0, 0, 0, 0}, m.Data)
}

func TestJSON(t *testing.T) {
	c := codec.JSON[inner]()
	m := codec.Message{Format: codec.FormatMsgpack}
	require.NoError(t, c.Encode(&m, inner{-1}))
	require.Equal(t, codec.Message{
		Headers: codec.Headers{{codec.HeaderContentType, "application/json"}}, Data: []byte(`{"N":-1}`),
	}, m)
	got, err := c.Decode(&m)
	require.NoError(t, err)
	require.Equal(t, inner{-1}, got)

	m.Data = []byte(`{"N":`)
	_, err = c.Decode(&m)
	require.Error(t, err)
	require.Error(t, codec.JSON[any]().Encode(&m, make(chan int)))
	require.Equal(t, `{"N":`, string(m.Data))
}

func TestRaw(t *testing.T) {
	got, err := overTheWire(t, codec.Raw(), []byte(allBytes()))
	require.NoError(t, err)
	require.Equal(t, allBytes(), string(got))
	got, err = codec.Raw().Decode(&codec.Message{Format: codec.FormatMsgpack, Data: []byte{0xc0}})
	require.NoError(t, err)
	require.Equal(t, []byte{0xc0}, got)
}
