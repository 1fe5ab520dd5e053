package bridge_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// rules are the rights that docs/security.md gives.
func rules(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "\n```acl "+name+"\n")
	require.True(t, found, name)
	block, _, _ = strings.Cut(block, "```")
	return strings.Fields(block)
}

// TestRightsOnTheOtherWire (B149): a publisher and a subscriber of topics of watermill-redisstream do their work with the rights that the
// document gives them. Those of a subscriber are those of a consumer, which has a test of its own, with the keys that it has there.
func TestRightsOnTheOtherWire(t *testing.T) {
	t.Parallel()
	publisher, subscriber := rules(t, "redisstream-publisher"), rules(t, "redisstream-subscriber")
	var moved []string
	for _, right := range rules(t, "consumer") {
		if right == "~emq:{shop}:stream:orders" {
			right = "~orders"
		}
		moved = append(moved, strings.ReplaceAll(right, "{shop}", "{key.*}"))
	}
	require.ElementsMatch(t, moved, subscriber)
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			server := tiertest.Private(t, kind)
			tiertest.Dial(t, server) // which makes the deployment one of ours
			require.NoError(t, onTheOtherWire(t, server, publisher, subscriber))
			for i, right := range publisher {
				require.ErrorIs(t, onTheOtherWire(t, server, slices.Delete(slices.Clone(publisher), i, i+1), subscriber), tier.ErrPermission, right)
			}
		})
	}
}

// onTheOtherWire publishes two messages, of which one is acked and one goes to the dead letters.
func onTheOtherWire(t *testing.T, server *tiertest.Server, publisher, subscriber []string) error {
	as := func(rules []string) (*tier.Client, error) {
		client, err := tier.Dial(t.Context(), tiertest.NewUser(t, []*tiertest.Server{server}, rules...).At(server), tier.Options{})
		if err == nil {
			t.Cleanup(client.Close)
		}
		return client, err
	}
	topics := bridge.Topics{Wire: bridge.RedisStream}
	client, err := as(publisher)
	if err != nil {
		return err
	}
	p, err := bridge.NewPublisher(client, bridge.PublisherConfig{Topics: topics})
	require.NoError(t, err)
	if err := p.Publish("orders", note("bad"), note("good")); err != nil {
		return err
	}
	if client, err = as(subscriber); err != nil {
		return err
	}
	cfg := bridge.SubscriberConfig{Topics: topics, Group: "mailer", Consumer: quick}
	cfg.Consumer.MaxDeliveries = 2
	s, err := bridge.NewSubscriber(client, cfg)
	require.NoError(t, err)
	defer s.Close()
	out, err := s.Subscribe(t.Context(), "orders")
	if err != nil {
		return err
	}
	for m := range out {
		if string(m.Payload) == "good" {
			m.Ack()
			return s.Close()
		}
		m.Nack()
	}
	return errors.New("the channel is closed")
}
