package codec_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

func TestParseEntryID(t *testing.T) {
	tests := []struct {
		in   string
		want codec.EntryID
	}{
		{"0-0", codec.EntryID{}},
		{"1704117200000-1620567", codec.EntryID{Ms: 1704117200000, Seq: 1620567}},
		{"18446744073709551615-18446744073709551615", codec.MaxEntryID},
	}
	for _, tt := range tests {
		got, err := codec.ParseEntryID(tt.in)
		require.NoError(t, err, tt.in)
		require.Equal(t, tt.want, got)
		require.Equal(t, tt.in, got.String())
		require.Equal(t, "x"+tt.in, string(got.AppendTo([]byte("x"))))
	}
	for _, s := range []string{
		"", "-", "1", "1-", "-1", "1-2-3", "+1-1", "1-+1", "1--1", " 1-1", "1-1 ", "01-1", "1-00", "a-1", "1-b", "1_0-1", "0x1-1",
		"18446744073709551616-0", "0-18446744073709551616", "99999999999999999999-0", "100000000000000000000-0", "*", "$", "1-*", "1-1#1", "\u0661-1",
	} {
		_, err := codec.ParseEntryID(s)
		require.ErrorIs(t, err, codec.ErrEntryID, "%q", s)
	}
}

func TestEntryIDNeighbours(t *testing.T) {
	const top = math.MaxUint64
	tests := []struct{ name, below, above string }{
		{"sequence", "5-6", "5-7"},
		{"millisecond", "5-18446744073709551615", "6-0"},
		{"first", "0-0", "0-1"},
		{"last", "18446744073709551615-18446744073709551614", "18446744073709551615-18446744073709551615"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			below, above := entryID(t, tt.below), entryID(t, tt.above)
			require.Equal(t, above, below.Next())
			require.Equal(t, below, above.Prev())
			require.Negative(t, below.Compare(above))
			require.Positive(t, above.Compare(below))
			require.Zero(t, above.Compare(above))
		})
	}
	require.Equal(t, codec.MaxEntryID, codec.MaxEntryID.Next(), "saturates")
	require.Equal(t, codec.EntryID{}, codec.EntryID{}.Prev(), "saturates")
	require.True(t, codec.EntryID{}.IsZero())
	require.False(t, codec.EntryID{Seq: 1}.IsZero())
	require.Positive(t, codec.EntryID{Ms: 10}.Compare(codec.EntryID{Ms: 9, Seq: top}), "two numbers, not text")
}

func TestEntryIDTime(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 123999999, time.FixedZone("", 3600))
	floor, ceil := codec.FloorEntry(at), codec.CeilEntry(at)
	require.Equal(t, codec.EntryID{Ms: uint64(at.UnixMilli())}, floor)
	require.Equal(t, codec.EntryID{Ms: uint64(at.UnixMilli()), Seq: math.MaxUint64}, ceil)
	require.Equal(t, at.Truncate(time.Millisecond).UTC(), floor.Time())
	require.Equal(t, ceil.Next(), codec.FloorEntry(at.Add(time.Millisecond)), "windows touch, and do not overlap")

	old := time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)
	require.Equal(t, codec.EntryID{}, codec.FloorEntry(old))
	require.Equal(t, codec.EntryID{}, codec.CeilEntry(old))
	require.NotPanics(t, func() { _ = codec.MaxEntryID.Time() })
	require.True(t, codec.MaxEntryID.Time().After(at))
}

func TestPosition(t *testing.T) {
	tests := []struct {
		in   string
		want codec.Position
	}{
		{"5-6", codec.Position{Entry: codec.EntryID{Ms: 5, Seq: 6}}},
		{"5-6#1", codec.Position{Entry: codec.EntryID{Ms: 5, Seq: 6}, Index: 1}},
		{"5-6#4095", codec.Position{Entry: codec.EntryID{Ms: 5, Seq: 6}, Index: codec.MaxPack - 1}},
	}
	for i, tt := range tests {
		got, err := codec.ParsePosition(tt.in)
		require.NoError(t, err, tt.in)
		require.Equal(t, tt.want, got)
		require.Equal(t, tt.in, got.String())
		require.Zero(t, got.Compare(tt.want))
		if i > 0 {
			require.Negative(t, tests[i-1].want.Compare(got))
		}
	}
	require.Positive(t, codec.Position{Entry: codec.EntryID{Ms: 6}}.Compare(tests[2].want), "the entry comes before the index")
	for _, s := range []string{"", "5-6#", "5-6#0", "5-6#01", "5-6#-1", "5-6#4096", "5-6#99999999999999999999", "#1", "5#1", "5-6#1#1"} {
		_, err := codec.ParsePosition(s)
		require.ErrorIs(t, err, codec.ErrEntryID, "%q", s)
	}
}

func TestAddressesAsText(t *testing.T) {
	type doc struct {
		E codec.EntryID
		P codec.Position
	}
	in := doc{codec.MaxEntryID, codec.Position{Entry: codec.EntryID{Ms: 1, Seq: 2}, Index: 3}}
	j, err := json.Marshal(in)
	require.NoError(t, err)
	require.JSONEq(t, `{"E":"18446744073709551615-18446744073709551615","P":"1-2#3"}`, string(j))
	var out doc
	require.NoError(t, json.Unmarshal(j, &out))
	require.Equal(t, in, out)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"P":"x"}`), &out), codec.ErrEntryID)
}
