package codec_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

func encode(t require.TestingT, m codec.Message) []byte {
	b, err := codec.AppendMessage(nil, &m)
	require.NoError(t, err)
	return b
}

func decode(t require.TestingT, b []byte) codec.Message {
	var m codec.Message
	rest, err := codec.DecodeMessage(b, &m)
	require.NoError(t, err)
	require.Empty(t, rest)
	return m
}

// requireSame compares messages by what they say: nil and empty are the same.
func requireSame(t require.TestingT, want, got codec.Message) {
	require.Equal(t, want.Type, got.Type)
	require.Equal(t, want.Key, got.Key)
	require.Equal(t, append(codec.Headers{}, want.Headers...), append(codec.Headers{}, got.Headers...))
	require.Equal(t, append([]byte{}, want.Data...), append([]byte{}, got.Data...))
	require.Equal(t, want.Format, got.Format)
}

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// B78, B80: empty parts, and every byte value, come out as they went in.
func TestMessageExact(t *testing.T) {
	all := allBytes()
	tests := []struct {
		name string
		m    codec.Message
	}{
		{"zero", codec.Message{}},
		{"nil data", codec.Message{Type: "t", Data: nil}},
		{"empty data", codec.Message{Type: "t", Data: []byte{}}},
		{"empty headers", codec.Message{Headers: codec.Headers{}}},
		{"empty header key and value", codec.Message{Headers: codec.Headers{{"", ""}}}},
		{"empty msgpack str", codec.Message{Data: []byte{0xa0}, Format: codec.FormatMsgpack}},
		{"msgpack nil", codec.Message{Data: []byte{0xc0}, Format: codec.FormatMsgpack}},
		{"all bytes", codec.Message{
			Type: all[1:], Key: all, Data: []byte(all),
			Headers: codec.Headers{{all[1:], all}, {"\xff\xfe", "\x00"}, {"\x00", "\xc3\x28"}},
		}},
		{"looks like utf-8, is not", codec.Message{Type: "\xed\xa0\x80", Key: "\xf5", Data: []byte("\xc0\x80")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { requireSame(t, tt.m, decode(t, encode(t, tt.m))) })
	}
}

func TestBinInLineIsBytes(t *testing.T) {
	m := codec.Message{Format: codec.FormatMsgpack, Data: []byte{0xc4, 3, 'a', 'b', 'c'}}
	got := decode(t, encode(t, m))
	require.Equal(t, codec.FormatBytes, got.Format)
	require.Equal(t, "abc", string(got.Data))
}

func TestMessageCaps(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	headers := func(n int) (h codec.Headers) {
		for i := range n {
			h = append(h, codec.Header{Key: string(rune('A' + i)), Value: ""})
		}
		return h
	}
	tests := []struct {
		name  string
		limit int
		make  func(n int) codec.Message
	}{
		{"type", codec.MaxType, func(n int) codec.Message { return codec.Message{Type: long(n)} }},
		{"key", codec.MaxKey, func(n int) codec.Message { return codec.Message{Key: long(n)} }},
		{"headers", codec.MaxHeaders, func(n int) codec.Message { return codec.Message{Headers: headers(n)} }},
		{"header key", codec.MaxHeaderKey, func(n int) codec.Message { return codec.Message{Headers: codec.Headers{{long(n), ""}}} }},
		{"header value", codec.MaxHeaderValue, func(n int) codec.Message { return codec.Message{Headers: codec.Headers{{"", long(n)}}} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := tt.make(tt.limit)
			requireSame(t, at, decode(t, encode(t, at)))
			over := tt.make(tt.limit + 1)
			dst, err := codec.AppendMessage([]byte("kept"), &over)
			require.Equal(t, "kept", string(dst))
			var le *codec.LimitError
			require.ErrorAs(t, err, &le)
			require.Equal(t, codec.LimitError{What: tt.name, Limit: tt.limit, Got: tt.limit + 1}, *le)
		})
	}
}

func TestAppendMessageRefuses(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x91}, codec.MaxDepth+1), 0xc0)
	tests := []struct {
		name string
		m    codec.Message
		want error
	}{
		{"header twice", codec.Message{Headers: codec.Headers{{"a", "1"}, {"b", "2"}, {"a", "1"}}}, codec.ErrHeaderRepeated},
		{"msgpack nothing", codec.Message{Format: codec.FormatMsgpack}, codec.ErrDecode},
		{"msgpack cut", codec.Message{Format: codec.FormatMsgpack, Data: []byte{0x92, 1}}, codec.ErrDecode},
		{"msgpack two values", codec.Message{Format: codec.FormatMsgpack, Data: []byte{1, 2}}, codec.ErrDecode},
		{"msgpack too deep", codec.Message{Format: codec.FormatMsgpack, Data: deep}, codec.ErrDecode},
		{"format", codec.Message{Format: 2}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dst, err := codec.AppendMessage([]byte("kept"), &tt.m)
			require.Error(t, err)
			require.Equal(t, "kept", string(dst))
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
			}
		})
	}
	requireSame(t, codec.Message{Format: codec.FormatMsgpack, Data: deep[1:]}, decode(t, encode(t, codec.Message{Format: codec.FormatMsgpack, Data: deep[1:]})))
}

func TestErrorTexts(t *testing.T) {
	_, err := codec.AppendPack(nil, 5000, nil, codec.NoCompression)
	require.EqualError(t, err, "codec: pack is over its cap: 5000, at most 4096")
	err = codec.Upcasts{"a": rename("a")}.Apply(&codec.Message{Type: "a"})
	require.EqualError(t, err, `codec: upcast "a": upcasts do not end`)
}

func TestHeaders(t *testing.T) {
	var h codec.Headers
	_, ok := h.Get("a")
	require.False(t, ok)
	h.Set("a", "1")
	h.Set("b", "")
	h.Set("a", "2")
	require.Equal(t, codec.Headers{{"a", "2"}, {"b", ""}}, h)
	v, ok := h.Get("b")
	require.True(t, ok)
	require.Empty(t, v)
}

// aString draws around the lengths at which msgpack changes its form.
func aString(maxLen int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n := min(maxLen, rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(250, 260), rapid.IntRange(65530, 65540)).Draw(t, "len"))
		b := bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, n)
		copy(b, rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "front"))
		return string(b)
	})
}

// aMessage draws what AppendMessage takes. Data of format Msgpack is no bin.
func aMessage() *rapid.Generator[codec.Message] {
	return rapid.Custom(func(t *rapid.T) codec.Message {
		m := codec.Message{
			Type: aString(codec.MaxType).Draw(t, "type"),
			Key:  aString(codec.MaxKey).Draw(t, "key"),
		}
		for range rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(14, 18), rapid.Just(codec.MaxHeaders)).Draw(t, "headers") {
			m.Headers.Set(aString(codec.MaxHeaderKey).Draw(t, "k"), aString(codec.MaxHeaderValue).Draw(t, "v"))
		}
		if rapid.Bool().Draw(t, "msgpack") {
			m.Format = codec.FormatMsgpack
			m.Data, _ = msgpack.Marshal(map[string]any{"n": rapid.Int64().Draw(t, "n"), "s": aString(1<<17).Draw(t, "s")})
			return m
		}
		m.Data = []byte(aString(1<<17).Draw(t, "data"))
		return m
	})
}

// byLibrary encodes m with the library, one call per element.
func byLibrary(t require.TestingT, m codec.Message) []byte {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	require.NoError(t, enc.EncodeArrayLen(5))
	require.NoError(t, enc.Encode(1))
	require.NoError(t, enc.EncodeString(m.Type))
	require.NoError(t, enc.EncodeString(m.Key))
	require.NoError(t, enc.EncodeMapLen(len(m.Headers)))
	for _, h := range m.Headers {
		require.NoError(t, enc.EncodeString(h.Key))
		require.NoError(t, enc.EncodeString(h.Value))
	}
	if m.Format == codec.FormatMsgpack {
		require.NoError(t, enc.Encode(msgpack.RawMessage(m.Data)))
	} else {
		require.NoError(t, enc.EncodeBytes(append([]byte{}, m.Data...)))
	}
	return buf.Bytes()
}

func TestSameBytesAsTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := aMessage().Draw(t, "m")
		b := encode(t, m)
		require.Equal(t, byLibrary(t, m), b)
		requireSame(t, m, decode(t, b))

		var all []any
		require.NoError(t, msgpack.Unmarshal(b, &all), "a stranger reads it with the library")
		require.Len(t, all, 5)
		require.Equal(t, m.Type, all[1])
		require.Equal(t, m.Key, all[2])
		require.Len(t, all[3], len(m.Headers))
	})
}

// What is decoded stays as it is when messages follow one another, and a reused
// Message keeps nothing of the one before.
func TestMessagesInARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(aMessage(), 0, 5).Draw(t, "messages")
		var src []byte
		for i := range want {
			var err error
			src, err = codec.AppendMessage(src, &want[i])
			require.NoError(t, err)
		}
		var m codec.Message
		for i := range want {
			var err error
			src, err = codec.DecodeMessage(src, &m)
			require.NoError(t, err)
			requireSame(t, want[i], m)
		}
		require.Empty(t, src)
	})
}

func TestDecodeAliases(t *testing.T) {
	src := encode(t, codec.Message{Type: "type", Data: []byte("data")})
	for _, first := range []codec.Message{{Data: []byte("data")}, {Data: []byte{0x91, 1}, Format: codec.FormatMsgpack}} {
		two := append(encode(t, first), src...)
		var m codec.Message
		rest, err := codec.DecodeMessage(two, &m)
		require.NoError(t, err)
		_ = append(m.Data, "xxxx"...)
		require.Equal(t, src, rest, "appending to Data does not write past it")
	}
	copy(src[bytes.Index(src, []byte("data")):], "DATA")
	require.Equal(t, "DATA", string(decode(t, src).Data))
}

// TestSize: it is never below what the encoding makes, and above it by no more than is said.
func TestSize(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536, 1 << 20} {
		for _, headers := range []int{0, 1, 15, 16, codec.MaxHeaders} {
			m := codec.Message{Type: strings.Repeat("t", min(n, codec.MaxType)), Key: strings.Repeat("k", min(n, codec.MaxKey)), Data: make([]byte, n)}
			for i := range headers {
				m.Headers = append(m.Headers, codec.Header{Key: fmt.Sprint(i), Value: strings.Repeat("v", min(n, codec.MaxHeaderValue))})
			}
			encoded, err := codec.AppendMessage(nil, &m)
			require.NoError(t, err)
			require.LessOrEqual(t, len(encoded), m.Size())
			require.LessOrEqual(t, m.Size(), len(encoded)+codec.SizeSlack)
		}
	}
}
