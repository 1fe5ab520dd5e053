package stream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// The scenarios of the original EchoMQ that are about the fence and the streams, by their numbers. "Same": the same
// verdict through our API. "Other witness": the verdict is shown by something else, and why.

// TestConformanceListed pins which of the 79 stand here, so that none is lost on the way.
func TestConformanceListed(t *testing.T) {
	var listed []int
	for _, s := range conformance {
		listed = append(listed, s.number)
	}
	require.Equal(t, []int{1, 74, 75, 76, 77, 79}, listed)
}

var conformance = []struct {
	number int
	name   string
	how    string
	run    func(t *testing.T, f *fixture)
}{
	{1, "fence", "same", conformFence},
	{74, "stream_verbs", "same; the pipeline is one batch", conformVerbs},
	{75, "stream_append", "same, by an exclusive writer; the brand of the stream is what it was declared with", conformAppend},
	{76, "stream_group", "same", conformGroup},
	{77, "stream_retention", "same by length; other witness by time: the place is where a group's work begins, since a policy knows ages only", conformRetention},
	{79, "stream_time_travel", "same; the entries are written past the writer, with ids of that day", conformTimeTravel},
}

// TestConformance runs them on every server.
func TestConformance(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, scenario := range conformance {
			t.Run(fmt.Sprintf("%d %s", scenario.number, scenario.name), func(t *testing.T) { scenario.run(t, setUp(t, s)) })
		}
	})
}

// 1: `{emq}:version` holds exactly the client's wire constant.
func conformFence(t *testing.T, f *fixture) {
	require.Equal(t, "echomq:3.0.0", f.text("GET", "{emq}:version"))
	require.Equal(t, tier.Wire, f.text("GET", tier.VersionKey))
}

// 74: an exact round trip; a read by a group, acknowledged once, and taken over; four in order in one pipeline; pushes
// disturb no replies.
func conformVerbs(t *testing.T, f *fixture) {
	want := codec.Message{Type: "created", Key: "k", Headers: codec.Headers{{Key: "h", Value: "\x00\xff"}}, Data: []byte("\r\n$5\r\n*1\r\n")}
	w := f.writer(stream.WriterConfig{Brand: "EVT"})
	id, err := w.Append(f.ctx, want)
	require.NoError(t, err)
	got, err := f.reader().Get(f.ctx, id)
	require.NoError(t, err)
	require.Equal(t, want, got.Message)

	g := f.group("g", stream.Head(), lease)
	me, other := f.join(g), f.join(g)
	leased := f.read(me, 1)
	require.Equal(t, want, leased[0].Records[0].Message)
	require.NoError(t, me.Release(f.ctx, returned(heldOf(leased)), 0))
	taken, err := other.TakeOver(f.ctx, 1, allSuspects)
	require.NoError(t, err)
	require.True(t, taken.Done)
	require.Empty(t, taken.Lost)
	require.Equal(t, want, taken.Leased[0].Records[0].Message)
	for _, n := range []int{1, 0} {
		acked, err := other.Settle(f.ctx, entriesOf(taken.Leased))
		require.NoError(t, err)
		require.Equal(t, n, acked)
	}

	ids := f.keyed(w, "1", "2", "3", "4")
	last, err := f.reader().Last(f.ctx, 4)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3", "4"}, keysOf(last))
	require.Equal(t, ids, idsOf(last))

	// Pushes of RESP3 beside the replies.
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	pushed := make(chan string, 100)
	subscribed := make(chan struct{})
	pushes, err := tiertest.Raw(f.server)
	require.NoError(t, err)
	defer pushes.Close()
	go func() {
		defer close(pushed)
		c, release := pushes.Dedicate()
		defer release()
		ended := c.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage:      func(m rueidis.PubSubMessage) { pushed <- m.Message },
			OnSubscription: func(rueidis.PubSubSubscription) { close(subscribed) },
		})
		c.Do(ctx, c.B().Subscribe().Channel(f.log()).Build())
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}()
	<-subscribed
	for i := range 5 {
		f.do("PUBLISH", f.log(), fmt.Sprint(i))
		f.keyed(w, fmt.Sprint("p", i))
		require.Equal(t, fmt.Sprint(i), <-pushed)
	}
	require.Equal(t, "p4", f.all()[9].Key)
}

// 75: five records are read back in mint order, which is sort order, with their payloads; an id of brand ORD is refused
// and the key stays absent; an id below the newest is nonmonotonic, and the log keeps its length of 1.
func conformAppend(t *testing.T, f *fixture) {
	_, err := f.exclusive(&scripted{"ORD000xY9Wvvcd"}, "EVT").Append(f.ctx, codec.Message{})
	require.ErrorIs(t, err, stream.ErrBadCall)
	require.Equal(t, "0", f.text("EXISTS", f.log()))

	m := f.mint()
	var minted []codec.ID
	w := f.exclusive(m, "EVT")
	for i := range 5 {
		id, err := w.Append(f.ctx, codec.Message{Key: fmt.Sprint(i)})
		require.NoError(t, err)
		minted = append(minted, id)
	}
	got := f.all()
	require.Equal(t, minted, idsOf(got))
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, keysOf(got))
	sorted := slices.Clone(minted)
	slices.SortFunc(sorted, func(a, b codec.ID) int { return strings.Compare(a.String(), b.String()) })
	require.Equal(t, minted, sorted)
	for i := range minted {
		require.Equal(t, codec.Brand("EVT"), minted[i].Brand())
		require.Equal(t, minted[i].HostEntry(), got[i].Addr)
	}

	f = f.at("events")
	older, err := m.Next("EVX")
	require.NoError(t, err)
	f.append(f.exclusive(m, "EVX"), 1)
	_, err = f.exclusive(&scripted{older.String()}, "EVX").Append(f.ctx, codec.Message{})
	require.ErrorIs(t, err, stream.ErrNonMonotonic)
	require.Equal(t, "1", f.length())
}

// 76: of two records read one is acknowledged; a take-over at once gives the other, by the same branded id, and not the
// acknowledged one.
func conformGroup(t *testing.T, f *fixture) {
	ids := f.append(f.writer(stream.WriterConfig{}), 2)
	g := f.group("g", stream.Head(), lease)
	me, other := f.join(g), f.join(g)
	leased := f.read(me, 2)
	n, err := me.Settle(f.ctx, entriesOf(leased[:1]))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, me.Release(f.ctx, returned(heldOf(leased[1:])), 0))
	taken, err := other.TakeOver(f.ctx, 10, allSuspects)
	require.NoError(t, err)
	require.Len(t, taken.Leased, 1)
	require.Equal(t, ids[1], taken.Leased[0].Records[0].ID)
}

// 77: a max length of two takes exactly four of six; a floor at 2025-03-01T12:00:00.500Z takes the three below it, keeps those
// at 0 to +2 ms, and is `<ms>-0`.
func conformRetention(t *testing.T, f *fixture) {
	ids := f.logged(6)
	sweep := f.sweeps(settled)
	require.EqualValues(t, 4, f.trim(sweep, settled, stream.Trim{Keep: 2, Exact: true}))
	require.Equal(t, ids[4:], f.entries())

	f = f.at("march")
	_, err := f.writer(stream.WriterConfig{}).Declare(f.ctx)
	require.NoError(t, err)
	t0 := time.Date(2025, 3, 1, 12, 0, 0, 500_000_000, time.UTC)
	for ms := -3; ms <= 2; ms++ {
		f.do("XADD", f.log(), codec.FloorEntry(t0.Add(time.Duration(ms)*time.Millisecond)).String(), "m", encoded(t, "k"))
	}
	f.reads("mailer", 6, 0, 1, 2)
	h, err := stream.HoldingsOf(f.ctx, f.client, f.address)
	require.NoError(t, err)
	floor, held := h.Floor()
	require.True(t, held)
	require.Equal(t, "1740830400500-0", floor.First.String())
	require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, settled))
	got, err := sweep.Trim(f.ctx, "march", settled, allOfThat)
	require.NoError(t, err)
	require.EqualValues(t, 3, got.Entries)
	require.Equal(t, []codec.EntryID{{Ms: 1740830400500}, {Ms: 1740830400501}, {Ms: 1740830400502}}, f.entries())
}

// 79: the window [09:00:00.000, .300] of 2025-05-01 equals the filtered full read and is a strict subset of it; its edges
// hold to the millisecond; and so for all since then.
func conformTimeTravel(t *testing.T, f *fixture) {
	identity, err := f.writer(stream.WriterConfig{Brand: "EVT"}).Declare(f.ctx)
	require.NoError(t, err)
	t0 := time.Date(2025, 5, 1, 9, 0, 0, 0, time.UTC)
	t1 := t0.Add(300 * time.Millisecond)
	require.Equal(t, "1746090000000-0", codec.FloorEntry(t0).String())
	offsets := []time.Duration{-time.Hour, -1, 0, 1, 150, 299, 300, 301, 1000}
	var want []codec.ID
	for i, d := range offsets {
		if d > -time.Hour {
			d *= time.Millisecond
		}
		at := t0.Add(d)
		for _, seq := range []uint64{0, 4095} {
			addr := codec.EntryID{Ms: uint64(at.UnixMilli()), Seq: seq}
			f.do("XADD", f.log(), addr.String(), "m", encoded(t, fmt.Sprint(i)))
			id, ok := codec.ServerID(identity.Brand, identity.Node, addr)
			require.True(t, ok)
			if !at.Before(t0) && !at.After(t1) {
				want = append(want, id)
			}
		}
	}
	full := f.all()
	require.Len(t, full, 2*len(offsets))
	read := func(from, to time.Time) []codec.ID {
		var ids []codec.ID
		for r, err := range f.reader().Window(f.ctx, from, to) {
			require.NoError(t, err)
			ids = append(ids, r.ID)
		}
		return ids
	}
	window := read(t0, t1)
	require.Equal(t, want, window)
	var filtered []codec.ID
	for _, r := range full {
		if at := r.ID.Time(); !at.Before(t0) && !at.After(t1) {
			filtered = append(filtered, r.ID)
		}
	}
	require.Equal(t, filtered, window)
	require.Less(t, len(window), len(full))
	ms := time.Millisecond
	require.Equal(t, idsOf(full)[2:len(full)-2], read(t0.Add(-ms), t1.Add(ms)))
	require.Equal(t, window[2:len(window)-2], read(t0.Add(ms), t1.Add(-ms)))
	require.Equal(t, window, read(t0.Add(time.Microsecond), t1.Add(time.Microsecond)), "a part of a millisecond is that millisecond")
	require.Empty(t, read(t1, t0))
	var since []codec.ID
	for r, err := range f.reader().Since(f.ctx, t0) {
		require.NoError(t, err)
		since = append(since, r.ID)
	}
	require.Equal(t, idsOf(full)[4:], since)
}
