package codec_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
)

// typical is an event with three headers and 150 bytes.
func typical() codec.Message {
	return codec.Message{
		Type: "order.item.added",
		Key:  "customer-00012345",
		Headers: codec.Headers{
			{"corr", "0f8c2b1e9a7d4c33"},
			{"caus", "0000000000042z"},
			{"tr", "00-4bf92f3577b34da6-01"},
		},
		Data: bytes.Repeat([]byte("0123456789"), 15),
	}
}

// libraryMessage is the envelope as one writes it with the library: an array,
// headers as a map.
type libraryMessage struct {
	_msgpack struct{} `msgpack:",as_array"` //lint:ignore U1000 the library looks for it by reflection
	Version  int
	Type     string
	Key      string
	Headers  map[string]string
	Data     []byte
}

func typicalByLibrary() libraryMessage {
	m := typical()
	l := libraryMessage{Version: 1, Type: m.Type, Key: m.Key, Data: m.Data, Headers: map[string]string{}}
	for _, h := range m.Headers {
		l.Headers[h.Key] = h.Value
	}
	return l
}

func TestLibraryReadsOurs(t *testing.T) {
	var l libraryMessage
	require.NoError(t, msgpack.Unmarshal(encode(t, typical()), &l))
	require.Equal(t, typicalByLibrary(), l)
	b, err := msgpack.Marshal(&l)
	require.NoError(t, err)
	require.ElementsMatch(t, typical().Headers, decode(t, b).Headers)
}

func TestZeroAllocs(t *testing.T) {
	m := typical()
	inline := typical()
	inline.Data, inline.Format = []byte{0x82, 0xa1, 'a', 1, 0xa1, 'b', 0x92, 2, 3}, codec.FormatMsgpack
	src := encode(t, m)
	inlineSrc := encode(t, inline)
	packSrc := encodePack(t, m, inline, m)
	id := codec.Identity{Brand: "ORD"}
	bare := codec.Entry{ID: at(5), Fields: []string{"m", string(encode(t, codec.Message{Type: "t", Data: m.Data}))}}
	mint, err := codec.NewMint(512, 0, 1<<42, nil)
	require.NoError(t, err)

	var (
		dst     = make([]byte, 0, 4096)
		into    codec.Message
		msgs    = make([]codec.Message, 0, 8)
		records = make([]codec.Record, 0, 8)
		sink    codec.ID
	)
	for name, f := range map[string]func(){
		"AppendMessage":         func() { dst, _ = codec.AppendMessage(dst[:0], &m) },
		"AppendMessage msgpack": func() { dst, _ = codec.AppendMessage(dst[:0], &inline) },
		"AppendPack":            func() { dst, _ = codec.AppendPack(dst[:0], 1, src, codec.NoCompression) },
		"DecodeMessage":         func() { _, _ = codec.DecodeMessage(src, &into) },
		"DecodeMessage msgpack": func() { _, _ = codec.DecodeMessage(inlineSrc, &into) },
		"DecodePack":            func() { msgs, _ = codec.DecodePack(msgs[:0], packSrc) },
		"PackLen":               func() { _, _ = codec.PackLen(packSrc) },
		"Records":               func() { records = id.Records(records[:0], bare) },
		"Parse":                 func() { sink, _ = codec.Parse("EVT000xY9Wvvcd") },
		"ServerID":              func() { sink, _ = codec.ServerID("EVT", 1, at(5)) },
		"Mint":                  func() { sink, _ = mint.Next("JOB") },
		"EntryID":               func() { dst = at(5).AppendTo(dst[:0]); _, _ = codec.ParseEntryID("1704117200000-7") },
	} {
		t.Run(name, func(t *testing.T) { require.Zero(t, testing.AllocsPerRun(100, f)) })
	}
	_ = sink
}

func BenchmarkEncode(b *testing.B) {
	m := typical()
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			dst, _ = codec.AppendMessage(dst[:0], &m)
		}
	})
	l := typicalByLibrary()
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = msgpack.Marshal(&l)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	src := encode(b, typical())
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		var m codec.Message
		for b.Loop() {
			_, _ = codec.DecodeMessage(src, &m)
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var l libraryMessage
			_ = msgpack.Unmarshal(src, &l)
		}
	})
}

func BenchmarkRecords(b *testing.B) {
	i := codec.Identity{Brand: "ORD", Node: 7}
	ms := make([]codec.Message, 100)
	for j := range ms {
		ms[j] = typical()
	}
	for name, e := range map[string]codec.Entry{
		"plain":    {ID: at(500), Fields: []string{"m", string(encode(b, ms[0]))}},
		"pack-100": {ID: at(500), Fields: []string{"b", string(encodePack(b, ms...))}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var records []codec.Record
			for b.Loop() {
				records = i.Records(records[:0], e)
			}
		})
	}
}

// BenchmarkPack: packs of 100 messages of 250 bytes with much in common; bytes is what a message takes.
func BenchmarkPack(b *testing.B) {
	var body []byte
	for i := range 100 {
		m := codec.Message{Type: "order.placed", Key: fmt.Sprint("customer-", i*7919%1000), Data: fmt.Appendf(nil, `{"order":%d,"customer":"customer-%d","placed":"2026-01-%02dT10:%02d:00Z",`+
			`"lines":[{"article":"A-%d","count":%d,"price":%d.99}],"address":{"street":"High Street %d","city":"Lyon"}}`, 100000+i, i*7919%1000, i%28+1, i%60, i*31%500, i%5+1, i*17%90, i*13%200)}
		body, _ = codec.AppendMessage(body, &m)
	}
	for name, c := range map[string]codec.Compression{"plain": codec.NoCompression, "zstd": codec.Zstd} {
		pack, _ := codec.AppendPack(nil, 100, body, c)
		b.Run("append/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = codec.AppendPack(dst[:0], 100, body, c)
			}
			b.ReportMetric(float64(len(pack))/100, "bytes")
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var dst []codec.Message
			for b.Loop() {
				dst, _ = codec.DecodePack(dst[:0], pack)
			}
		})
	}
}

func BenchmarkID(b *testing.B) {
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			_, _ = codec.Parse("EVT000xY9Wvvcd")
		}
	})
	b.Run("server", func(b *testing.B) {
		for b.Loop() {
			_, _ = codec.ServerID("EVT", 7, at(5))
		}
	})
	b.Run("mint", func(b *testing.B) {
		m, _ := codec.NewMint(512, 0, 1<<42, nil)
		for b.Loop() {
			_, _ = m.Next("JOB")
		}
	})
}
