package retention_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// restorable are annals whose policy lets nothing go any more.
func restorable(t *testing.T, srv *tiertest.Server) *annals {
	a := newAnnals(t, srv)
	a.declare("orders", stream.Retention{Archive: "mem://store"})
	return a
}

func (a *annals) planned(cfg retention.RestoreConfig) (*retention.Restore, error) {
	a.t.Helper()
	archived, err := archive.NewReader(a.store, archive.ReaderConfig{Address: a.addr.String()})
	require.NoError(a.t, err)
	cfg.Address, cfg.Archive = a.addr.String(), archived
	return retention.PlanRestore(a.ctx, a.client, cfg)
}

// restores puts so many entries back.
func (a *annals) restores(entries int) {
	a.t.Helper()
	r, err := a.planned(retention.RestoreConfig{})
	require.NoError(a.t, err)
	require.EqualValues(a.t, entries, r.Entries)
	require.NoError(a.t, r.Run(a.ctx))
}

func (a *annals) live() []codec.Record {
	a.t.Helper()
	r, err := stream.NewReader(a.client, stream.ReaderConfig{Address: a.addr.String()})
	require.NoError(a.t, err)
	return a.collected(r.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID))
}

// TestRestore: what a log has lost stands in it again, each message as it was and once, whether all of it was lost, its end, or the
// stream; groups are given it, and ids go on above all that there were.
func TestRestore(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		a := restorable(t, srv)
		want := a.collected(a.reader.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID))
		m := a.member("orders", "g")
		entries := a.archivedEntries()
		a.restores(entries)
		require.Equal(t, want, a.live())
		a.restores(0)
		a.settles(m, entries)

		last := a.holdings("orders").Last
		for range 3 { // its end
			a.do("XDEL", a.addr.LogKey(), a.holdings("orders").Last.String())
		}
		a.restores(3)
		require.Equal(t, want, a.live())
		require.Equal(t, last, a.holdings("orders").Last)
		a.writes(1)
		more := a.live()
		require.Equal(t, want, more[:len(want)])
		require.Positive(t, more[len(want)].Addr.Compare(last))
		require.Empty(t, a.holdings("orders").Dropped)
	})
}

// archivedEntries is how many entries the archive has.
func (a *annals) archivedEntries() (n int) {
	a.t.Helper()
	r, err := archive.NewReader(a.store, archive.ReaderConfig{Address: a.addr.String()})
	require.NoError(a.t, err)
	for _, err := range r.Entries(a.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(a.t, err)
		n++
	}
	return n
}

// TestRestoreTheStream: of a server that knows nothing of the stream any more, with the ids that it had; what comes next is above them.
func TestRestoreTheStream(t *testing.T) {
	t.Parallel()
	a := restorable(t, tiertest.Shared(t, tiertest.Valkey))
	want := a.collected(a.reader.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID))
	_, err := stream.Remove(a.ctx, a.client, a.addr.String())
	require.NoError(t, err)
	a.do("DEL", tier.ScopeKey(a.scope))
	a.restores(a.archivedEntries())
	require.Equal(t, want, a.live())
	a.writes(2)
	require.Len(t, a.live(), len(want)+3)
}

// TestRestoreCutOff (B157): nobody sees a part of it, and it goes on behind what it did; an append meanwhile refuses it whole.
func TestRestoreCutOff(t *testing.T) {
	t.Parallel()
	a := restorable(t, tiertest.Shared(t, tiertest.Valkey))
	a.member("orders", "g")
	want := a.collected(a.reader.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID))
	for len(want) < 1500 {
		a.writes(1500)
		tier.Pause(a.ctx, 5*time.Millisecond)
		_, err := a.sweeper.Archive(a.ctx)
		require.NoError(t, err)
		a.do("XTRIM", a.addr.LogKey(), "MAXLEN", "0")
		want = a.collected(a.reader.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID))
	}
	archived, err := archive.NewReader(a.store, archive.ReaderConfig{Address: a.addr.String()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(a.ctx)
	calls, told := 0, int64(0)
	r, err := retention.PlanRestore(ctx, a.client, retention.RestoreConfig{Address: a.addr.String(), Archive: archived, Progress: func(int64) { cancel() }})
	require.NoError(t, err)
	require.ErrorIs(t, r.Run(ctx), context.Canceled)
	require.Zero(t, a.holdings("orders").Length)
	r, err = a.planned(retention.RestoreConfig{Progress: func(n int64) { calls, told = calls+1, n }})
	require.NoError(t, err)
	require.NoError(t, r.Run(a.ctx))
	require.Equal(t, r.Entries, told)
	require.Less(t, calls, int(r.Entries+499)/500, "all was staged anew")
	require.Equal(t, want, a.live())

	a.do("XTRIM", a.addr.LogKey(), "MAXLEN", "0")
	r, err = a.planned(retention.RestoreConfig{From: want[7].Position.Entry})
	require.NoError(t, err)
	a.append("orders", 1, 1)
	require.ErrorIs(t, r.Run(a.ctx), stream.ErrRestoreMoved)
	require.EqualValues(t, 1, a.holdings("orders").Length)
	a.restores(0) // and takes away what was beside the log
	keys, err := a.client.KeysBelow(a.ctx, a.addr.LogKey())
	require.NoError(t, err)
	require.NotContains(t, keys, a.addr.RestoreKey())

	a.do("XTRIM", a.addr.LogKey(), "MAXLEN", "0") // one that began elsewhere is not gone on with
	ctx, cancel = context.WithCancel(a.ctx)
	r, err = retention.PlanRestore(ctx, a.client, retention.RestoreConfig{Address: a.addr.String(), Archive: archived, From: want[7].Position.Entry, Progress: func(int64) { cancel() }})
	require.NoError(t, err)
	require.ErrorIs(t, r.Run(ctx), context.Canceled)
	r, err = a.planned(retention.RestoreConfig{})
	require.NoError(t, err)
	require.NoError(t, r.Run(a.ctx))
	require.Equal(t, want, a.live())
}

// TestRestoreRefuses: what would go at once, hide a gap, or get other ids, and what a group has not settled; nothing changes then.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	a := newAnnals(t, tiertest.Shared(t, tiertest.Valkey))
	for _, policy := range []stream.Retention{{Settled: true}, {MaxBytes: 1}, {MaxAge: time.Millisecond}, {MaxLength: 7}, {HardCap: 7}} {
		policy.Archive = "mem://store"
		a.declare("orders", policy)
		_, err := a.planned(retention.RestoreConfig{})
		var refused *retention.PolicyError
		require.ErrorAs(t, err, &refused, "%s", policy)
		require.Contains(t, policy.String(), refused.Word)
	}
	a.declare("orders", stream.Retention{Archive: "mem://store", MaxLength: 1e6, MaxAge: time.Hour})
	r, err := a.planned(retention.RestoreConfig{})
	require.NoError(t, err)
	a.declare("orders", stream.Retention{Archive: "mem://store"})
	require.ErrorIs(t, r.Run(a.ctx), stream.ErrPolicyChanged)
	require.Zero(t, a.holdings("orders").Length)

	m := a.member("orders", "g")
	a.append("orders", 1, 1)
	_, err = m.Read(a.ctx, 1, 0)
	require.NoError(t, err)
	a.do("XTRIM", a.addr.LogKey(), "MAXLEN", "0")
	r, err = a.planned(retention.RestoreConfig{})
	require.NoError(t, err)
	require.ErrorIs(t, r.Run(a.ctx), stream.ErrRestoreUnsettled)
	require.Zero(t, a.holdings("orders").Length)
	g, err := stream.NewGroup(a.client, stream.GroupConfig{Address: a.addr.String(), Name: "g", Start: stream.Head()})
	require.NoError(t, err)
	require.NoError(t, g.Delete(a.ctx))

	a.do("HSET", a.addr.RetentionKey(), tier.LostField, codec.CeilEntry(time.Now()).String())
	_, err = a.planned(retention.RestoreConfig{})
	require.ErrorIs(t, err, stream.ErrGap)
	a.do("HDEL", a.addr.RetentionKey(), tier.LostField)

	_, err = stream.Remove(a.ctx, a.client, a.addr.String())
	require.NoError(t, err)
	_, err = a.planned(retention.RestoreConfig{})
	require.ErrorIs(t, err, stream.ErrStreamRemoved)
	w, err := stream.NewWriter(a.client, stream.WriterConfig{Address: a.addr.String(), Keyed: true})
	require.NoError(t, err)
	_, err = w.Declare(a.ctx)
	require.NoError(t, err)
	_, err = a.planned(retention.RestoreConfig{})
	require.ErrorIs(t, err, stream.ErrRestoreKeyed)
	_, err = stream.Remove(a.ctx, a.client, a.addr.String())
	require.NoError(t, err)
	a.do("HDEL", tier.ScopeKey(a.scope), tier.StreamField("orders"), tier.BrandField("ORD"))
	w, err = stream.NewWriter(a.client, stream.WriterConfig{Address: a.addr.String(), Brand: "ZZZ"})
	require.NoError(t, err)
	_, err = w.Declare(a.ctx)
	require.NoError(t, err)
	r, err = a.planned(retention.RestoreConfig{})
	require.NoError(t, err)
	var other *stream.IdentityError
	require.ErrorAs(t, r.Run(a.ctx), &other)
	require.EqualValues(t, "ZZZ", other.Have.Brand)
}

// TestLast: the newest messages, however many of them lie in the archive.
func TestLast(t *testing.T) {
	t.Parallel()
	a := newAnnals(t, tiertest.Shared(t, tiertest.Valkey))
	for range 2 {
		all := a.collected(a.reader.Range(a.ctx, codec.EntryID{}, codec.MaxEntryID))
		for _, n := range []int{1, 2, 9, 10, 100, len(all), len(all) + 9} {
			last, err := a.reader.Last(a.ctx, n)
			require.NoError(t, err)
			require.Equal(t, all[max(0, len(all)-n):], last, "%d", n)
		}
		a.writes(4) // five of them in the log
	}
}

// TestRestoreOfWhatIsNotWhole: a gap between two segments refuses it before anything is staged, and so does a segment that gives
// fewer entries than the manifest counts before any goes back; above them, it goes.
func TestRestoreOfWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	a := restorable(t, tiertest.Shared(t, tiertest.Valkey))
	for range 2 {
		a.writes(10)
		tier.Pause(a.ctx, 5*time.Millisecond)
		_, err := a.sweeper.Archive(a.ctx)
		require.NoError(t, err)
		a.do("XTRIM", a.addr.LogKey(), "MAXLEN", "0")
	}
	archived, err := archive.NewReader(a.store, archive.ReaderConfig{Address: a.addr.String()})
	require.NoError(t, err)
	all, err := archived.Segments(a.ctx)
	require.NoError(t, err)
	require.Greater(t, len(all.List), 2)
	change := func(change func(segments []any)) {
		t.Helper()
		list, err := a.store.List(a.ctx, "scope="+a.scope+"/stream=orders/manifest/")
		require.NoError(t, err)
		newest := list[len(list)-1]
		text := make([]byte, newest.Bytes)
		_, err = a.store.ReadAt(a.ctx, newest.Name, text, 0)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(text, &m))
		change(m["segments"].([]any))
		text, err = json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, a.store.Delete(a.ctx, newest.Name))
		require.NoError(t, a.store.Create(a.ctx, newest.Name, bytes.NewReader(text), int64(len(text))))
	}
	change(func(s []any) { s[1].(map[string]any)["lost"] = all.List[1].First.String() })
	_, err = a.planned(retention.RestoreConfig{})
	require.ErrorIs(t, err, stream.ErrGap)
	keys, err := a.client.KeysBelow(a.ctx, a.addr.LogKey())
	require.NoError(t, err)
	require.NotContains(t, keys, a.addr.RestoreKey())

	entries := all.List[2].Entries
	change(func(s []any) { s[2].(map[string]any)["entries"] = entries + 1 })
	r, err := a.planned(retention.RestoreConfig{From: all.List[1].First})
	require.NoError(t, err)
	require.ErrorContains(t, r.Run(a.ctx), "says what is damaged")
	require.Zero(t, a.holdings("orders").Length)
	change(func(s []any) { s[2].(map[string]any)["entries"] = entries })
	r, err = a.planned(retention.RestoreConfig{From: all.List[1].First})
	require.NoError(t, err)
	require.NoError(t, r.Run(a.ctx))
	require.Equal(t, r.Entries, a.holdings("orders").Length)
}
