package codec_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

func compressedPack(t require.TestingT, ms ...codec.Message) []byte {
	var body []byte
	for i := range ms {
		var err error
		body, err = codec.AppendMessage(body, &ms[i])
		require.NoError(t, err)
	}
	b, err := codec.AppendPack(nil, len(ms), body, codec.Zstd)
	require.NoError(t, err)
	return b
}

// TestCompressedPacks: records, single messages and lengths are those of the pack without compression, to which it can be turned back.
func TestCompressedPacks(t *testing.T) {
	smaller := 0
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfN(aMessage(), 1, 40).Draw(t, "messages")
		plain, small := encodePack(t, ms...), compressedPack(t, ms...)
		require.LessOrEqual(t, len(small), len(plain))
		if len(small) < len(plain) {
			smaller++
		}
		entry := func(pack []byte) codec.Entry {
			return codec.Entry{ID: codec.EntryID{Ms: 1767225600000, Seq: 4000}, Fields: []string{"note", "b", codec.FieldPack, string(pack)}}
		}
		identity := codec.Identity{Brand: "ORD", Node: 7}
		require.Equal(t, identity.Records(nil, entry(plain)), identity.Records(nil, entry(small)))
		given := entry(small)
		require.Equal(t, entry(plain), codec.Uncompressed(given))
		require.Equal(t, entry(small), given, "what is given stays")

		n, err := codec.PackLen(small)
		require.NoError(t, err)
		require.Equal(t, len(ms), n)
		i := rapid.IntRange(0, n-1).Draw(t, "one")
		one, err := codec.PackedMessage(small, i)
		require.NoError(t, err)
		require.Equal(t, encode(t, ms[i]), one)
	})
	require.NotZero(t, smaller)
}

// TestCompressionIsWorthIt: similar messages become a fraction; what cannot be made smaller stays, and what is too large to be read again.
func TestCompressionIsWorthIt(t *testing.T) {
	ms := numbered(100)
	for i := range ms {
		ms[i].Data = bytes.Repeat([]byte("total "), 30)
	}
	require.Less(t, len(compressedPack(t, ms...)), len(encodePack(t, ms...))/8)
	noise := make([]byte, 1000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for _, data := range [][]byte{noise, make([]byte, codec.MaxCompressed)} {
		m := codec.Message{Data: data}
		require.Equal(t, encodePack(t, m), compressedPack(t, m))
	}
}

// TestBombs: a frame that would grow beyond the bound is refused, whether it says so at its beginning or not, and so is more than one that do together.
func TestBombs(t *testing.T) {
	var unsaid bytes.Buffer
	w, err := zstd.NewWriter(&unsaid)
	require.NoError(t, err)
	for range 9 {
		_, err = w.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	said := w.EncodeAll(make([]byte, 9<<20), nil)
	half := w.EncodeAll(make([]byte, 5<<20), nil)
	for name, frame := range map[string][]byte{"unsaid": unsaid.Bytes(), "said": said, "two": append(half, half...), "cut": said[:len(said)-1], "none": nil} {
		require.Less(t, len(frame), 5000)
		src := append([]byte{0x94, 1, 1, 1, 0xc5, byte(len(frame) >> 8), byte(len(frame))}, frame...)
		_, err := codec.DecodePack(nil, src)
		var de *codec.DecodeError
		require.ErrorAs(t, err, &de, name)
		require.Equal(t, 7, de.Offset, name)
		e := codec.Entry{Fields: []string{codec.FieldPack, string(src)}}
		require.Equal(t, e, codec.Uncompressed(e), name)
	}
}
