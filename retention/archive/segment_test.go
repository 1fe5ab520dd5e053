package archive

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

var (
	orders = tier.Address{Scope: "shop", Stream: "orders"}
	server = origin{orders, codec.Identity{Brand: "ORD", Node: 7}}
	host   = origin{orders, codec.Identity{Brand: "ORD", Node: 7, Exclusive: true}}
)

const ms0 = codec.Epoch + 1000

// segmentOf writes entries as a segment.
func segmentOf(t require.TestingT, o origin, entries []codec.Entry) ([]byte, Contents) {
	var out bytes.Buffer
	w := newSegmentWriter(&out, o)
	for _, e := range entries {
		require.NoError(t, w.add(e))
	}
	c, err := w.close()
	require.NoError(t, err)
	return out.Bytes(), c
}

// genMessage draws a message, now and then one that a segment's columns do not hold as it is.
func genMessage(t *rapid.T) codec.Message {
	text := rapid.OneOf(rapid.StringN(0, 8, 60), rapid.SampledFrom([]string{"", "order.placed", "\xff\xfe", "a\x00b"}))
	m := codec.Message{Type: text.Draw(t, "type"), Key: text.Draw(t, "key")}
	for i := range rapid.IntRange(0, 3).Draw(t, "headers") {
		m.Headers = append(m.Headers, codec.Header{Key: fmt.Sprint("h", i), Value: text.Draw(t, "value")})
	}
	if rapid.Bool().Draw(t, "msgpack") {
		m.Format, m.Data = codec.FormatMsgpack, []byte{0x92, 1, 2}
	} else {
		m.Data = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")
	}
	return m
}

// genEntries draws entries of a stream: of our writers, of others', of newer ones, and damaged ones.
func genEntries(t *rapid.T, o origin) []codec.Entry {
	id := codec.EntryID{Ms: ms0}
	var entries []codec.Entry
	for range rapid.IntRange(1, 60).Draw(t, "entries") {
		id.Ms += uint64(rapid.IntRange(0, 3).Draw(t, "ms"))
		n := rapid.SampledFrom([]int{1, 1, 1, 2, 7}).Draw(t, "n")
		id.Seq += uint64(n)
		if rapid.IntRange(0, 9).Draw(t, "far") == 0 {
			id.Seq += 5000
		}
		var body []byte
		for range n {
			m := genMessage(t)
			var err error
			body, err = codec.AppendMessage(body, &m)
			require.NoError(t, err)
		}
		var fields []string
		if o.identity.Exclusive {
			if own, ok := codec.HostID(o.identity.Brand, id); ok {
				fields = append(fields, "id", own.String())
			}
		}
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind == 0:
			fields = []string{"payload", "x", "payload", ""}
		case kind == 1:
			fields = append(fields, "m", "damaged")
		case kind == 2 && n == 1:
			fields = append(fields, "m", string(body), "note", "of another program")
		case kind == 3 && n == 1: // a newer writer adds elements
			fields = append(fields, "m", "\x96"+string(body[1:])+"\x01")
		case n == 1 && kind != 4:
			fields = append(fields, "m", string(body))
		default:
			pack, err := codec.AppendPack(nil, n, body, rapid.SampledFrom([]codec.Compression{codec.NoCompression, codec.Zstd}).Draw(t, "compression"))
			require.NoError(t, err)
			fields = append(fields, "b", string(pack))
		}
		entries = append(entries, codec.Entry{ID: id, Fields: fields})
	}
	return entries
}

// TestSegmentGivesBack: every entry to the byte, but for the compression of packs, and every record as a reader of the log has it; from anywhere; and the same
// entries make the same bytes.
func TestSegmentGivesBack(t *testing.T) {
	for _, o := range []origin{server, host, {address: orders}} {
		rapid.Check(t, func(t *rapid.T) {
			entries := genEntries(t, o)
			segment, c := segmentOf(t, o, entries)
			again, _ := segmentOf(t, o, entries)
			require.Equal(t, segment, again)
			require.EqualValues(t, len(entries), c.Entries)
			s, err := openSegment(bytes.NewReader(segment), int64(len(segment)))
			require.NoError(t, err)
			require.Equal(t, o, s.origin)
			summary, i := newSummary(), 0
			var rebuild rebuilder
			for stored, err := range s.entries(codec.EntryID{}, codec.MaxEntryID) {
				require.NoError(t, err)
				e, err := stored.entry(&rebuild)
				require.NoError(t, err)
				records := o.identity.Records(nil, entries[i])
				require.Equal(t, records, stored.records)
				if records[0].Fields == nil {
					entries[i] = codec.Uncompressed(entries[i])
				}
				require.Equal(t, entries[i], e)
				require.NoError(t, summary.add(e, len(stored.records)))
				i++
			}
			require.Equal(t, c, summary.contents())
		})
	}
}
