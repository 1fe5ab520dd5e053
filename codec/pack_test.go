package codec_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

func encodePack(t require.TestingT, ms ...codec.Message) []byte {
	var body []byte
	for i := range ms {
		var err error
		body, err = codec.AppendMessage(body, &ms[i])
		require.NoError(t, err)
	}
	b, err := codec.AppendPack(nil, len(ms), body, codec.NoCompression)
	require.NoError(t, err)
	return b
}

func numbered(n int) []codec.Message {
	ms := make([]codec.Message, n)
	for i := range ms {
		ms[i] = codec.Message{Type: "t", Key: fmt.Sprint(i)}
	}
	return ms
}

func TestPackRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 127, 128, 255, 256, codec.MaxPack} {
		ms := numbered(n)
		src := encodePack(t, ms...)
		require.Equal(t, packByLibrary(t, ms...), src)
		got, err := codec.PackLen(src)
		require.NoError(t, err)
		require.Equal(t, n, got)
		out, err := codec.DecodePack(nil, src)
		require.NoError(t, err)
		require.Len(t, out, n)
		for i := range ms {
			requireSame(t, ms[i], out[i])
		}
	}
}

func packByLibrary(t require.TestingT, ms ...codec.Message) []byte {
	var body []byte
	for _, m := range ms {
		body = append(body, byLibrary(t, m)...)
	}
	var want bytes.Buffer
	require.NoError(t, msgpack.NewEncoder(&want).Encode([]any{1, len(ms), 0, body}))
	return want.Bytes()
}

func TestPackSameBytesAsTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfN(aMessage(), 1, 4).Draw(t, "messages")
		want := packByLibrary(t, ms...)
		require.Equal(t, want, encodePack(t, ms...))

		kept := codec.Message{Type: "kept"}
		out, err := codec.DecodePack([]codec.Message{kept}, want)
		require.NoError(t, err)
		requireSame(t, kept, out[0])
		require.Len(t, out, 1+len(ms))
		for i := range ms {
			requireSame(t, ms[i], out[1+i])
		}
	})
}

func TestAppendPackHead(t *testing.T) {
	for _, size := range []int{0, 255, 256, 65535, 65536, 1 << 20} {
		for _, n := range []int{1, 127, 128, 256, codec.MaxPack} {
			body := make([]byte, size)
			want, err := codec.AppendPack(nil, n, body, codec.NoCompression)
			require.NoError(t, err)
			require.Equal(t, want, append(codec.AppendPackHead(nil, n, size), body...))
		}
	}
}

func TestAppendPackRefuses(t *testing.T) {
	for _, n := range []int{-1, 0, codec.MaxPack + 1} {
		dst, err := codec.AppendPack([]byte("kept"), n, nil, codec.Zstd)
		var le *codec.LimitError
		require.ErrorAs(t, err, &le)
		require.Equal(t, codec.LimitError{What: "pack", Limit: codec.MaxPack, Got: n}, *le)
		require.Equal(t, "kept", string(dst))
	}
}

func TestDecodePackErrors(t *testing.T) {
	one := encode(t, codec.Message{Type: "t"}) // 8 bytes
	pack := func(head []byte, body []byte, tail ...byte) []byte {
		src := append(append([]byte{}, head...), 0xc4, byte(len(body)))
		return append(append(src, body...), tail...)
	}
	broken := append(append([]byte{}, one...), 0x95, 1, 0xa0, 7, 0x80, 0xc0)
	tests := []struct {
		name   string
		src    []byte
		offset int
		what   string
	}{
		{"nothing", nil, 0, "bytes end"},
		{"a message", one, 2, "want a count"},
		{"short array", []byte{0x93, 1, 1, 0}, 0, "too short"},
		{"newer version", pack([]byte{0x94, 2, 1, 0}, one), 1, "newer version"},
		{"count 0", pack([]byte{0x94, 1, 0, 0}, nil), 2, "1 to 4096"},
		{"count 4097", pack([]byte{0x94, 1, 0xcd, 0x10, 0x01, 0}, one), 2, "1 to 4096"},
		{"count below 0", pack([]byte{0x94, 1, 0xff, 0}, one), 2, "1 to 4096"},
		{"compressed by who knows what", pack([]byte{0x94, 1, 1, 2}, one), 3, "newer version"},
		{"not compressed as it says", pack([]byte{0x94, 1, 1, 1}, one), 6, "no zstd frame"},
		{"compression is no number", pack([]byte{0x94, 1, 1, 0xc0}, one), 3, "compression number"},
		{"body is a str", []byte{0x94, 1, 1, 0, 0xa0}, 4, "want a bin"},
		{"body is cut", []byte{0x94, 1, 1, 0, 0xc4, 9, 0x95}, 6, "beyond the end"},
		{"body is missing", []byte{0x94, 1, 1, 0}, 4, "bytes end"},
		{"bin32 bomb", []byte{0x94, 1, 1, 0, 0xc6, 0xff, 0xff, 0xff, 0xff}, 9, "beyond the end"},
		{"count bomb", pack([]byte{0x94, 1, 0xcd, 0x10, 0x00, 0}, one), 8, "fewer messages"},
		{"one message short", pack([]byte{0x94, 1, 2, 0}, append(one[:8:8], 0x95, 1, 0xa0, 0xa0, 0x80)), 19, "message 1: bytes end"},
		{"one message too many", pack([]byte{0x94, 1, 1, 0}, append(one[:8:8], one...)), 14, "after the last message"},
		{"second message broken", pack([]byte{0x94, 1, 2, 0}, broken), 17, "message 1: key: want a str"},
		{"bytes after", pack([]byte{0x94, 1, 1, 0}, one, 0xc0), 14, "after the pack"},
		{"trailing element cut", pack([]byte{0x95, 1, 1, 0}, one), 14, "bytes end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept := []codec.Message{{Type: "kept"}}
			out, err := codec.DecodePack(kept, tt.src)
			require.Equal(t, kept, out)
			require.ErrorIs(t, err, codec.ErrDecode)
			var de *codec.DecodeError
			require.ErrorAs(t, err, &de)
			require.Contains(t, de.What, tt.what)
			require.Equal(t, tt.offset, de.Offset, de.What)
		})
	}
	for _, head := range [][]byte{{0x94, 0xd0, 1, 0xd0, 1, 0xd0, 0}, {0xdc, 0, 4, 0xcd, 0, 1, 0xce, 0, 0, 0, 1, 0xcf, 0, 0, 0, 0, 0, 0, 0, 0}} {
		_, err := codec.DecodePack(nil, pack(head, one))
		require.NoError(t, err, "every width, either sign")
	}
	out, err := codec.DecodePack(nil, pack([]byte{0x95, 1, 1, 0}, one, 0x91, 0xc0))
	require.NoError(t, err, "a trailing element is skipped")
	require.Len(t, out, 1)
}
