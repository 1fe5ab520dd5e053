package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	cfg := Config{}
	cfg.setDefaults()
	p := newPace(&cfg)
	at, ended := time.Unix(1, 0), 0
	after := func(d time.Duration, more int) int {
		at, ended = at.Add(d), ended+more
		return p.follow(at, ended)
	}
	require.Equal(t, 512, after(0, 0))
	require.Equal(t, 512, after(paceWindow, 40), "slow handlers have as many before them as they always had")
	require.Equal(t, 512, after(paceWindow/2, 500), "a window is not over")
	require.Equal(t, maxPaced, after(paceWindow/2, 0))
	require.Equal(t, 1000, after(paceWindow, 100))
	require.Equal(t, 1000, after(paceWindow/2, 999), "a window is not over")
	require.Equal(t, maxPaced, after(0, 1), "but more than the bound is through")
	require.Equal(t, 1000, after(paceWindow, 100))
	require.Equal(t, 1000, after(2*paceWindow, 200))
	require.Equal(t, maxPaced, after(paceWindow, 1<<20))
	require.Equal(t, 512, after(time.Hour, 1000), "after an idle time it begins anew")

	cfg = Config{MaxInFlight: 700}
	cfg.setDefaults()
	p = newPace(&cfg)
	require.Equal(t, 700, after(paceWindow, 1<<20), "what was asked for stays")

	cfg = Config{Concurrency: 100, BatchSize: 100}
	cfg.setDefaults()
	p = newPace(&cfg)
	require.Equal(t, 10_000, after(paceWindow, 1<<20), "workers have what they can work on at once")
}
