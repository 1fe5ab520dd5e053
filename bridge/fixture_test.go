package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const patience = 20 * time.Second

// fixture is a scope on a server, with a client of it.
type fixture struct {
	server *tiertest.Server
	client *tier.Client
	scope  string
}

func newFixture(t *testing.T, s *tiertest.Server) fixture {
	return fixture{server: s, client: tiertest.Dial(t, s), scope: tiertest.AuditedScope(t, s)}
}

// each runs f on one server of each kind.
func each(t *testing.T, f func(t *testing.T, f fixture)) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) { f(t, newFixture(t, s)) })
}

// onOne is for what no kind of server makes a difference to.
func onOne(t *testing.T) fixture {
	t.Parallel()
	return newFixture(t, tiertest.Shared(t, tiertest.Valkey))
}

func (f fixture) topics() bridge.Topics { return bridge.Topics{Scope: f.scope} }

func (f fixture) publisher(t *testing.T) *bridge.Publisher {
	t.Helper()
	p, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: f.topics()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// quick are short pauses.
var quick = consumer.Config{Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, DrainTimeout: 100 * time.Millisecond}

func (f fixture) subscriber(t *testing.T, change func(*bridge.SubscriberConfig)) *bridge.Subscriber {
	t.Helper()
	cfg := bridge.SubscriberConfig{Topics: f.topics(), Group: "g", Consumer: quick}
	if change != nil {
		change(&cfg)
	}
	s, err := bridge.NewSubscriber(f.client, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func subscribe(t *testing.T, s message.Subscriber, topic string) <-chan *message.Message {
	t.Helper()
	out, err := s.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	return out
}

// publish publishes messages with these payloads, which are their UUIDs as well.
func publish(t *testing.T, p message.Publisher, topic string, payloads ...string) {
	t.Helper()
	ms := make([]*message.Message, len(payloads))
	for i, text := range payloads {
		ms[i] = message.NewMessage(text, []byte(text))
	}
	require.NoError(t, p.Publish(topic, ms...))
}

// receive is the next message.
func receive(t *testing.T, out <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, open := <-out:
		require.True(t, open, "the channel is closed")
		return m
	case <-time.After(patience):
		require.FailNow(t, "no message came")
		return nil
	}
}

// acked is the payloads of the next n messages, each acked.
func acked(t *testing.T, out <-chan *message.Message, n int) []string {
	t.Helper()
	payloads := make([]string, n)
	for i := range payloads {
		m := receive(t, out)
		payloads[i] = string(m.Payload)
		require.True(t, m.Ack())
	}
	return payloads
}

// ended waits for the end of a channel.
func ended(t *testing.T, out <-chan *message.Message) {
	t.Helper()
	select {
	case m, open := <-out:
		require.False(t, open, "a message came: %v", m)
	case <-time.After(patience):
		require.FailNow(t, "the channel is open")
	}
}

// letters are the reasons of a group's dead letters.
func (f fixture) letters(t *testing.T, topic, group string) (reasons []string) {
	t.Helper()
	for letter, err := range stream.DeadLetters(t.Context(), f.client, f.scope+"/"+bridge.StreamOf(topic), group) {
		require.NoError(t, err)
		reasons = append(reasons, letter.Reason)
	}
	return reasons
}

// pending is how much the group holds, or has parked.
func (f fixture) pending(t *testing.T, topic, group string) int64 {
	t.Helper()
	groups, err := stream.Groups(context.WithoutCancel(t.Context()), f.client, f.scope+"/"+bridge.StreamOf(topic))
	require.NoError(t, err)
	for _, g := range groups {
		if g.Name == group {
			return g.Pending + g.Parked
		}
	}
	require.FailNow(t, "no group "+group)
	return 0
}

// records are messages of a stream with these payloads.
func records(payloads []string) []codec.Message {
	ms := make([]codec.Message, len(payloads))
	for i, text := range payloads {
		ms[i].Data = []byte(text)
	}
	return ms
}
