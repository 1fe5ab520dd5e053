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
