package stream_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func (f *fixture) snapshots() *stream.Snapshots {
	f.t.Helper()
	s, err := stream.NewSnapshots(f.client, f.address, "balances.1")
	require.NoError(f.t, err)
	return s
}

// keep keeps a snapshot at a record, whose state is the text of its address.
func (f *fixture) keep(r codec.Record) bool {
	f.t.Helper()
	kept, err := f.snapshots().Keep(f.ctx, stream.Snapshot{At: r.Addr, Entry: r.Position.Entry, State: []byte(r.Addr.String())})
	require.NoError(f.t, err)
	return kept
}

// TestSnapshotsAreTheNewest: whoever keeps one, and in whatever order, the newest stays; the same again is kept; ids are compared
// as numbers. It goes with its stream.
func TestSnapshotsAreTheNewest(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		none, err := f.snapshots().Load(f.ctx)
		require.NoError(t, err)
		require.Zero(t, none)
		f.append(f.writer(stream.WriterConfig{}), 12)
		all := f.all()
		for _, step := range []struct {
			at   int
			kept bool
		}{{2, true}, {1, false}, {10, true}, {9, false}, {10, true}, {11, true}, {0, false}} {
			require.Equal(t, step.kept, f.keep(all[step.at]), step.at)
			have, err := f.snapshots().Load(f.ctx)
			require.NoError(t, err)
			require.Equal(t, string(have.State), have.At.String())
			require.GreaterOrEqual(t, have.At.Compare(all[step.at].Addr), 0)
			require.Equal(t, step.kept, have.At == all[step.at].Addr)
		}
		_, err = f.snapshots().Keep(f.ctx, stream.Snapshot{At: all[0].Addr, Entry: all[0].Addr, State: make([]byte, stream.MaxSnapshot+1)})
		var large *stream.TooLargeError
		require.ErrorAs(t, err, &large)
		require.NoError(t, f.snapshots().Delete(f.ctx))
		none, err = f.snapshots().Load(f.ctx)
		require.NoError(t, err)
		require.Zero(t, none)
		require.True(t, f.keep(all[3]))
		_, err = stream.Remove(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Empty(t, f.below())
		require.False(t, f.keep(all[11]), "of a log that is gone")
		f.append(f.writer(stream.WriterConfig{}), 1)
		require.False(t, f.keep(all[11]), "of another log")
	})
}

// TestLargestSnapshot: what is allowed goes through the server.
func TestLargestSnapshot(t *testing.T) {
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 1)
	r := f.all()[0]
	kept, err := f.snapshots().Keep(f.ctx, stream.Snapshot{At: r.Addr, Entry: r.Position.Entry, State: make([]byte, stream.MaxSnapshot)})
	require.NoError(t, err)
	require.True(t, kept)
	have, err := f.snapshots().Load(f.ctx)
	require.NoError(t, err)
	require.Len(t, have.State, stream.MaxSnapshot)
}

// TestBadSnapshots: what is none is told apart from none.
func TestBadSnapshots(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 1)
	key := f.addr().FoldKey("balances.1")
	for name, spoil := range map[string]func(){
		"another type":      func() { f.do("DEL", key); f.do("SET", key, "x") },
		"no place":          func() { f.do("HDEL", key, "at") },
		"zero":              func() { f.do("HSET", key, "at", "0-0") },
		"no entry":          func() { f.do("HSET", key, "entry", "x") },
		"behind its entry":  func() { f.do("HSET", key, "entry", "1-1") },
		"counts with words": func() { f.do("HSET", key, "added", "some") },
	} {
		f.do("DEL", key)
		require.True(t, f.keep(f.all()[0]), name)
		spoil()
		_, err := f.snapshots().Load(f.ctx)
		require.ErrorIs(t, err, stream.ErrBadSnapshot, name)
	}
}

// resumed is what Resume yields from the snapshot, up to a record; or its error.
func (f *fixture) resumed(upTo codec.EntryID) (got []codec.EntryID, err error) {
	f.t.Helper()
	snapshot, err := f.snapshots().Load(f.ctx)
	require.NoError(f.t, err)
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	for r, err := range f.reader().Resume(ctx, snapshot) {
		if err != nil {
			return got, err
		}
		if got = append(got, r.Addr); r.Addr == upTo {
			break
		}
	}
	return got, nil
}

// TestResume: what was not folded is yielded, all of it, once, from within a pack too; or it is an error, and nothing is yielded.
func TestResume(t *testing.T) {
	cut := func(f *fixture, entries int) { f.do("XTRIM", f.log(), "MAXLEN", strconv.Itoa(entries)) }
	tests := []struct {
		name string
		pack int
		at   int // the snapshot, of 12 messages
		do   func(f *fixture)
		gone bool
		lost bool
	}{
		{name: "all is there", at: 4},
		{name: "the newest", at: 11},
		{name: "inside a pack", at: 4, pack: 3},
		{name: "at the end of a pack", at: 5, pack: 3},
		{name: "trimmed up to it", at: 4, do: func(f *fixture) { cut(f, 8+1) }}, // of 13, with the one to come
		{name: "trimmed with it: nobody can tell", at: 4, do: func(f *fixture) { cut(f, 8) }, gone: true},
		{name: "the newest, trimmed", at: 11, do: func(f *fixture) { cut(f, 1) }},
		{name: "the newest, and all trimmed", at: 11, do: func(f *fixture) { cut(f, 0) }, gone: true},
		{name: "trimmed behind it", at: 4, do: func(f *fixture) { cut(f, 5) }, gone: true},
		{name: "a pack trimmed that it is inside of", at: 4, pack: 3, do: func(f *fixture) { cut(f, 2) }, gone: true},
		{name: "another log", at: 4, do: (*fixture).remake, gone: true, lost: true},
		{name: "another log after the newest", at: 11, do: (*fixture).remake, gone: true, lost: true},
	}
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, tt := range tests {
			t.Run(string(kind)+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				f := setUp(t, tiertest.Shared(t, kind))
				w := f.writer(stream.WriterConfig{Pack: tt.pack, Brand: "ORD"})
				for range 4 {
					f.append(w, 3)
				}
				all := f.all()
				require.True(t, f.keep(all[tt.at]))
				last := f.append(w, 1)[0].ServerEntry()
				if tt.do != nil {
					tt.do(f)
				}
				got, err := f.resumed(last)
				if tt.gone {
					var trimmed *stream.TrimmedError
					require.ErrorAs(t, err, &trimmed)
					require.Equal(t, tt.lost, trimmed.Lost)
					require.Empty(t, got)
					return
				}
				require.NoError(t, err)
				var want []codec.EntryID
				for _, r := range all[tt.at+1:] {
					want = append(want, r.Addr)
				}
				require.Equal(t, append(want, last), got)
			})
		}
	}
}

// remake puts another log in the place of this one, and leaves the rest.
func (f *fixture) remake() {
	f.do("DEL", f.log())
	f.append(f.writer(stream.WriterConfig{}), 2)
}

// TestUnreadAge: the oldest entry above an address, by the server's clock.
func TestUnreadAge(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.do("XADD", f.log(), strconv.FormatInt(f.now().Add(-time.Hour).UnixMilli(), 10)+"-1", "a", "b")
	id := f.append(f.writer(stream.WriterConfig{}), 1)[0].ServerEntry()
	for at, want := range map[codec.EntryID]time.Duration{{}: time.Hour, id.Prev(): 0, id: 0} {
		age, err := f.reader().UnreadAge(f.ctx, at)
		require.NoError(t, err)
		require.InDelta(t, want, age, float64(10*time.Second))
	}
}
