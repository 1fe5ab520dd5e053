package node_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// input is messages as write.mjs takes them.
func input(t *testing.T, ms []codec.Message) string {
	t.Helper()
	var b strings.Builder
	for _, m := range ms {
		row, err := json.Marshal(lineOf(codec.Record{ID: codec.ID{'E', 'V', 'T'}, Message: m}))
		require.NoError(t, err)
		b.Write(append(row, '\n'))
	}
	return b.String()
}

// equalMessages compares what was read with what was written; empty and absent are the same.
func equalMessages(t *testing.T, want []codec.Message, got []codec.Record) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.False(t, got[i].Foreign())
		require.NoError(t, got[i].Err)
		require.Equal(t, lineOf(codec.Record{Message: want[i], ID: got[i].ID, Position: got[i].Position}), lineOf(got[i]))
	}
}

func ids(records []codec.Record) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(r.ID.String() + "\n")
	}
	return b.String()
}

// groupReads reads and settles all as a member of a group.
func (e *site) groupReads(t *testing.T, n int) []codec.Record {
	t.Helper()
	group, err := stream.NewGroup(e.client, stream.GroupConfig{Address: e.address, Name: "readers", Start: stream.Head()})
	require.NoError(t, err)
	member, err := group.Join(t.Context(), "test")
	require.NoError(t, err)
	_, err = member.Sync(t.Context())
	require.NoError(t, err)
	var all []codec.Record
	for len(all) < n {
		leased, err := member.Read(t.Context(), 100, time.Second)
		require.NoError(t, err)
		for _, l := range leased {
			all = append(all, l.Records...)
			acked, err := member.Settle(t.Context(), []codec.EntryID{l.Entry})
			require.NoError(t, err)
			require.Equal(t, 1, acked)
		}
	}
	require.NoError(t, member.Leave(t.Context()))
	return all
}

func TestWriteIsReadByOurReaderAndGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		e := newSite(t, s)
		in := input(t, corners())
		printed := runOK(t, s.URL(), in, "write.mjs", e.address)
		printed += runOK(t, s.URL(), in, "write.mjs", "--pack", e.address)
		_, err := e.writer(t, 1).AppendBatch(t.Context(), corners())
		require.NoError(t, err)
		printed += runOK(t, s.URL(), in, "write.mjs", e.address)

		want := append(append(append(corners(), corners()...), corners()...), corners()...)
		records := e.records(t)
		equalMessages(t, want, records)
		n := len(corners())
		require.Equal(t, printed, ids(append(append([]codec.Record{}, records[:2*n]...), records[3*n:]...)))
		require.Equal(t, n-1, records[2*n-1].Position.Index, "one entry")
		for i := 1; i < len(records); i++ {
			require.Less(t, records[i-1].ID.String(), records[i].ID.String())
		}
		require.Equal(t, linesOf(records), linesOf(e.groupReads(t, len(want))))
	})
}

// TestWriteCopies: what read.mjs prints write.mjs takes.
func TestWriteCopies(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	from, to := newSite(t, s), newSite(t, s)
	_, err := from.writer(t, 4).AppendBatch(t.Context(), corners())
	require.NoError(t, err)
	runOK(t, s.URL(), runOK(t, s.URL(), "", "read.mjs", from.address), "write.mjs", to.address)
	equalMessages(t, corners(), to.records(t))
}

// TestWriteAboveATopAhead: entries of another program may stand in the future, at the end of their millisecond too. Our
// ids go on above them, and a plain XADD after a full pack still gets an id.
func TestWriteAboveATopAhead(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		e := newSite(t, s)
		ahead := time.Now().Add(time.Hour).UnixMilli()
		plain, err := codec.AppendMessage(nil, &codec.Message{Type: "plain"})
		require.NoError(t, err)
		e.xadd(t, fmt.Sprintf("%d-4093", ahead), "m", string(plain))
		one := input(t, []codec.Message{{Type: "a"}})
		runOK(t, s.URL(), one, "write.mjs", e.address)                                 // 4094
		runOK(t, s.URL(), one, "write.mjs", e.address)                                 // the next millisecond
		runOK(t, s.URL(), strings.Repeat(one, 4095), "write.mjs", "--pack", e.address) // the whole of one
		e.xadd(t, "*", "m", string(plain))                                             // the sequence that was left free
		runOK(t, s.URL(), one, "write.mjs", e.address)
		runOK(t, s.URL(), strings.Repeat(one, 3), "write.mjs", "--pack", e.address)
		_, err = e.writer(t, 2).AppendBatch(t.Context(), []codec.Message{{}, {}, {}})
		require.NoError(t, err)

		records := e.records(t)
		require.Len(t, records, 1+1+1+4095+1+1+3+3)
		require.Equal(t, codec.EntryID{Ms: uint64(ahead), Seq: 4094}, records[1].Addr)
		require.Equal(t, codec.EntryID{Ms: uint64(ahead) + 1, Seq: 0}, records[2].Addr)
		require.Equal(t, codec.EntryID{Ms: uint64(ahead) + 2, Seq: 0}, records[3].Addr)
		require.Equal(t, codec.EntryID{Ms: uint64(ahead) + 2, Seq: 4095}, records[3+4095].Addr)
		for i := 1; i < len(records); i++ {
			require.False(t, records[i].Foreign(), records[i].Position)
			require.Less(t, records[i-1].ID.String(), records[i].ID.String())
		}
	})
}

// TestWriteRefuses before anything is written, and says which line it was.
func TestWriteRefuses(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	e := newSite(t, s)
	tests := []struct{ name, input, want string }{
		{"no JSON", "{", "line 1: "},
		{"no object", "[]", "line 1: want an object"},
		{"a foreign entry", `{"id":null,"position":"1-1","fields":[["a","b"]]}`, "line 1: a foreign or undecodable entry"},
		{"a long type", `{"type":"` + strings.Repeat("t", 256) + `"}`, "line 1: type: 256 bytes, at most 255"},
		{"a long key", `{"key":"` + strings.Repeat("k", 1025) + `"}`, "line 1: key: 1025 bytes, at most 1024"},
		{"a header twice", `{"headers":[["a","1"],["a","2"]]}`, "line 1: a header twice"},
		{"a long header", `{"headers":{"` + strings.Repeat("h", 256) + `":""}}`, "line 1: header: 256 bytes"},
		{"a long value", `{"headers":{"h":"` + strings.Repeat("v", 8193) + `"}}`, "line 1: header: 8193 bytes"},
		{"many headers", `{"headers":[` + strings.Repeat(`["h",""],`, 64) + `["i",""]]}`, "line 1: 65 headers, at most 64"},
		{"data that is a number", `{"data":1}`, "line 1: data: want a string"},
		{"msgpack that is none", `{"data":{"base64":"wcE="},"format":"msgpack"}`, "line 1: not msgpack"},
		{"msgpack and more", `{"data":{"base64":"wMA="},"format":"msgpack"}`, "line 1: bytes after"},
		{"no msgpack", `{"format":"msgpack"}`, "line 1: "},
		{"a large message", `{"data":"` + strings.Repeat("x", 8<<20) + `"}`, "line 1: 8388"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, err := run(t, s.URL(), tt.input+"\n", "write.mjs", e.address)
			require.Error(t, err)
			require.Empty(t, out)
			require.Contains(t, errs, tt.want)
			require.NotContains(t, errs, "may or may not")
		})
	}
	t.Run("a pack with one bad line is not written at all", func(t *testing.T) {
		_, errs, err := run(t, s.URL(), "{}\n{}\n[]\n", "write.mjs", "--pack", e.address)
		require.Error(t, err)
		require.Contains(t, errs, "line 3: want an object")
	})
	t.Run("nobody declared it", func(t *testing.T) {
		_, errs, err := run(t, s.URL(), "{}\n", "write.mjs", e.address+"x")
		require.Error(t, err)
		require.Contains(t, errs, "nobody has declared the stream")
	})
	require.Empty(t, e.records(t))

	e.declare(t, string(e.identity.Brand)+tier.ExclusiveMark)
	_, errs, err := run(t, s.URL(), "{}\n", "write.mjs", e.address)
	require.Error(t, err)
	require.Contains(t, errs, "the stream is exclusive")
	e.declare(t, tier.GoneMark+string(e.identity.Brand))
	_, errs, err = run(t, s.URL(), "{}\n", "write.mjs", e.address)
	require.Error(t, err)
	require.Contains(t, errs, "the stream was removed")
}

// TestWriteTellsOfALostReply: there is no producer key, so the program does not send again.
func TestWriteTellsOfALostReply(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	e := newSite(t, s)
	proxy := tiertest.NewProxy(t, s)
	proxy.DropNextReply(func(cmd []string) bool { return cmd[0] == "EVAL" })
	out, errs, err := run(t, proxy.URL(), "{}\n{}\n", "write.mjs", e.address)
	require.Error(t, err)
	require.Empty(t, out)
	require.Contains(t, errs, "line 1: ")
	require.Contains(t, errs, "it may or may not stand in the stream")
	require.Len(t, e.records(t), 1)
}
