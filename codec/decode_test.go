package codec_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

// decodeFails decodes b, bounded in time, and returns the error.
func decodeFails(t *testing.T, b []byte) *codec.DecodeError {
	t.Helper()
	var m codec.Message
	begin := time.Now()
	_, err := codec.DecodeMessage(b, &m)
	require.Less(t, time.Since(begin), time.Second)
	require.ErrorIs(t, err, codec.ErrDecode)
	var de *codec.DecodeError
	require.ErrorAs(t, err, &de)
	require.GreaterOrEqual(t, de.Offset, 0)
	require.LessOrEqual(t, de.Offset, len(b))
	return de
}

// envelope is [1, "t", "k", headers, data...], the tail as given.
func envelope(tail ...byte) []byte {
	return append([]byte{0x95, 1, 0xa1, 't', 0xa1, 'k'}, tail...)
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name   string
		src    []byte
		offset int
		what   string
	}{
		{"nothing", nil, 0, "bytes end"},
		{"no array", []byte{0x81, 1, 2}, 0, "want an array"},
		{"empty array", []byte{0x90}, 0, "want an array"},
		{"short array", []byte{0x94, 1, 0xa0, 0xa0, 0x80}, 0, "too short"},
		{"version 0", []byte{0x95, 0, 0xa0, 0xa0, 0x80, 0xc0}, 1, "want a version number"},
		{"version below 0", []byte{0x95, 0xff, 0xa0, 0xa0, 0x80, 0xc0}, 1, "want a version number"},
		{"version below 0, int8", []byte{0x95, 0xd0, 0xff, 0xa0, 0xa0, 0x80, 0xc0}, 1, "want a version number"},
		{"version below 0, int64", []byte{0x95, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xa0, 0xa0, 0x80, 0xc0}, 1, "want a version number"},
		{"version is a str", []byte{0x95, 0xa1, '1', 0xa0, 0xa0, 0x80, 0xc0}, 1, "want a version number"},
		{"newer version of the same shape", []byte{0x95, 2, 0xa0, 0xa0, 0x80, 0xc0}, 1, "newer version"},
		{"newer version of another shape", []byte{0x91, 0xcc, 200}, 1, "newer version"},
		{"version cut", []byte{0x95}, 1, "bytes end"},
		{"type is a bin", []byte{0x95, 1, 0xc4, 0, 0xa0, 0x80, 0xc0}, 2, "type: want a str"},
		{"key is a number", []byte{0x95, 1, 0xa0, 7, 0x80, 0xc0}, 3, "key: want a str"},
		{"key is cut", []byte{0x95, 1, 0xa0, 0xa5, 'k'}, 4, "beyond the end"},
		{"headers are nil", envelope(0xc0, 0xc0), 6, "headers: want a map"},
		{"headers are an array", envelope(0x90, 0xc0), 6, "headers: want a map"},
		{"header key is a number", envelope(0x81, 1, 0xa0, 0xc0), 7, "header key: want a str"},
		{"header value is nil", envelope(0x81, 0xa0, 0xc0, 0xc0), 8, "header value: want a str"},
		{"headers cut", envelope(0x81, 0xa0), 8, "bytes end"},
		{"65 headers", envelope(0xde, 0, 65), 6, "more than 64"},
		{"no data", envelope(0x80), 7, "bytes end"},
		{"data cut", envelope(0x80, 0xc4, 5, 'x'), 9, "beyond the end"},
		{"data unused code", envelope(0x80, 0xc1), 7, "0xc1"},
		{"data length cut", envelope(0x80, 0xc6, 0, 0), 8, "inside a length"},
		{"data number cut", envelope(0x80, 0xcf, 0, 0), 8, "inside a length"},
		{"data float cut", envelope(0x80, 0xcb, 0, 0), 8, "beyond the end"},
		{"data ext cut", envelope(0x80, 0xd8, 1, 2), 8, "beyond the end"},
		{"trailing element cut", append([]byte{0x96}, envelope(0x80, 0xc0)[1:]...), 8, "bytes end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			de := decodeFails(t, tt.src)
			require.Contains(t, de.What, tt.what)
			require.Equal(t, tt.offset, de.Offset, de.What)
			require.Contains(t, de.Error(), fmt.Sprintf("at byte %d: ", tt.offset))
		})
	}
}

// Every proper prefix of a message is refused, wherever it is cut.
func TestDecodeCut(t *testing.T) {
	src := encode(t, typical())
	for n := range src {
		decodeFails(t, src[:n])
	}
}

func TestDecodeSkipsWhatIsNew(t *testing.T) {
	plain := envelope(0x81, 0xa1, 'h', 0xa1, 'v', 0xc4, 1, 'd')
	want := decode(t, plain)
	news := []byte{0x82, 0xa1, 'x', 0x93, 1, 0xc0, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xd6, 0xff, 1, 2, 3, 4, 0xc7, 2, 9, 8, 7} // one map
	src := append(append([]byte{0x96}, plain[1:]...), news...)
	requireSame(t, want, decode(t, append(src, []byte{}...)))

	wide := append(append([]byte{0xdc, 0, 6}, plain[1:]...), news...)
	requireSame(t, want, decode(t, wide))
}

// A writer may use longer forms than needed: a reader takes them all.
func TestDecodeTakesEveryForm(t *testing.T) {
	want := codec.Message{Type: "t", Key: "k", Headers: codec.Headers{{"h", "v"}}, Data: []byte("d")}
	for _, version := range [][]byte{{1}, {0xcc, 1}, {0xcd, 0, 1}, {0xce, 0, 0, 0, 1}, {0xcf, 0, 0, 0, 0, 0, 0, 0, 1}, {0xd0, 1}, {0xd3, 0, 0, 0, 0, 0, 0, 0, 1}} {
		for _, array := range [][]byte{{0x95}, {0xdc, 0, 5}, {0xdd, 0, 0, 0, 5}} {
			for _, str := range [][]byte{{0xa1}, {0xd9, 1}, {0xda, 0, 1}, {0xdb, 0, 0, 0, 1}} {
				for _, headers := range [][]byte{{0x81}, {0xde, 0, 1}, {0xdf, 0, 0, 0, 1}} {
					for _, bin := range [][]byte{{0xc4, 1}, {0xc5, 0, 1}, {0xc6, 0, 0, 0, 1}} {
						src := bytes.Join([][]byte{array, version, str, {'t'}, str, {'k'}, headers, str, {'h'}, str, {'v'}, bin, {'d'}}, nil)
						requireSame(t, want, decode(t, src))
					}
				}
			}
		}
	}
}

// Each format of msgpack is as long as it says: what follows is found.
func TestDecodeEveryFormat(t *testing.T) {
	values := []string{"\x00", "\x7f", "\xe0", "\xff", "\x80", "\x90", "\xa0", "\xbf" + fill(31), "\xc0", "\xc2", "\xc3"}
	for head, n := range map[string]int{
		"\xca": 4, "\xcb": 8, "\xcc": 1, "\xcd": 2, "\xce": 4, "\xcf": 8, "\xd0": 1, "\xd1": 2, "\xd2": 4, "\xd3": 8,
		"\xd4": 2, "\xd5": 3, "\xd6": 5, "\xd7": 9, "\xd8": 17,
		"\xc7\x03": 4, "\xc8\x00\x03": 4, "\xc9\x00\x00\x00\x03": 4, "\xd9\x03": 3, "\xda\x00\x03": 3, "\xdb\x00\x00\x00\x03": 3,
		"\x9f": 15, "\x8f": 30, "\xdc\x00\x03": 3, "\xdd\x00\x00\x00\x03": 3, "\xde\x00\x03": 6, "\xdf\x00\x00\x00\x03": 6,
	} {
		values = append(values, head+fill(n))
	}
	for _, v := range values {
		t.Run(fmt.Sprintf("%x", v[0]), func(t *testing.T) {
			src := envelope(append([]byte{0x80}, v...)...)
			var m codec.Message
			rest, err := codec.DecodeMessage(append(src, "next"...), &m)
			require.NoError(t, err)
			require.Equal(t, "next", string(rest))
			require.Equal(t, v, string(m.Data))
			require.Equal(t, codec.FormatMsgpack, m.Format)
			decodeFails(t, src[:len(src)-1])
			library := bytes.NewReader(src)
			require.NoError(t, msgpack.NewDecoder(library).Skip())
			require.Zero(t, library.Len(), "the library agrees")
		})
	}
}

// fill is n times the number 1.
func fill(n int) string { return strings.Repeat("\x01", n) }

func TestDecodeTakesStringsOverTheCaps(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, 1<<16)
	src := append([]byte{0x95, 1, 0xdb, 0, 1, 0, 0}, long...)
	src = append(src, 0xa0, 0x80, 0xc0)
	require.Len(t, decode(t, src).Type, 1<<16)
}

// Of a repeated header key the last value counts, and the message can be encoded
// again.
func TestDecodeRepeatedHeader(t *testing.T) {
	m := decode(t, envelope(0x83, 0xa1, 'a', 0xa1, '1', 0xa1, 'b', 0xa1, '2', 0xa1, 'a', 0xa1, '3', 0xc0))
	require.Equal(t, codec.Headers{{"a", "3"}, {"b", "2"}}, m.Headers)
	requireSame(t, m, decode(t, encode(t, m)))
}

// B86: a declared length costs nothing, and depth is bounded.
func TestDecodeBombs(t *testing.T) {
	nested := func(open []byte, n int) []byte { return append(bytes.Repeat(open, n), 0xc0) }
	bombs := []struct {
		name string
		data []byte
	}{
		{"array32", []byte{0xdd, 0xff, 0xff, 0xff, 0xff}},
		{"array32 with a start", []byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1, 2, 3}},
		{"map32", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}},
		{"str32", []byte{0xdb, 0xff, 0xff, 0xff, 0xff}},
		{"bin32", []byte{0xc6, 0xff, 0xff, 0xff, 0xff}},
		{"ext32", []byte{0xc9, 0xff, 0xff, 0xff, 0xff, 1}},
		{"10,000 nested maps", nested([]byte{0x81, 0xa0}, 10_000)},
		{"10,000 maps nested in keys", nested([]byte{0x81}, 10_000)},
		{"a million nested arrays", nested([]byte{0x91}, 1_000_000)},
		{"nested array32", bytes.Repeat([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, 60)},
		{"one too deep", nested([]byte{0x91}, codec.MaxDepth+1)},
	}
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			asData := envelope(append([]byte{0x80}, b.data...)...)
			asTrailing := append([]byte{0x96}, envelope(append([]byte{0x80, 0xc0}, b.data...)...)[1:]...)
			asHeaders := envelope(b.data...)
			for _, src := range [][]byte{b.data, asData, asTrailing, asHeaders} {
				decodeFails(t, src)
				var m codec.Message
				allocs := testing.AllocsPerRun(10, func() { _, _ = codec.DecodeMessage(src, &m) })
				require.LessOrEqual(t, allocs, 3.0)
			}
		})
	}
	deepest := nested([]byte{0x91}, codec.MaxDepth)
	require.Equal(t, deepest, decode(t, envelope(append([]byte{0x80}, deepest...)...)).Data)
	wide := append([]byte{0xdd, 0, 0x10, 0, 0}, bytes.Repeat([]byte{0xc0}, 1<<20)...)
	require.Len(t, decode(t, envelope(append([]byte{0x80}, wide...)...)).Data, len(wide), "wide is not deep")
}
