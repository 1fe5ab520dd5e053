package codec_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

func FuzzParse(f *testing.F) {
	v := loadIDs(f)
	for _, v := range v.Valid {
		f.Add(v.ID)
	}
	for _, v := range v.Invalid {
		f.Add(v.ID)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := codec.Parse(s)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrID)
			require.True(t, id.IsZero())
			return
		}
		require.Equal(t, s, id.String())
		again, err := codec.NewID(id.Brand(), id.Snowflake())
		require.NoError(t, err)
		require.Equal(t, id, again)
		again, err = codec.NewIDAt(id.Brand(), id.UnixMs(), id.Node(), id.Seq())
		require.NoError(t, err)
		require.Equal(t, id, again)
	})
}

func FuzzParseEntryID(f *testing.F) {
	for _, s := range []string{"0-0", "1704117200000-1620567", codec.MaxEntryID.String(), "18446744073709551616-0", "+1-1", "01-1", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := codec.ParseEntryID(s)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrEntryID)
			require.True(t, e.IsZero())
			return
		}
		require.Equal(t, s, e.String())
		if e != codec.MaxEntryID {
			require.Equal(t, e, e.Next().Prev())
		}
	})
}

func FuzzParsePosition(f *testing.F) {
	for _, s := range []string{"0-0", "5-6#1", "5-6#4095", "5-6#4096", "5-6#0", "#", "5#6-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := codec.ParsePosition(s)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrEntryID)
			require.Zero(t, p)
			return
		}
		require.Equal(t, s, p.String())
	})
}

// seeds are messages, cut and whole, and the bombs of B86.
func seeds(f *testing.F) [][]byte {
	inline := typical()
	inline.Format, inline.Data = codec.FormatMsgpack, []byte{0x82, 0xa1, 'a', 0xc0, 0xa1, 'b', 0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xd6, 0xff, 1, 2, 3, 4}
	m := encode(f, typical())
	return [][]byte{
		m, encode(f, inline), encode(f, codec.Message{}), m[:len(m)/2],
		append([]byte{0x96}, append(m[1:len(m):len(m)], 0x91, 0xc0)...),
		envelope(0x80, 0xdd, 0xff, 0xff, 0xff, 0xff),
		envelope(0xdf, 0xff, 0xff, 0xff, 0xff),
		envelope(append([]byte{0x80}, bytes.Repeat([]byte{0x81, 0xa0}, 100)...)...),
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var m codec.Message
		rest, err := codec.DecodeMessage(src, &m)
		if err != nil {
			requireDecodeError(t, err, len(src))
			return
		}
		var all []msgpack.RawMessage
		whole := src[:len(src)-len(rest)]
		require.NoError(t, msgpack.Unmarshal(whole, &all), "what we read, the library reads")
		if len(m.Type) > codec.MaxType || len(m.Key) > codec.MaxKey {
			return
		}
		again, err := codec.AppendMessage(nil, &m)
		if err != nil { // only a header over its cap
			var le *codec.LimitError
			require.ErrorAs(t, err, &le)
			return
		}
		require.LessOrEqual(t, len(again), len(whole), "ours is the shortest form")
		requireSame(t, m, decode(t, again))
	})
}

func requireDecodeError(t *testing.T, err error, n int) {
	t.Helper()
	require.ErrorIs(t, err, codec.ErrDecode)
	var de *codec.DecodeError
	require.ErrorAs(t, err, &de)
	require.GreaterOrEqual(t, de.Offset, 0)
	require.LessOrEqual(t, de.Offset, n)
}

func packSeeds(f *testing.F) [][]byte {
	p := encodePack(f, typical(), codec.Message{}, typical())
	return [][]byte{
		p, p[:len(p)-1], append(p[:len(p):len(p)], 0),
		encodePack(f, numbered(300)...),
		{0x94, 1, 0xcd, 0x10, 0x00, 0, 0xc4, 0},
		{0x94, 1, 1, 0, 0xc6, 0xff, 0xff, 0xff, 0xff},
		{0x95, 1, 1, 0, 0xc4, 6, 0x95, 1, 0xa0, 0xa0, 0x80, 0xc0, 0xc0},
	}
}

func FuzzDecodePack(f *testing.F) {
	for _, s := range packSeeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		ms, err := codec.DecodePack(nil, src)
		if err != nil {
			requireDecodeError(t, err, len(src))
			require.Empty(t, ms)
			return
		}
		n, err := codec.PackLen(src)
		require.NoError(t, err)
		require.Len(t, ms, n)
		var all []msgpack.RawMessage
		require.NoError(t, msgpack.Unmarshal(src, &all), "what we read, the library reads")
	})
}

func FuzzRecords(f *testing.F) {
	for i, s := range append(seeds(f), packSeeds(f)...) {
		f.Add("ORD", 7, i%2 == 0, uint64(ms0), uint64(i), string(s), string(s), "ORD000xY9Wvvcd")
	}
	f.Add("", -1, false, uint64(0), uint64(1<<63), "", "", "")
	f.Fuzz(func(t *testing.T, brand string, node int, exclusive bool, ms, seq uint64, m, b, id string) {
		i := codec.Identity{Brand: codec.Brand(brand), Node: node, Exclusive: exclusive}
		e := codec.EntryID{Ms: ms, Seq: seq}
		for _, fields := range [][]string{{"m", m}, {"b", b}, {"m", m, "b", b}, {"id", id, "b", b}, {id, m, b}, nil} {
			requireRecords(t, i, codec.Entry{ID: e, Fields: fields})
		}
	})
}

func requireRecords(t *testing.T, i codec.Identity, e codec.Entry) {
	records := i.Records(nil, e)
	require.NotEmpty(t, records)
	for j, r := range records {
		require.Equal(t, codec.Position{Entry: e.ID, Index: j}, r.Position)
		switch {
		case r.Err != nil:
			require.Len(t, records, 1)
			require.ErrorIs(t, r.Err, codec.ErrDecode)
			require.Equal(t, e.Fields, r.Fields)
			require.False(t, r.Foreign())
		case r.Foreign():
			require.Len(t, records, 1)
			require.Equal(t, e.Fields, r.Fields)
		default:
			require.Equal(t, i.Brand, r.ID.Brand())
			require.Nil(t, r.Fields)
		}
		if j > 0 {
			require.Equal(t, records[j-1].Addr.Next(), r.Addr)
		}
	}
	require.Equal(t, e.ID, records[len(records)-1].Addr)
}

// FuzzAppendMessage: what is accepted comes back byte by byte (B78, B80); what is over a cap is refused, and dst stays.
func FuzzAppendMessage(f *testing.F) {
	f.Add("order.placed", "k", "h", "v", []byte("data"), uint8(0))
	f.Add("", "", "", "", []byte(nil), uint8(0))
	f.Add("\x00\xff", "\xc3\x28", "\x00", "\xff", []byte{0xc0}, uint8(1))
	f.Add("t", "k", "content-type", "x", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}, uint8(1))
	f.Fuzz(func(t *testing.T, typ, key, name, value string, data []byte, format uint8) {
		m := codec.Message{Type: typ, Key: key, Headers: codec.Headers{{Key: name, Value: value}}, Data: data, Format: codec.Format(format)}
		dst, err := codec.AppendMessage([]byte("kept"), &m)
		if err != nil {
			require.Equal(t, "kept", string(dst))
			return
		}
		require.LessOrEqual(t, len(typ), codec.MaxType)
		require.LessOrEqual(t, len(key), codec.MaxKey)
		got := decode(t, dst[len("kept"):])
		require.Equal(t, typ, got.Type)
		require.Equal(t, key, got.Key)
		require.Equal(t, codec.Headers{{Key: name, Value: value}}, got.Headers)
		if m.Format == got.Format {
			require.True(t, bytes.Equal(data, got.Data))
		}
	})
}

func FuzzParseBrand(f *testing.F) {
	for _, s := range []string{"ORD", "", "ord", "OR", "ORDE", "OR\x00", "ÖRD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		brand, err := codec.ParseBrand(s)
		if err != nil {
			require.ErrorIs(t, err, codec.ErrID)
			return
		}
		require.Regexp(t, `^[A-Z]{3}$`, string(brand))
		_, err = codec.NewID(brand, 1)
		require.NoError(t, err)
	})
}

// FuzzPayloads: payloads of others are decoded or refused, into a struct and into anything; nothing panics (B82, B86).
func FuzzPayloads(f *testing.F) {
	f.Add([]byte{0x82, 0xa5, 'I', 't', 'e', 'm', 's', 3, 0xa2, 'a', 't', 0xd6, 0xff, 1, 2, 3, 4})
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add(append(bytes.Repeat([]byte{0x81, 0xa0}, 100), 0xc0))
	f.Add([]byte(`{"Items":3}`))
	type order struct {
		Items int
		Note  *string
		Tags  map[string]any
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []codec.Format{codec.FormatBytes, codec.FormatMsgpack} {
			m := codec.Message{Data: data, Format: format}
			_, _ = codec.Msgpack[order]().Decode(&m)
			_, _ = codec.Msgpack[any]().Decode(&m)
			_, _ = codec.JSON[order]().Decode(&m)
			raw, err := codec.Raw().Decode(&m)
			if err == nil {
				require.True(t, bytes.Equal(data, raw))
			}
		}
	})
}
