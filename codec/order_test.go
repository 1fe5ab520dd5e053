package codec_test

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

// anEntry draws entries that lie close together, so that ties and carries occur.
func anEntry(maxSeq uint64) *rapid.Generator[codec.EntryID] {
	return rapid.Custom(func(t *rapid.T) codec.EntryID {
		ms := rapid.OneOf(
			rapid.Uint64Range(codec.Epoch, codec.Epoch+3),
			rapid.Uint64Range(codec.Epoch, codec.Epoch+1<<41-1),
		).Draw(t, "ms")
		return codec.EntryID{Ms: ms, Seq: rapid.Uint64Range(0, maxSeq).Draw(t, "seq")}
	})
}

// The law: inside one brand and one stream, byte order of ids = numeric order =
// order of entries; and an id leads back to its entry.
func TestOrderLaw(t *testing.T) {
	orders := []struct {
		name   string
		maxSeq uint64
		id     func(node int, e codec.EntryID) (codec.ID, bool)
		entry  func(codec.ID) codec.EntryID
	}{
		{"server", codec.MaxSeq, func(node int, e codec.EntryID) (codec.ID, bool) {
			return codec.ServerID("EVT", node, e)
		}, codec.ID.ServerEntry},
		{"host", 1<<22 - 1, func(_ int, e codec.EntryID) (codec.ID, bool) {
			return codec.HostID("EVT", e)
		}, codec.ID.HostEntry},
	}
	for _, o := range orders {
		t.Run(o.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				node := rapid.IntRange(0, codec.MaxNode).Draw(t, "node")
				a, b := anEntry(o.maxSeq).Draw(t, "a"), anEntry(o.maxSeq).Draw(t, "b")
				ida, okA := o.id(node, a)
				idb, okB := o.id(node, b)
				require.True(t, okA && okB)
				want := a.Compare(b)
				require.Equal(t, want, bytes.Compare(ida[:], idb[:]))
				require.Equal(t, want, ida.Compare(idb))
				require.Equal(t, want, cmp.Compare(ida.Snowflake(), idb.Snowflake()))
				require.Equal(t, want == 0, ida == idb)
				require.Equal(t, a, o.entry(ida))

				parsed, err := codec.Parse(ida.String())
				require.NoError(t, err)
				require.Equal(t, ida, parsed)
			})
		})
	}
}

// Ids of different nodes are of different streams; inside a millisecond they do
// not interleave, across milliseconds time decides.
func TestTimeDecidesAcrossNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anEntry(codec.MaxSeq).Draw(t, "a"), anEntry(codec.MaxSeq).Draw(t, "b")
		ida, _ := codec.ServerID("EVT", rapid.IntRange(0, codec.MaxNode).Draw(t, "n"), a)
		idb, _ := codec.ServerID("EVT", rapid.IntRange(0, codec.MaxNode).Draw(t, "m"), b)
		if a.Ms != b.Ms {
			require.Equal(t, cmp.Compare(a.Ms, b.Ms), ida.Compare(idb))
		}
	})
}

func TestNoIDForAnEntry(t *testing.T) {
	const last = codec.Epoch + 1<<41 - 1
	tests := []struct {
		name         string
		brand        codec.Brand
		node         int
		entry        codec.EntryID
		server, host bool
	}{
		{"lowest", "EVT", 0, codec.EntryID{Ms: codec.Epoch}, true, true},
		{"highest of the server", "EVT", 1023, codec.EntryID{Ms: last, Seq: 4095}, true, true},
		{"beyond 12 bits", "EVT", 0, codec.EntryID{Ms: last, Seq: 4096}, false, true},
		{"highest of a host", "EVT", 0, codec.EntryID{Ms: last, Seq: 1<<22 - 1}, false, true},
		{"beyond 22 bits", "EVT", 0, codec.EntryID{Ms: last, Seq: 1 << 22}, false, false},
		{"before epoch", "EVT", 0, codec.EntryID{Ms: codec.Epoch - 1}, false, false},
		{"at 0", "EVT", 0, codec.EntryID{}, false, false},
		{"past 41 bits", "EVT", 0, codec.EntryID{Ms: last + 1}, false, false},
		{"top", "EVT", 0, codec.MaxEntryID, false, false},
		{"node", "EVT", 1024, codec.EntryID{Ms: last}, false, true},
		{"node below", "EVT", -1, codec.EntryID{Ms: last}, false, true},
		{"no brand", "", 0, codec.EntryID{Ms: last}, false, false},
		{"bad brand", "evt", 0, codec.EntryID{Ms: last}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, ok := codec.ServerID(tt.brand, tt.node, tt.entry)
			require.Equal(t, tt.server, ok)
			require.Equal(t, !ok, id.IsZero())
			id, ok = codec.HostID(tt.brand, tt.entry)
			require.Equal(t, tt.host, ok)
			require.Equal(t, !ok, id.IsZero())
		})
	}
}

// TestIdentityEntry: an identity leads each of its ids to its entry, and no other.
func TestIdentityEntry(t *testing.T) {
	id, err := codec.Parse("EVT000xY9Wvvcd")
	require.NoError(t, err)
	tests := []struct {
		name     string
		identity codec.Identity
		want     codec.EntryID
		ok       bool
	}{
		{"server", codec.Identity{Brand: "EVT", Node: 395}, codec.EntryID{Ms: 1704117200000, Seq: 2647}, true},
		{"exclusive", codec.Identity{Brand: "EVT", Node: 7, Exclusive: true}, codec.EntryID{Ms: 1704117200000, Seq: 1620567}, true},
		{"another node", codec.Identity{Brand: "EVT", Node: 394}, codec.EntryID{}, false},
		{"another brand", codec.Identity{Brand: "ORD", Node: 395}, codec.EntryID{}, false},
		{"another brand, exclusive", codec.Identity{Brand: "ORD", Exclusive: true}, codec.EntryID{}, false},
		{"unknown", codec.Identity{}, codec.EntryID{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, ok := tt.identity.Entry(id)
			require.Equal(t, tt.ok, ok)
			if ok {
				require.Equal(t, tt.want, at)
			}
		})
	}
	_, ok := codec.Identity{}.Entry(codec.ID{})
	require.False(t, ok)
}
