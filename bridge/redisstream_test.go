package bridge_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// Both backends on one topic are tested in redisstreamtest, a module of its own.

func redisStream(c *bridge.SubscriberConfig) { c.Topics = bridge.Topics{Wire: bridge.RedisStream} }

// TestRedisStreamPoison (B84, B86): entries that are no messages of the wire go to the dead letters of its group, and the channel
// goes on; fields come in any order, and those that may be missing may be.
func TestRedisStreamPoison(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		topic := "{odd}/" + tiertest.Scope(t)
		log, err := stream.NewForeign(f.client, topic)
		require.NoError(t, err)
		uuid := func(value string, fields ...string) []string {
			return append(fields, bridge.MetaUUID, value)
		}
		_, err = log.Append(t.Context(), [][]string{
			{"payload", "of nobody"},
			uuid("bomb", "metadata", "\xdf\xff\xff\xff\xff"),
			uuid("deep", "metadata", strings.Repeat("\x91", 10000)),
			uuid("no map", "metadata", "\x01"),
			{codec.FieldPack, "garbage"},
			uuid("bare"),
			uuid("nil metadata", "metadata", "\xc0", "payload", "x"),
			uuid("late field", "payload", "y", "metadata", "", "more", "of it"),
			uuid("last"),
		}, 0)
		require.NoError(t, err)
		out := subscribe(t, f.subscriber(t, redisStream), topic)
		for _, want := range []struct{ uuid, payload string }{{"bare", ""}, {"nil metadata", "x"}, {"late field", "y"}, {"last", ""}} {
			m := receive(t, out)
			require.Equal(t, want.uuid, m.UUID)
			require.Equal(t, want.payload, string(m.Payload))
			require.NotEmpty(t, m.Metadata[bridge.MetaTime])
			require.True(t, m.Ack())
		}
		n := 0
		for letter, err := range stream.DeadLetters(t.Context(), f.client, tier.KeyAddress(topic), "g") {
			require.NoError(t, err)
			require.Contains(t, letter.Reason, bridge.ErrForeign.Error())
			n++
		}
		require.Equal(t, 5, n)
	})
}

// TestRedisStreamRefuses: what the wire cannot hold is a typed error, and nothing of the call was sent.
func TestRedisStreamRefuses(t *testing.T) {
	f := onOne(t)
	topic := tiertest.Scope(t)
	old := bridge.Topics{Wire: bridge.RedisStream}
	p, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: old, MaxMessage: 100, MaxLen: func(string) int64 { return 100 }})
	require.NoError(t, err)
	large, name := (*stream.TooLargeError)(nil), (*tier.NameError)(nil)
	require.ErrorAs(t, p.Publish(topic, note("x"), note(strings.Repeat("x", 101))), &large)
	require.ErrorIs(t, p.Publish(topic, note("x"), with(note("x"), bridge.MetaUUID, "u")), bridge.ErrReserved)
	require.ErrorIs(t, p.Publish(topic, note("x"), nil), bridge.ErrNilMessage)
	require.ErrorAs(t, p.Publish("", note("x")), &name)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late := note("x")
	late.SetContext(over)
	require.ErrorIs(t, p.Publish(topic, note("x"), late), context.Canceled)
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: tier.KeyAddress(topic)})
	require.NoError(t, err)
	_, err = r.Last(t.Context(), 1)
	require.ErrorIs(t, err, stream.ErrNoStream)

	publish(t, p, topic, numbers(1000)...)
	left, err := r.Last(t.Context(), 1000)
	require.NoError(t, err)
	require.Less(t, len(left), 400, "MaxLen")

	for _, topics := range []bridge.Topics{{Wire: 7, Scope: "s"}, {Wire: bridge.RedisStream, Scope: "s"}, {Wire: bridge.RedisStream, Address: func(string) string { return "s/t" }}} {
		_, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: topics})
		require.ErrorIs(t, err, bridge.ErrConfig)
	}
	_, err = bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: f.topics(), MaxLen: func(string) int64 { return 1 }})
	require.ErrorIs(t, err, bridge.ErrConfig)
}
