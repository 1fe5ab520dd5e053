package stream_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestForeign: a log of another program is appended to in its form, read, and shared by groups, whose members keep what is ours
// about it elsewhere; what it has not is refused before anything is sent.
func TestForeign(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		client := tiertest.Dial(t, s)
		key := "their {log} " + tiertest.Scope(t)
		address := tier.KeyAddress(key)
		log, err := stream.NewForeign(client, key)
		require.NoError(t, err)
		entries := make([][]string, 1200) // more than go in one write
		for i := range entries {
			entries[i] = []string{"number", fmt.Sprint(i), "", "\x00\xff"}
		}
		ids, err := log.Append(t.Context(), entries, 0)
		require.NoError(t, err)
		require.Len(t, ids, len(entries))

		r, err := stream.NewReader(client, stream.ReaderConfig{Address: address})
		require.NoError(t, err)
		n := 0
		for record, err := range r.Range(t.Context(), codec.EntryID{}, codec.MaxEntryID) {
			require.NoError(t, err)
			require.True(t, record.Foreign())
			require.Equal(t, ids[n], record.Addr)
			require.Equal(t, entries[n], record.Fields)
			n++
		}
		require.Equal(t, len(entries), n)

		g, err := stream.NewGroup(client, stream.GroupConfig{Address: address, Name: "g", Start: stream.Head()})
		require.NoError(t, err)
		m, err := g.Join(t.Context(), "c")
		require.NoError(t, err)
		leased, err := m.Read(t.Context(), 2, 0)
		require.NoError(t, err)
		require.Len(t, leased, 2)
		acked, err := m.Settle(t.Context(), []codec.EntryID{leased[0].Entry})
		require.NoError(t, err)
		require.Equal(t, 1, acked)
		require.NoError(t, m.Commit(t.Context(), []tier.Ending{{Entry: leased[1].Entry, Deliveries: 1, Dead: []tier.Letter{{Index: -1, Reason: "bad", Attempts: 1}}}}))
		for letter, err := range stream.DeadLetters(t.Context(), client, address, "g") {
			require.NoError(t, err)
			require.Equal(t, "bad", letter.Reason)
			require.Equal(t, leased[1].Entry, letter.Entry)
		}
		groups, err := stream.Groups(t.Context(), client, address)
		require.NoError(t, err)
		require.EqualValues(t, 1, groups[0].Dead)
		require.EqualValues(t, len(entries)-2, groups[0].Lag)
		require.NoError(t, m.Leave(t.Context()))
		require.NoError(t, stream.Check(t.Context(), client, g.Address().Scope))

		_, err = log.Append(t.Context(), [][]string{{"k", "v"}}, 100)
		require.NoError(t, err)
		left, err := r.Last(t.Context(), 2000)
		require.NoError(t, err)
		require.Less(t, len(left), 400)

		bad := append(slices.Clone(entries), []string{"odd"})
		before, err := r.Last(t.Context(), 1)
		require.NoError(t, err)
		ids, err = log.Append(t.Context(), bad, 0)
		require.ErrorIs(t, err, stream.ErrBadCall)
		require.Empty(t, ids)
		after, err := r.Last(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, before, after, "nothing was sent")
		_, err = stream.NewForeign(client, "")
		require.ErrorIs(t, err, tier.ErrName)
		_, err = stream.NewWriter(client, stream.WriterConfig{Address: address})
		require.ErrorIs(t, err, stream.ErrBadCall)
		_, err = stream.NewCursor(client, stream.CursorConfig{Address: address, Name: "c", Start: stream.Head()})
		require.ErrorIs(t, err, stream.ErrBadCall)
		_, err = stream.Remove(t.Context(), client, address)
		require.ErrorIs(t, err, stream.ErrBadCall)
		require.ErrorIs(t, stream.SetRetention(t.Context(), client, address, stream.Retention{MaxAge: time.Hour}), stream.ErrBadCall)
	})
}

// TestForeignFull: of a write of which the server refuses an entry, the others have their ids, and the error is that of the one which
// is not there.
func TestForeignFull(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	log, err := stream.NewForeign(f.client, f.log())
	require.NoError(t, err)
	long := strings.Repeat("x", 1<<20)
	used := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(f.text("INFO", "memory"))
	now, err := strconv.Atoi(used[1])
	require.NoError(t, err)
	f.do("CONFIG", "SET", "maxmemory", strconv.Itoa(now+20<<20)) // room for some of them
	entries := make([][]string, 40)
	for i := range entries {
		entries[i] = []string{"f", long}
	}
	ids, err := log.Append(f.ctx, entries, 0)
	require.ErrorIs(t, err, tier.ErrStoreFull)
	require.False(t, tier.OutcomeUnknown(err))
	require.Len(t, ids, len(entries))
	there := slices.DeleteFunc(slices.Clone(ids), func(id codec.EntryID) bool { return id.IsZero() })
	require.NotEmpty(t, there)
	require.Less(t, len(there), len(entries))
	f.fill(false)
	var got []codec.EntryID
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: tier.KeyAddress(f.log())})
	require.NoError(t, err)
	for record, err := range r.Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		got = append(got, record.Addr)
	}
	require.Equal(t, got, there)
}
