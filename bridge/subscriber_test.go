package bridge_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestSubscriberConfig: what cannot work is refused when it is made.
func TestSubscriberConfig(t *testing.T) {
	f := onOne(t)
	tests := []struct {
		name string
		cfg  bridge.SubscriberConfig
	}{
		{"no scope", bridge.SubscriberConfig{Group: "g"}},
		{"a bad group", bridge.SubscriberConfig{Topics: f.topics(), Group: "{g}"}},
		{"a short lease", bridge.SubscriberConfig{Topics: f.topics(), Group: "g", Lease: time.Millisecond}},
		{"a lease of nobody", bridge.SubscriberConfig{Topics: f.topics(), Lease: time.Minute}},
		{"nothing in flight", bridge.SubscriberConfig{Topics: f.topics(), Group: "g", MaxInFlight: -1}},
		{"two who say how many", bridge.SubscriberConfig{Topics: f.topics(), Group: "g", Consumer: consumer.Config{Concurrency: 2}}},
		{"strict, and two at a time", bridge.SubscriberConfig{Topics: f.topics(), Group: "g", MaxInFlight: 2, Consumer: consumer.Config{Order: consumer.Strict}}},
		{"a bad consumer", bridge.SubscriberConfig{Topics: f.topics(), Group: "g", Consumer: consumer.Config{Backoff: -1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := bridge.NewSubscriber(f.client, tt.cfg)
			require.ErrorIs(t, err, bridge.ErrConfig)
		})
	}
	_, err := bridge.NewSubscriber(nil, bridge.SubscriberConfig{Topics: f.topics()})
	require.ErrorIs(t, err, bridge.ErrConfig)
}

// TestStarts: where a group and a fan-out begin.
func TestStarts(t *testing.T) {
	f := onOne(t)
	p := f.publisher(t)
	publish(t, p, "t", "0", "1", "2")
	second := f.all(t, "t")[1]
	tests := []struct {
		name  string
		group string
		start stream.Start
		want  []string
	}{
		{"a group by default", "default", stream.Start{}, []string{"0", "1", "2", "3"}},
		{"a group at the head", "head", stream.Head(), []string{"0", "1", "2", "3"}},
		{"a group at what is new", "new", stream.New(), []string{"3"}},
		{"a group at an id", "id", stream.FromID(second.ID), []string{"1", "2", "3"}},
		{"a fan-out by default", "", stream.Start{}, []string{"3"}},
		{"a fan-out at the head", "", stream.Head(), []string{"0", "1", "2", "3"}},
		{"a fan-out at an entry", "", stream.FromEntry(second.Addr), []string{"1", "2", "3"}},
		{"a fan-out at a time", "", stream.FromTime(second.ID.Time()), []string{"0", "1", "2", "3"}}, // all of one millisecond
	}
	outs := make([]<-chan *message.Message, len(tests))
	for i, tt := range tests {
		outs[i] = subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Group, c.Start = tt.group, tt.start }), "t")
	}
	initialized := f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Group, c.Start = "initialized", stream.New() })
	require.NoError(t, initialized.SubscribeInitialize("t"))
	publish(t, p, "t", "3")
	for i, tt := range tests {
		require.Equal(t, tt.want, acked(t, outs[i], len(tt.want)), tt.name)
	}
	require.Equal(t, []string{"3"}, acked(t, subscribe(t, initialized, "t"), 1))
}

// TestMaxInFlight: so many are out, and no more until one of them is acked; at 1, those behind a nacked one wait for it.
func TestMaxInFlight(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		p := f.publisher(t)
		three := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.MaxInFlight = 3 }), "three")
		publish(t, p, "three", "0", "1", "2", "3", "4")
		first, second, third := receive(t, three), receive(t, three), receive(t, three)
		select {
		case m := <-three:
			require.Fail(t, "a fourth message is out", string(m.Payload))
		case <-time.After(50 * time.Millisecond):
		}
		require.True(t, second.Ack())
		require.Equal(t, "3", string(receive(t, three).Payload))
		require.True(t, first.Ack() && third.Ack())

		one := subscribe(t, f.subscriber(t, nil), "one")
		publish(t, p, "one", "0", "1")
		for attempt := range 4 {
			m := receive(t, one)
			require.Equal(t, "0", string(m.Payload))
			require.Equal(t, strconv.Itoa(attempt+1), m.Metadata[bridge.MetaAttempt])
			require.True(t, m.Nack())
		}
		require.Equal(t, []string{"0", "1"}, acked(t, one, 2))
	})
}

// TestOrderByKey (B94): a nacked message holds up those of its key, and no other.
func TestOrderByKey(t *testing.T) {
	f := onOne(t)
	p := f.publisher(t)
	out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) {
		c.MaxInFlight, c.Consumer.Order = 4, consumer.ByKey
		c.Consumer.Backoff, c.Consumer.MaxBackoff = 50*time.Millisecond, 50*time.Millisecond
	}), "t")
	const each = 20
	for i := range each {
		for _, key := range []string{"a", "b", "c"} {
			require.NoError(t, p.Publish("t", with(note(strconv.Itoa(i)), bridge.MetaKey, key)))
		}
	}
	got := map[string][]string{}
	nacks := 2
	for n := 0; n < 3*each; {
		m := receive(t, out)
		key := m.Metadata[bridge.MetaKey]
		if key == "a" && string(m.Payload) == "1" && nacks > 0 {
			nacks--
			require.True(t, m.Nack())
			continue
		}
		got[key] = append(got[key], string(m.Payload))
		require.True(t, m.Ack())
		n++
	}
	for key, payloads := range got {
		for i, text := range payloads {
			require.Equal(t, strconv.Itoa(i), text, key)
		}
	}
}

// TestDeadLetters (B84, B112): what is nacked too often, and what is no message, goes to the dead letters once, and the channel
// goes on; other groups are not concerned (B66).
func TestDeadLetters(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		p := f.publisher(t)
		publish(t, p, "t", "bad")
		raw, err := tiertest.Raw(f.server)
		require.NoError(t, err)
		defer raw.Close()
		log := "emq:{" + f.scope + "}:stream:t"
		add := func(field, value string) {
			require.NoError(t, raw.Do(t.Context(), raw.B().Xadd().Key(log).Id("*").FieldValue().FieldValue(field, value).Build()).Error())
		}
		add("who", "a stranger")
		add(codec.FieldMessage, "garbage")
		publish(t, p, "t", "good")

		out := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Consumer.MaxDeliveries = 3 }), "t")
		for range 3 {
			m := receive(t, out)
			require.Equal(t, "bad", string(m.Payload))
			require.True(t, m.Nack())
		}
		require.Equal(t, []string{"good"}, acked(t, out, 1))
		tiertest.Eventually(t, patience, func() (bool, string) {
			n := f.pending(t, "t", "g")
			return n == 0, fmt.Sprint(n, " pending")
		})
		reasons := f.letters(t, "t", "g")
		slices.Sort(reasons)
		require.Len(t, reasons, 3)
		require.Contains(t, reasons[0], "attempt 3 of 3: bridge: nacked")
		require.Contains(t, reasons[1], bridge.ErrForeign.Error())
		require.Contains(t, reasons[2], "codec: undecodable")

		other := subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Group = "other" }), "t")
		require.Equal(t, []string{"bad", "good"}, acked(t, other, 2))
	})
}

// TestGroupDeleted: an error that waiting does not mend closes the channel, and another subscription begins anew.
func TestGroupDeleted(t *testing.T) {
	f := onOne(t)
	publish(t, f.publisher(t), "t", "0")
	s := f.subscriber(t, nil)
	out := subscribe(t, s, "t")
	require.Equal(t, []string{"0"}, acked(t, out, 1))
	g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.scope + "/t", Name: "g", Start: stream.Head()})
	require.NoError(t, err)
	require.NoError(t, g.Delete(t.Context()))
	ended(t, out)
	require.Equal(t, []string{"0"}, acked(t, subscribe(t, s, "t"), 1))
}
