package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
)

func TestLook(t *testing.T) {
	var never time.Time
	now := time.Unix(1000, 0)
	found := tier.Taken{Leased: []tier.Leased{{}}}

	var l look
	require.True(t, l.isDue(now, never), "the first look is at the start")
	l.page(now, found)
	require.True(t, l.isDue(now, never), "where something was found, the next page is looked at at once")
	require.Zero(t, l.cutShort(idleWait, now, never))
	l.page(now, tier.Taken{})
	require.False(t, l.isDue(now, never), "where nothing was found, the next page waits")
	require.Equal(t, pagePause, l.cutShort(idleWait, now, never))
	require.False(t, l.isDue(now, now), "a look that is under way is not begun again")
	now = now.Add(pagePause)
	require.True(t, l.isDue(now, never))

	l.page(now, tier.Taken{Done: true})
	require.False(t, l.isDue(now, never))
	require.Equal(t, idleWait, l.cutShort(idleWait, now, never), "an idle consumer waits as long as it may")
	require.False(t, l.isDue(now, now.Add(time.Millisecond)))
	require.Equal(t, 3*time.Millisecond, l.cutShort(idleWait, now, now.Add(3*time.Millisecond)))
	require.Zero(t, l.cutShort(idleWait, now, now.Add(-time.Hour)))
	require.True(t, l.isDue(now, now), "a parked entry that is due begins a look")
	l.page(now, tier.Taken{Done: true})
	require.False(t, l.isDue(now.Add(lookEvery/2), never))
	require.True(t, l.isDue(now.Add(lookEvery), never))
}

func TestFetchSizes(t *testing.T) {
	pack := func(n int) []tier.Leased { return []tier.Leased{leasedEntry(1, 1, make([]bool, n)...)} }
	f := fetcher{perItem: unknownSize}
	r := room{messages: 1000, read: 1000, take: 1000}
	require.Equal(t, 1, r.entries(r.read, f.perItem), "the first read brings one entry, which may be a pack")
	f.learnSize(nil)
	require.Equal(t, 1, r.entries(r.read, f.perItem))
	f.learnSize(pack(1))
	require.Equal(t, 1000, r.entries(r.read, f.perItem))
	f.learnSize(pack(100))
	require.Equal(t, 10, r.entries(r.read, f.perItem))
	f.learnSize(pack(1))
	require.Equal(t, 11, r.entries(r.read, f.perItem), "packs may come again")
	for range 100 {
		f.learnSize(pack(1))
	}
	require.Equal(t, 1000, r.entries(r.read, f.perItem))
	f.learnSize(pack(4096))
	require.Equal(t, 1, r.entries(r.read, f.perItem))

	require.False(t, room{messages: 3, read: 0, hungry: true}.worthReading(100))
	require.True(t, room{messages: 3, read: 3, hungry: true}.worthReading(100))
	require.False(t, room{messages: 3, read: 3}.worthReading(100))
	require.True(t, room{messages: 25, read: 25}.worthReading(100))
}
