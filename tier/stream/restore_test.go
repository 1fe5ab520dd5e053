package stream_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// whole are the entries of the log.
func (f *fixture) whole() (list []codec.Entry) {
	f.t.Helper()
	m := f.do("XRANGE", f.log(), "-", "+")
	found, err := m.AsXRangeSlices()
	require.NoError(f.t, err)
	for _, e := range found {
		entry := codec.Entry{ID: entryID(f.t, e.ID)}
		for _, field := range e.FieldValues {
			entry.Fields = append(entry.Fields, field.Field, field.Value)
		}
		list = append(list, entry)
	}
	return list
}

// lost is a log that has lost its three entries, with a group that was given none.
func (f *fixture) lost() (*stream.Restoration, []codec.Entry) {
	f.t.Helper()
	f.logged(3)
	require.NoError(f.t, f.group("mailer", stream.Head(), lease).Create(f.ctx))
	entries := f.whole()
	f.do("XTRIM", f.log(), "MAXLEN", "0")
	return f.restoration(f.client), entries
}

func (f *fixture) restoration(client *tier.Client) *stream.Restoration {
	f.t.Helper()
	r, err := stream.NewRestoration(f.ctx, client, f.address)
	require.NoError(f.t, err)
	return r
}

func (f *fixture) restoring() string {
	return fmt.Sprintf("%s in the log, %s beside it", f.length(), f.text("XLEN", f.addr().RestoreKey()))
}

// restoreWork restores a stream that the server does not know, and then the log's end.
func restoreWork(f *fixture, client *tier.Client) error {
	f.logged(3)
	entries := f.whole()
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.address})
	require.NoError(f.t, err)
	identity, err := r.Identity(f.ctx)
	require.NoError(f.t, err)
	f.do("DEL", f.log(), tier.ScopeKey(f.addr().Scope))
	for _, then := range [][]string{ // what the next finds: the log's beginning, and then only a group
		{"XADD", f.log(), entries[0].ID.String(), entries[0].Fields[0], entries[0].Fields[1]}, {"XGROUP", "CREATE", f.log(), "g", "0", "MKSTREAM"}, {"EXISTS", f.log()},
	} {
		to, err := stream.NewRestoration(f.ctx, client, f.address)
		if err != nil {
			return err
		}
		before := f.length()
		err = errors.Join(to.Discard(f.ctx), to.Declare(f.ctx, identity))
		if err == nil {
			err = to.Stage(f.ctx, entries[2:])
		}
		if err == nil {
			err = to.Place(f.ctx)
		}
		if err != nil {
			require.Equal(f.t, before, f.length(), "a refusal has restored")
			return err
		}
		f.do("DEL", f.log())
		f.do(then[0], then[1:]...)
	}
	return nil
}

// TestRestoreBetween: entries go behind the newest, in slices, and the log gives the ids that it would have given; with another id given
// meanwhile, none goes. A group is where it was.
func TestRestoreBetween(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Redis))
	f.logged(1300)
	all := f.whole()
	f.do("XGROUP", "CREATE", f.log(), "g", all[9].ID.String())
	del := []string{f.log()}
	for _, e := range all[10:] {
		del = append(del, e.ID.String())
	}
	f.do("XDEL", del...)
	top := f.top()
	r := f.restoration(f.client)
	require.NoError(t, r.Stage(f.ctx, all[10:]))
	require.NoError(t, r.Place(f.ctx))
	require.NoError(t, r.Place(f.ctx), "again, it does nothing")
	require.Equal(t, all, f.whole())
	require.Equal(t, top, f.top())
	require.Equal(t, "0", f.text("EXISTS", f.addr().RestoreKey()))

	f.do("XDEL", f.log(), all[1299].ID.String())
	r = f.restoration(f.client)
	require.NoError(t, r.Stage(f.ctx, all[1299:]))
	f.logged(1)
	require.ErrorIs(t, r.Place(f.ctx), stream.ErrRestoreMoved)
	require.ErrorIs(t, f.restoration(f.client).Place(f.ctx), stream.ErrRestoreMoved, "what is staged lies below the newest")
	require.Equal(t, "1300", f.length())
	require.ErrorIs(t, r.Stage(f.ctx, []codec.Entry{{ID: all[1299].ID.Next(), Fields: make([]string, 4001)}}), stream.ErrRestoreLarge)
	stale := f.restoration(f.client)
	require.NoError(t, r.Discard(f.ctx))
	require.ErrorIs(t, stale.Stage(f.ctx, []codec.Entry{{ID: all[1299].ID.Next(), Fields: []string{"a", "b"}}}), stream.ErrRestoreMoved)
}

// TestRestoreOfALogThatIsBehind: one that a failover has set back goes on above what comes back to it; with an id given meanwhile none does,
// though its entry has gone again.
func TestRestoreOfALogThatIsBehind(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.logged(5)
	all := f.whole()
	f.do("DEL", f.log())
	for _, e := range all[:2] {
		f.do("XADD", append([]string{f.log(), e.ID.String()}, e.Fields...)...)
	}
	r := f.restoration(f.client)
	require.NoError(t, r.Stage(f.ctx, all[2:]))
	id := f.logged(1)[0]
	f.do("XDEL", f.log(), id.String())
	require.ErrorIs(t, r.Place(f.ctx), stream.ErrRestoreMoved)
	require.Equal(t, "2", f.length())
	f.do("DEL", f.log())
	for _, e := range all[:2] {
		f.do("XADD", append([]string{f.log(), e.ID.String()}, e.Fields...)...)
	}
	ahead := codec.CeilEntry(f.now().Add(time.Hour))
	f.do("HSET", tier.ScopeKey(f.addr().Scope), tier.TopField("orders"), ahead.String())
	r = f.restoration(f.client)
	require.NoError(t, r.Place(f.ctx))
	require.Equal(t, all, f.whole())
	require.Equal(t, ahead, entryID(t, f.top()))
}

// top is the last id that the log has given.
func (f *fixture) top() string {
	f.t.Helper()
	m := f.do("XINFO", "STREAM", f.log())
	info, err := m.AsMap()
	require.NoError(f.t, err)
	id := info["last-generated-id"]
	text, err := id.ToString()
	require.NoError(f.t, err)
	return text
}

// TestRestoreAHealedLog: a log that is gone, and that a group has made again, empty, gets its entries back, and gives ids above all that
// were ahead of the clock, and above the clock.
func TestRestoreAHealedLog(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
			f.logged(3)
			entries := f.whole()
			given := codec.CeilEntry(f.now().Add(ahead))
			f.do("HSET", tier.ScopeKey(f.addr().Scope), tier.TopField("orders"), given.String())
			f.do("DEL", f.log())
			require.NoError(t, f.group("mailer", stream.Head(), lease).Create(f.ctx))
			r := f.restoration(f.client)
			require.NoError(t, r.Stage(f.ctx, entries))
			now := f.now()
			require.NoError(t, r.Place(f.ctx))
			require.Equal(t, entries, f.whole())
			require.Equal(t, "-1", f.text("TTL", f.log()), "it is not for a day only")
			top := entryID(t, f.top())
			require.Positive(t, top.Compare(codec.FloorEntry(now)), "an id that may have been given")
			require.GreaterOrEqual(t, top.Compare(given), 0, "an id that was given")
		})
	}
}

// TestRestoreKeepsCounts: what a restored log says of itself is what it said before it lost its entries, and of its groups, so that
// no reader and no lag takes it for another; in slices, what comes back is counted as added.
func TestRestoreKeepsCounts(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	ids := f.logged(5)
	f.do("XDEL", f.log(), ids[1].String())
	entries := f.whole()
	f.do("XTRIM", f.log(), "MINID", ids[2].String())
	f.do("XGROUP", "CREATE", f.log(), "g", ids[2].String(), "ENTRIESREAD", "3")
	said := func(names ...string) (said []string) {
		m := f.do("XINFO", "STREAM", f.log())
		info, err := m.AsMap()
		require.NoError(t, err)
		m = f.do("XINFO", "GROUPS", f.log())
		groups, err := m.ToArray()
		require.NoError(t, err)
		group, err := groups[0].AsMap()
		require.NoError(t, err)
		maps.Copy(info, group)
		for _, name := range names {
			value := info[name]
			said = append(said, value.String())
		}
		return said
	}
	all := []string{"entries-added", "max-deleted-entry-id", "last-generated-id", "last-delivered-id", "entries-read"}
	f.do("XTRIM", f.log(), "MAXLEN", "0")
	before := said(all...)
	restore := func(entries []codec.Entry) {
		t.Helper()
		r := f.restoration(f.client)
		require.NoError(t, r.Stage(f.ctx, entries))
		require.NoError(t, r.Place(f.ctx))
	}
	restore(entries[1:])
	require.Equal(t, entries[1:], f.whole())
	require.Equal(t, before, said(all...))

	f.do("XDEL", f.log(), ids[4].String())
	before = said(all[1:]...)
	restore(entries[3:])
	require.Equal(t, entries[1:], f.whole())
	require.Equal(t, before, said(all[1:]...))
	m := f.do("XINFO", "STREAM", f.log())
	info, err := m.AsMap()
	require.NoError(t, err)
	added := info["entries-added"]
	n, err := added.AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 6, n)
}

// TestRestoreTwoAtOnce: what another has staged is not taken for one's own, and a restoration that an append has overtaken says
// how far it got.
func TestRestoreTwoAtOnce(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	r, entries := f.lost()
	require.NoError(t, r.Stage(f.ctx, entries))
	other := f.restoration(f.client)
	require.NoError(t, other.Discard(f.ctx))
	require.NoError(t, other.Stage(f.ctx, entries[1:]))
	require.ErrorIs(t, r.Place(f.ctx), stream.ErrRestoreMoved)
	require.Equal(t, "0", f.length())
	require.NoError(t, other.Place(f.ctx))
	require.Equal(t, entries[1:], f.whole())

	f = setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.logged(1200)
	all := f.whole()
	for _, e := range all[100:] {
		f.do("XDEL", f.log(), e.ID.String())
	}
	r = f.restoration(f.client)
	require.NoError(t, r.Stage(f.ctx, all[100:]))
	more, err := r.PlaceSlice(f.ctx)
	require.NoError(t, err)
	require.True(t, more)
	f.logged(1)
	err = r.Place(f.ctx)
	require.ErrorIs(t, err, stream.ErrRestoreMoved)
	require.ErrorContains(t, err, "entries up to "+all[599].ID.String()+" are back")
}
