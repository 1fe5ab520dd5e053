package bridge_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// suite is Watermill's own for backends, with all that a backend of it can promise.
type suite struct {
	client *tier.Client
	scope  string
	spread bool // topics stand in several scopes
}

// run is the suite as the environment wants it.
func run(t *testing.T, f tests.Features, pair tests.PubSubConstructor, group tests.ConsumerGroupPubSubConstructor) {
	switch os.Getenv(suiteEnv) {
	case "stress":
		tests.TestPubSubStressTest(t, f, pair, group)
	case "full":
		tests.TestPubSub(t, f, pair, group)
	default:
		f.ForceShort = true
		tests.TestPubSub(t, f, pair, group)
	}
}

// features: oldMessages says that each pair of a publisher and a subscriber has a group of its own.
func (s suite) features(oldMessages bool) tests.Features {
	return tests.Features{
		ConsumerGroups: true, Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true,
		NewSubscriberReceivesOldMessages: oldMessages,
	}
}

func (s suite) topics() bridge.Topics {
	if !s.spread {
		return bridge.Topics{Scope: s.scope}
	}
	return bridge.Topics{Address: func(topic string) string {
		return s.scope + "." + strconv.Itoa(tier.Slot(topic)%8) + "/" + bridge.StreamOf(topic)
	}}
}

func (s suite) pair(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	pub, err := bridge.NewPublisher(s.client, bridge.PublisherConfig{Topics: s.topics()})
	require.NoError(t, err)
	sub, err := bridge.NewSubscriber(s.client, bridge.SubscriberConfig{
		Topics: s.topics(), Group: group,
		Consumer: consumer.Config{
			MaxDeliveries: -1, Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, // the suite nacks one message hundreds of times
			DrainTimeout: 100 * time.Millisecond, // and closes with messages that it never acks
		},
	})
	require.NoError(t, err)
	return pub, sub
}

// groupPerPair runs the suite with a group for each constructor call.
func (s suite) groupPerPair(t *testing.T) {
	run(t, s.features(true), func(t *testing.T) (message.Publisher, message.Subscriber) {
		return s.pair(t, tiertest.Scope(t))
	}, s.pair)
}

// groupPerTest runs it with one group for all that a test constructs.
func (s suite) groupPerTest(t *testing.T) {
	run(t, s.features(false), func(t *testing.T) (message.Publisher, message.Subscriber) {
		return s.pair(t, "suite")
	}, s.pair)
}

// suiteEnv is full, for the suite with all its messages, or stress, for that ten times at once (STRESS_TEST_COUNT). Without it, there
// are fewer messages.
const suiteEnv = "BRIDGE_SUITE"

// TestWatermillSuite is Watermill's suite.
func TestWatermillSuite(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		all := suite{client: tiertest.Dial(t, s), scope: tiertest.AuditedScope(t, s)}
		t.Run("GroupPerPair", all.groupPerPair)
		t.Run("GroupPerTest", all.groupPerTest)
	})
}

// TestWatermillSuiteOnCluster is the same on a cluster of three masters, whose topics stand in scopes on all of them.
func TestWatermillSuiteOnCluster(t *testing.T) {
	t.Parallel()
	kinds := []tiertest.Kind{tiertest.Valkey}
	if os.Getenv(suiteEnv) != "" {
		kinds = append(kinds, tiertest.Redis)
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			cluster := tiertest.NewCluster(t, kind)
			all := suite{client: tiertest.Dial(t, cluster), scope: tiertest.Scope(t), spread: true}
			t.Run("GroupPerPair", all.groupPerPair)
			t.Run("GroupPerTest", all.groupPerTest)
		})
	}
}
