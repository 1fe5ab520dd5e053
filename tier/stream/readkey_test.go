package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// byKey reads a key: "version:number" of each message, as messages counts them.
func (f *fixture) byKey(key string, from uint64) (rows []string, err error) {
	f.t.Helper()
	for v, err := range f.reader().ReadKey(f.ctx, key, from) {
		if err != nil {
			return rows, err
		}
		require.Equal(f.t, key, v.Key)
		rows = append(rows, fmt.Sprintf("%d:%d", v.Version, int(v.Data[0])<<8|int(v.Data[1])))
	}
	return rows, nil
}

// TestReadKey: a key's messages, in order, from any version, over pages; of a new key and beyond the newest there are none.
func TestReadKey(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.keyedWriter()
		var want []string
		keys := make([]string, 1500)
		for i := range keys {
			if keys[i] = "a"; i%2 == 1 {
				keys[i] = "b{}: \x00"
				want = append(want, fmt.Sprintf("%d:%d", len(want)+1, i))
			}
		}
		_, err := w.AppendBatch(f.ctx, keyedMessages(keys...))
		require.NoError(t, err)
		for from, n := range map[uint64]int{0: 750, 1: 750, 2: 749, 256: 495, 257: 494, 750: 1, 751: 0, 1e9: 0} {
			got, err := f.byKey(keys[1], from)
			require.NoError(t, err)
			require.Len(t, got, n, "from %d", from)
			requireSame(t, want[len(want)-n:], got)
		}
		got, err := f.byKey("new", 0)
		require.NoError(t, err)
		require.Empty(t, got)
		all := f.all()
		for key, n := range map[string]uint64{"a": 750, keys[1]: 750, "new": 0} {
			version, err := f.reader().Version(f.ctx, key)
			require.NoError(t, err)
			require.Equal(t, n, version)
		}
		at, err := f.reader().VersionAt(f.ctx, "a", 2)
		require.NoError(t, err)
		require.Equal(t, all[2].Addr, at)
		_, err = f.reader().VersionAt(f.ctx, "a", 751)
		require.ErrorIs(t, err, stream.ErrNotFound)
	})
}

// TestReadKeyOfLargeMessages: a page ends with the message that passes its bytes, and nothing is left out.
func TestReadKeyOfLargeMessages(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.keyedWriter()
	for i := range 30 {
		_, err := w.Append(f.ctx, codec.Message{Key: "a", Data: []byte(strings.Repeat(string([]byte{0, byte(i)}), 100_000))})
		require.NoError(t, err)
	}
	got, err := f.byKey("a", 0)
	require.NoError(t, err)
	require.Len(t, got, 30)
	require.Equal(t, "30:29", got[29])
}

// TestReadKeyTrimmed: what is gone ends the read with what is left, wherever it is missing, and never ends it short in
// silence; versions go on as if nothing were gone.
func TestReadKeyTrimmed(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.keyedWriter()
		_, err := w.AppendBatch(f.ctx, keyedMessages("a", "b", "a", "b", "a", "b", "a", "b")) // a: 1:0 2:2 3:4 4:6
		require.NoError(t, err)
		all := f.all()
		requireTrimmed := func(from, missing, first uint64, before ...string) {
			t.Helper()
			got, err := f.byKey("a", from)
			var trimmed *stream.KeyTrimmedError
			require.ErrorAs(t, err, &trimmed)
			require.ErrorIs(t, err, stream.ErrTrimmed)
			require.Equal(t, stream.KeyTrimmedError{Stream: f.address, Key: "a", Version: missing, First: first}, *trimmed)
			require.Equal(t, before, got)
		}
		f.do("XDEL", f.log(), all[4].Addr.String()) // a hole: version 3
		requireTrimmed(1, 3, 4, "1:0", "2:2")
		requireTrimmed(3, 3, 4)
		f.do("XTRIM", f.log(), "MINID", all[5].Addr.String())
		requireTrimmed(0, 1, 4)
		requireTrimmed(2, 2, 4)
		got, err := f.byKey("a", 4)
		require.NoError(t, err)
		require.Equal(t, []string{"4:6"}, got)
		f.do("ZREMRANGEBYRANK", f.addr().IndexKey("a"), "0", "1") // the index was cut, too
		requireTrimmed(1, 1, 4)

		_, err = stream.Purge(f.ctx, f.client, f.address)
		require.NoError(t, err)
		requireTrimmed(4, 4, 0)
		version, err := f.reader().Version(f.ctx, "a")
		require.NoError(t, err)
		require.EqualValues(t, 4, version)
		_, err = w.AppendIf(f.ctx, keyedMessages("a"), stream.ExpectVersion("a", 4))
		require.NoError(t, err)
		requireTrimmed(4, 4, 5)
		at, err := f.reader().VersionAt(f.ctx, "a", 4)
		require.NoError(t, err)
		require.Equal(t, all[6].Addr, at)
	})
}

// TestReadKeyIsRefused: of what has no versions, with the reason.
func TestReadKeyIsRefused(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	_, err := f.byKey("a", 0)
	require.ErrorIs(t, err, stream.ErrNoStream)
	f.append(f.writer(stream.WriterConfig{}), 1)
	_, err = f.byKey("k", 0)
	require.ErrorIs(t, err, stream.ErrNotKeyed)
	_, err = f.reader().Version(f.ctx, "k")
	require.ErrorIs(t, err, stream.ErrNotKeyed)
	for _, key := range []string{"", strings.Repeat("k", codec.MaxKey+1)} {
		_, err = f.byKey(key, 0)
		require.ErrorIs(t, err, stream.ErrBadCall)
	}
}

// TestReadKeyThatIsLost: a log that goes between two pages ends the read with an error.
func TestReadKeyThatIsLost(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){
		"removed": func(f *fixture) {
			_, err := stream.Remove(f.ctx, f.client, f.address)
			require.NoError(f.t, err)
		},
		"deleted": func(f *fixture) { f.do("DEL", f.log(), f.addr().IndexKey("a")) },
		"trimmed": func(f *fixture) { f.do("XTRIM", f.log(), "MAXLEN", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
			_, err := f.keyedWriter().AppendBatch(f.ctx, keyedMessages(slices.Repeat([]string{"a"}, 600)...))
			require.NoError(t, err)
			n := 0
			for v, readErr := range f.reader().ReadKey(f.ctx, "a", 0) {
				if n++; n == 256 {
					require.EqualValues(t, 256, v.Version)
					lose(f)
				}
				err = readErr
			}
			require.Equal(t, 257, n)
			require.Equal(t, name == "removed", errors.Is(err, stream.ErrStreamRemoved))
			require.True(t, name == "removed" || errors.Is(err, stream.ErrTrimmed), "%v", err)
		})
	}
}

// TestReaderUpcasts: whichever way records are read, they come as the newest version of their type; one that a rule fails on is
// undecodable.
func TestReaderUpcasts(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.keyedWriter()
	ids, err := w.AppendBatch(f.ctx, []codec.Message{{Type: "v1", Key: "a"}, {Type: "bad", Key: "a"}, {Type: "v2", Key: "a"}})
	require.NoError(t, err)
	bad := errors.New("no amount")
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.address, Upcasts: codec.Upcasts{
		"v1":  func(m *codec.Message) error { m.Type = "v2"; return nil },
		"bad": func(*codec.Message) error { return bad },
	}})
	require.NoError(t, err)
	check := func(records []codec.Record, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Len(t, records, 3)
		require.Equal(t, ids, idsOf(records))
		require.Equal(t, "v2", records[0].Type)
		require.ErrorIs(t, records[1].Err, bad)
		require.Equal(t, "m", records[1].Fields[0])
		require.Equal(t, "v2", records[2].Type)
	}
	check(collected(r.Range(f.ctx, codec.EntryID{}, codec.MaxEntryID)))
	check(r.Last(f.ctx, 3))
	var byKey []codec.Record
	for v, err := range r.ReadKey(f.ctx, "a", 0) {
		require.NoError(t, err)
		byKey = append(byKey, v.Record)
	}
	check(byKey, nil)
	first, err := r.Get(f.ctx, ids[0])
	require.NoError(t, err)
	require.Equal(t, "v2", first.Type)
	for record, err := range r.Tail(f.ctx, codec.EntryID{}) {
		require.NoError(t, err)
		require.Equal(t, "v2", record.Type)
		break
	}
}

// TestRemoveKeyed: with the stream go the versions of its keys; one that is made anew begins at version 1.
func TestRemoveKeyed(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		_, err := f.keyedWriter().AppendBatch(f.ctx, keyedMessages("a", "b:c", "a"))
		require.NoError(t, err)
		f.do("SET", f.addr().SnapshotKey("a"), "x")
		gone, err := stream.Remove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Equal(t, 2, gone.Keys)
		require.Empty(t, f.below())
		_, err = f.reader().Version(f.ctx, "a")
		require.ErrorIs(t, err, stream.ErrStreamRemoved)
		_, err = f.keyedWriter().AppendIf(f.ctx, keyedMessages("a"), stream.ExpectVersion("a", 0))
		require.NoError(t, err)
	})
}

// TestCheckIndexes: an index that lacks a version, holds another type, or outlives its log is found.
func TestCheckIndexes(t *testing.T) {
	for name, spoil := range map[string]func(f *fixture, index string){
		"a version is missing":     func(f *fixture, index string) { f.do("ZREMRANGEBYSCORE", index, "2", "2") },
		"a version is none":        func(f *fixture, index string) { f.do("ZADD", index, "0", "0-1") },
		"an address is none":       func(f *fixture, index string) { f.do("ZADD", index, "4", "x") },
		"the log was deleted":      func(f *fixture, index string) { f.do("DEL", f.log()) },
		"an index of another type": func(f *fixture, index string) { f.do("DEL", index); f.do("SET", index, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t, tiertest.Private(t, tiertest.Valkey))
			_, err := f.keyedWriter().AppendBatch(f.ctx, keyedMessages("a", "a", "b", "a"))
			require.NoError(t, err)
			f.do("XTRIM", f.log(), "MAXLEN", "0")
			require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
			spoil(f, f.addr().IndexKey("a"))
			require.Contains(t, findings(t, stream.Check(f.ctx, f.client, f.addr().Scope)), f.addr().IndexKey("a"))
			f.do("DEL", f.log(), f.addr().IndexKey("a"), f.addr().IndexKey("b")) // the audit that ends the test
		})
	}
}
