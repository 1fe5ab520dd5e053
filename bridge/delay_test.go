package bridge_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
)

// TestDelay: a delayed message comes when it is due by the server's clock, and others do not wait for it; a delay that cannot
// be read is none, and one that is over neither.
func TestDelay(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		p := f.publisher(t)
		for _, group := range []string{"g", ""} {
			out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Group, c.MaxInFlight = group, 2 }), "t")
			late := note("late")
			delay.Message(late, delay.For(700*time.Millisecond))
			require.NoError(t, p.Publish("t", late, with(note("bad"), delay.DelayedForKey, "soon"),
				with(note("past"), delay.DelayedUntilKey, "2001-01-01T00:00:00Z"), note("plain")))
			require.ElementsMatch(t, []string{"bad", "past", "plain"}, acked(t, out, 3))
			m := receive(t, out)
			require.True(t, m.Ack())
			require.Equal(t, "late", string(m.Payload))
			require.Equal(t, "1", m.Metadata[bridge.MetaAttempt], "to wait is no attempt")
			lag, err := time.ParseDuration(m.Metadata[bridge.MetaLag])
			require.NoError(t, err)
			require.GreaterOrEqual(t, lag, 690*time.Millisecond)
		}
	})
}

// TestDelayUntil: a time counts by the server's clock where there is no duration.
func TestDelayUntil(t *testing.T) {
	f := onOne(t)
	now, err := f.client.Now(t.Context(), "x")
	require.NoError(t, err)
	until := now.Add(1500 * time.Millisecond).Truncate(time.Second)
	require.NoError(t, f.publisher(t).Publish("t", with(note("late"), delay.DelayedUntilKey, until.UTC().Format(time.RFC3339))))
	m := receive(t, subscribe(t, f.subscriber(t, nil), "t"))
	require.True(t, m.Ack())
	now, err = f.client.Now(t.Context(), "x")
	require.NoError(t, err)
	require.GreaterOrEqual(t, now.Sub(until), -10*time.Millisecond)
}
