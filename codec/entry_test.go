package codec_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
)

const ms0 = codec.Epoch + 1000

func at(seq uint64) codec.EntryID { return codec.EntryID{Ms: ms0, Seq: seq} }

func serverID(t require.TestingT, node int, e codec.EntryID) codec.ID {
	id, ok := codec.ServerID("ORD", node, e)
	require.True(t, ok)
	return id
}

func hostID(t require.TestingT, e codec.EntryID) codec.ID {
	id, ok := codec.HostID("ORD", e)
	require.True(t, ok)
	return id
}

func TestRecords(t *testing.T) {
	var (
		m       = codec.Message{Type: "t", Key: "k", Headers: codec.Headers{{"h", "v"}}, Data: []byte{1}}
		msg     = string(encode(t, m))
		three   = string(encodePack(t, numbered(3)...))
		server  = codec.Identity{Brand: "ORD", Node: 7}
		host    = codec.Identity{Brand: "ORD", Exclusive: true}
		derived = serverID(t, 7, at(5))
		stored  = hostID(t, at(99)).String()
	)
	type want struct {
		ids     []codec.ID // zero: foreign
		err     string     // undecodable
		message bool       // m, rather than numbered
	}
	plain := want{ids: []codec.ID{derived}, message: true}
	foreign := want{ids: []codec.ID{{}}}
	undecodable := func(what string) want { return want{ids: []codec.ID{derived}, err: what} }
	tests := []struct {
		name   string
		i      codec.Identity
		e      codec.EntryID
		fields []string
		want   want
	}{
		{"plain", server, at(5), []string{"m", msg}, plain},
		{"among others, in any order", server, at(5), []string{"x", "y", "m", msg, "id", derived.String()}, plain},
		{"first m counts", server, at(5), []string{"m", msg, "m", "bad"}, plain},
		{"first m counts, bad", server, at(5), []string{"m", "bad", "m", msg}, undecodable("want an array")},
		{"first b counts", server, at(5), []string{"b", "", "b", three}, undecodable("bytes end")},
		{"first id counts", server, at(5), []string{"id", "bad", "m", msg, "id", derived.String()}, foreign},
		{"m before b", server, at(5), []string{"b", three, "m", msg}, plain},
		{"a name without a value", server, at(5), []string{"m", msg, "id"}, plain},
		{"stored id", server, at(5), []string{"m", msg, "id", stored}, want{ids: []codec.ID{hostID(t, at(99))}, message: true}},
		{"highest sequence", server, at(4095), []string{"m", msg}, want{ids: []codec.ID{serverID(t, 7, at(4095))}, message: true}},
		{"exclusive", host, at(99), []string{"m", msg}, want{ids: []codec.ID{hostID(t, at(99))}, message: true}},
		{"exclusive, stored id", host, at(99), []string{"m", msg, "id", stored}, want{ids: []codec.ID{hostID(t, at(99))}, message: true}},
		{"exclusive beyond 12 bits", host, at(1 << 20), []string{"m", msg}, want{ids: []codec.ID{hostID(t, at(1<<20))}, message: true}},

		{"pack", server, at(5), []string{"b", three}, want{ids: []codec.ID{serverID(t, 7, at(3)), serverID(t, 7, at(4)), derived}}},
		{"pack at the bottom", server, at(2), []string{"b", three}, want{ids: []codec.ID{serverID(t, 7, at(0)), serverID(t, 7, at(1)), serverID(t, 7, at(2))}}},
		{"pack, exclusive", host, at(5000), []string{"b", three}, want{ids: []codec.ID{hostID(t, at(4998)), hostID(t, at(4999)), hostID(t, at(5000))}}},
		{"pack, stored id is the last one's", server, at(5), []string{"b", three, "id", stored}, want{ids: []codec.ID{serverID(t, 7, at(3)), serverID(t, 7, at(4)), hostID(t, at(99))}}},

		{"foreign: no fields", server, at(5), nil, foreign},
		{"foreign: none of ours", server, at(5), []string{"payload", msg}, foreign},
		{"foreign: only an id", server, at(5), []string{"id", stored}, foreign},
		{"foreign: only names", server, at(5), []string{"m"}, foreign},
		{"foreign: beyond 12 bits", server, at(4096), []string{"m", msg}, foreign},
		{"foreign: beyond 12 bits with an id", server, at(4096), []string{"m", msg, "id", stored}, foreign},
		{"foreign: beyond 22 bits", host, at(1 << 22), []string{"m", msg}, foreign},
		{"foreign: before epoch", server, codec.EntryID{Ms: 5}, []string{"m", msg}, foreign},
		{"foreign: top", server, codec.MaxEntryID, []string{"m", msg}, foreign},
		{"foreign: id does not parse", server, at(5), []string{"m", msg, "id", "x"}, foreign},
		{"foreign: id is empty", server, at(5), []string{"m", msg, "id", ""}, foreign},
		{"foreign: id of another brand", server, at(5), []string{"m", msg, "id", "EVT000xY9Wvvcd"}, foreign},
		{"foreign: id of another entry", host, at(5), []string{"m", msg, "id", stored}, foreign},
		{"foreign: no brand", codec.Identity{}, at(5), []string{"m", msg}, foreign},
		{"foreign: no brand, exclusive", codec.Identity{Exclusive: true}, at(5), []string{"m", msg}, foreign},
		{"foreign: bad node", codec.Identity{Brand: "ORD", Node: 1024}, at(5), []string{"m", msg}, foreign},

		{"undecodable: empty", server, at(5), []string{"m", ""}, undecodable("bytes end")},
		{"undecodable: garbage", server, at(5), []string{"m", "{}"}, undecodable("want an array")},
		{"undecodable: newer", server, at(5), []string{"m", "\x95\x02\xa0\xa0\x80\xc0"}, undecodable("newer version")},
		{"undecodable: bytes after", server, at(5), []string{"m", msg + "x"}, undecodable("after the message")},
		{"undecodable: pack", server, at(5), []string{"b", msg}, undecodable("want a count")},
		{"undecodable: empty pack field", server, at(5), []string{"b", ""}, undecodable("bytes end")},
		{"undecodable: pack below its millisecond", server, at(1), []string{"b", three}, want{ids: []codec.ID{serverID(t, 7, at(1))}, err: "sequences"}},
		{"undecodable: pack cut", server, at(5), []string{"b", three[:len(three)-1]}, undecodable("beyond the end")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept := codec.Record{Addr: at(1)}
			e := codec.Entry{ID: tt.e, Fields: tt.fields}
			got := tt.i.Records([]codec.Record{kept}, e)
			require.Equal(t, kept, got[0])
			got = got[1:]
			require.Len(t, got, len(tt.want.ids))
			n := uint64(len(got))
			for i, r := range got {
				require.Equal(t, tt.want.ids[i], r.ID)
				require.Equal(t, codec.Position{Entry: tt.e, Index: i}, r.Position)
				require.Equal(t, codec.EntryID{Ms: tt.e.Ms, Seq: tt.e.Seq - n + 1 + uint64(i)}, r.Addr)
				require.Equal(t, r.ID.IsZero(), r.Foreign())
				switch {
				case tt.want.err != "":
					require.ErrorIs(t, r.Err, codec.ErrDecode)
					require.ErrorContains(t, r.Err, tt.want.err)
					require.Equal(t, tt.fields, r.Fields)
					require.Zero(t, r.Message)
				case r.Foreign():
					require.NoError(t, r.Err)
					require.Equal(t, tt.fields, r.Fields)
					require.Zero(t, r.Message)
				default:
					require.NoError(t, r.Err)
					require.Nil(t, r.Fields)
					if tt.want.message {
						requireSame(t, m, r.Message)
					} else {
						require.Equal(t, fmt.Sprint(i), r.Key)
					}
				}
			}
		})
	}
}

// TestRecordsOfAFullPack: each message has the id of its address, whatever digits change from one to the next.
func TestRecordsOfAFullPack(t *testing.T) {
	server, host := codec.Identity{Brand: "ORD", Node: 7}, codec.Identity{Brand: "ORD", Exclusive: true}
	pack := string(encodePack(t, make([]codec.Message, codec.MaxPack)...))
	for _, r := range server.Records(nil, codec.Entry{ID: at(codec.MaxSeq), Fields: []string{"b", pack}}) {
		require.Equal(t, serverID(t, 7, r.Addr), r.ID)
	}
	for _, r := range host.Records(nil, codec.Entry{ID: at(1<<22 - 1), Fields: []string{"b", pack}}) {
		require.Equal(t, hostID(t, r.Addr), r.ID)
	}
}

// Records that were handed out stay as they are when dst is used again.
func TestRecordsShareNothing(t *testing.T) {
	i := codec.Identity{Brand: "ORD"}
	entry := func(v string) codec.Entry {
		m := codec.Message{Headers: codec.Headers{{"h", v}}}
		return codec.Entry{ID: at(9), Fields: []string{"b", string(encodePack(t, m, m))}}
	}
	first := i.Records(nil, entry("1"))
	kept := slices.Clone(first)
	_ = i.Records(first[:0], entry("2"))
	for _, r := range kept {
		require.Equal(t, codec.Headers{{"h", "1"}}, r.Headers)
	}
}

// Over a whole stream: one record per message, addresses and ids ascend, and an
// entry is found from any id of its messages.
func TestRecordsOfAStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := codec.Identity{Brand: "ORD", Node: rapid.IntRange(0, codec.MaxNode).Draw(t, "node"), Exclusive: rapid.Bool().Draw(t, "exclusive")}
		top := codec.EntryID{Ms: ms0, Seq: math.MaxUint64}.Next()
		var got []codec.Record
		var want []string
		for range rapid.IntRange(1, 20).Draw(t, "entries") {
			n := rapid.IntRange(1, 20).Draw(t, "n")
			if gap := rapid.IntRange(0, 3).Draw(t, "gap"); gap == 3 {
				top = codec.EntryID{Ms: top.Ms + 1}
			} else {
				top.Seq += uint64(gap)
			}
			top.Seq += uint64(n - 1)
			ms := numbered(n)
			fields := []string{"b", string(encodePack(t, ms...))}
			if n == 1 {
				fields = []string{"m", string(encode(t, ms[0]))}
			}
			for _, m := range ms {
				want = append(want, m.Key)
			}
			got = i.Records(got, codec.Entry{ID: top, Fields: fields})
			top = top.Next()
		}
		require.Len(t, got, len(want))
		for j, r := range got {
			require.NoError(t, r.Err)
			require.Equal(t, want[j], r.Key)
			require.LessOrEqual(t, r.Addr.Compare(r.Position.Entry), 0)
			entry := r.ID.ServerEntry()
			if i.Exclusive {
				entry = r.ID.HostEntry()
			}
			require.Equal(t, r.Addr, entry)
			if j > 0 {
				require.Positive(t, r.Addr.Compare(got[j-1].Addr))
				require.Positive(t, r.ID.Compare(got[j-1].ID))
				require.Positive(t, r.Position.Compare(got[j-1].Position))
			}
		}
	})
}
