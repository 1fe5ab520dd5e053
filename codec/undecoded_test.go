package codec_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

// unpack decodes a pack into new records.
func unpack(p *codec.Pack) (records []codec.Record) {
	p.Unpack(func(n int) func(int) *codec.Record {
		records = make([]codec.Record, n)
		return func(i int) *codec.Record { return &records[i] }
	})
	return records
}

// A pack that is decoded later has the records that its entry has, also when it is damaged, and without those that are left out.
func TestUnpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, 100, 200}).Draw(t, "n")
		var body []byte
		for _, m := range numbered(n) {
			m.Data = []byte("data")
			body = append(body, encode(t, m)...)
		}
		c := rapid.SampledFrom([]codec.Compression{codec.NoCompression, codec.Zstd}).Draw(t, "compression")
		src, err := codec.AppendPack(nil, n, body, c)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "damaged") {
			src[rapid.IntRange(0, len(src)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		i := codec.Identity{Brand: "ORD", Node: 7, Exclusive: rapid.Bool().Draw(t, "exclusive")}
		e := codec.Entry{ID: at(rapid.Uint64Range(0, 4100).Draw(t, "seq")), Fields: []string{"b", string(src)}}
		want := i.Records(nil, e)

		p, ok := i.Pack(e)
		if !ok {
			require.Len(t, want, 1, "it is foreign, or cannot be read, or has one message at the least address")
			return
		}
		said := p.Len()
		require.Equal(t, want, unpack(&p))
		if len(want) > 1 {
			require.Equal(t, len(want), said)
			require.Equal(t, want[0].Addr, p.First())
		}
		below := at(rapid.Uint64Range(0, 4100).Draw(t, "below"))
		p.LeaveOut(below)
		for len(want) > 1 && want[0].Addr.Compare(below) < 0 {
			want = want[1:]
		}
		require.Equal(t, want, unpack(&p))
		if len(want) > 1 {
			require.Equal(t, len(want), p.Len())
		}
	})
}

// What is no pack by itself is not left to others: they would not see the rest of it.
func TestPackIsAll(t *testing.T) {
	three := string(encodePack(t, numbered(3)...))
	i := codec.Identity{Brand: "ORD", Node: 7}
	for name, e := range map[string]codec.Entry{
		"with an id":             {ID: at(5), Fields: []string{"b", three, "id", serverID(t, 7, at(5)).String()}},
		"with a message":         {ID: at(5), Fields: []string{"m", "", "b", three}},
		"a message":              {ID: at(5), Fields: []string{"m", three}},
		"foreign":                {ID: at(5000), Fields: []string{"b", three}},
		"more than can lie here": {ID: at(1), Fields: []string{"b", three}},
		"without a head":         {ID: at(5), Fields: []string{"b", "\x94"}},
	} {
		_, ok := i.Pack(e)
		require.False(t, ok, name)
	}
	_, ok := codec.Identity{}.Pack(codec.Entry{ID: at(5), Fields: []string{"b", three}})
	require.False(t, ok, "of a stream that nobody declared")
	_, ok = i.Pack(codec.Entry{ID: at(5), Fields: []string{"b", three}})
	require.True(t, ok)
}

// A number of messages that is not there takes no memory.
func TestUnpackBelievesNoCount(t *testing.T) {
	src := codec.AppendPackHead(nil, codec.MaxPack, 1)
	p, ok := codec.Identity{Brand: "ORD"}.Pack(codec.Entry{ID: at(4095), Fields: []string{"b", string(append(src, 0))}})
	require.True(t, ok)
	require.Equal(t, codec.MaxPack, p.Len())
	var asked []int
	var damaged codec.Record
	p.Unpack(func(n int) func(int) *codec.Record {
		asked = append(asked, n)
		return func(int) *codec.Record { return &damaged }
	})
	require.Equal(t, []int{1}, asked)
	require.ErrorContains(t, damaged.Err, "fewer messages than it says")
}
