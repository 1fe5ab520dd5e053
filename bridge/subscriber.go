package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// SubscriberConfig says what a Subscriber subscribes to, and how.
type SubscriberConfig struct {
	Topics
	// Group is the consumer group: its subscribers share the messages of a topic, in whatever processes. Empty: fan-out, each
	// subscription has all messages. Fan-out leaves no trace on the server: where it begins anew is Start, what was nacked is
	// kept in memory, and what is given up is only logged.
	Group string
	// Start is where a group begins that does not exist yet, and each fan-out. Default stream.Head for a group, stream.New for
	// fan-out.
	Start stream.Start
	// Lease of the group: how long a process may be silent before others take over what it holds. Default 30 s; of a group that
	// exists, its own. On the wire RedisStream 60 s, as long as the other backend waits by default, which does not renew what
	// it has: what one of its handlers works on for longer, another gets.
	Lease time.Duration
	// MaxInFlight is how many messages of a subscription are out at the same time, neither acked nor nacked. Default 1, which is
	// in order: the next one comes when the one before it was acked, or given up, and a nacked one comes again before it. Above
	// 1, messages come as they can, or in the order of each key when Consumer.Order is consumer.ByKey.
	MaxInFlight int
	// Consumer is the rest: the pause after a nack (Backoff, MaxBackoff), how often a message is delivered before it goes to
	// the dead letters (MaxDeliveries), how long Close waits for acks of what is out (DrainTimeout), how much is fetched ahead (its
	// MaxInFlight), the logger, metrics. Its Concurrency is the MaxInFlight above.
	Consumer consumer.Config
}

func (c *SubscriberConfig) setDefaults() {
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 1)
	c.Consumer.Backoff = cmp.Or(c.Consumer.Backoff, time.Second)
	if c.Wire == RedisStream && c.Group != "" {
		c.Lease = cmp.Or(c.Lease, redisStreamLease)
	}
	if c.Start == (stream.Start{}) {
		if c.Start = stream.Head(); c.Group == "" {
			c.Start = stream.New()
		}
	}
}

// redisStreamLease is as long as the other backend waits, by default, before it takes a message from who has it.
const redisStreamLease = time.Minute

// runtime is the configuration of a subscription's consumer.
func (c *SubscriberConfig) runtime() consumer.Config {
	r := c.Consumer
	r.Concurrency = c.MaxInFlight
	if c.MaxInFlight == 1 {
		r.Order = consumer.Strict
	}
	return r
}

func (c *SubscriberConfig) validate() error {
	if err := c.Topics.validate(); err != nil {
		return err
	}
	switch {
	case c.MaxInFlight < 1:
		return fmt.Errorf("%w: MaxInFlight is %d, want at least 1", ErrConfig, c.MaxInFlight)
	case c.Consumer.Concurrency != 0:
		return fmt.Errorf("%w: Consumer.Concurrency is %d: say it with MaxInFlight", ErrConfig, c.Consumer.Concurrency)
	case c.Group == "" && c.Lease != 0:
		return fmt.Errorf("%w: Lease is %s: there are no leases without a group", ErrConfig, c.Lease)
	}
	return nil
}

// Subscriber gives out the messages of streams. It is safe for concurrent use. Each subscription is a consumer of its own.
type Subscriber struct {
	client *tier.Client
	cfg    SubscriberConfig

	mu     sync.Mutex
	closed bool
	ends   context.CancelFunc // of all subscriptions
	ended  context.Context
	subs   sync.WaitGroup
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber checks the configuration. It sends nothing and starts nothing. The client stays the caller's, who closes
// it. ErrConfig.
func NewSubscriber(client *tier.Client, cfg SubscriberConfig) (*Subscriber, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: a subscriber needs a client", ErrConfig)
	}
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Subscriber{client: client, cfg: cfg}
	if _, err := s.newSubscription("scope/stream", ""); err != nil { // which looks at the group and at Consumer
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s.ended, s.ends = context.WithCancel(context.Background())
	return s, nil
}

// SubscribeInitialize creates the topic's group at its start, so that it gets what is published from now on. Subscribe does so
// too. Without a group there is nothing to do.
//
// Errors: ErrClosed, *tier.NameError, those of stream.Group.Create, of which tier.ErrCancelled is that of a Close meanwhile.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	if s.ended.Err() != nil {
		return ErrClosed
	}
	sub, err := s.subscription(topic)
	if err == nil {
		err = sub.begin(s.ended)
	}
	return err
}

// Subscribe gives out the topic's messages until ctx ends or the subscriber is closed; then the channel is closed, in
// the order that Close describes. When it returns, the group exists, or the place is known where fan-out begins: what is published afterwards
// comes. A message's context has the values of ctx. It ends when the message was acked or nacked, when its lease was lost, so
// that another subscriber has it, and when the subscription ends and has waited for it long enough; not with ctx.
//
// An error at work that waiting does not mend (a missing right, a group that was deleted) is logged, and closes the channel.
//
// Errors: ErrClosed, *tier.NameError, the end of ctx, those of stream.Group.Create.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	sub, err := s.subscription(topic)
	if err != nil {
		return nil, err
	}
	if err := sub.begin(ctx); err != nil {
		return nil, fmt.Errorf("bridge: subscribe to %.64q: %w", topic, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ended, cancel)
	s.subs.Go(func() {
		defer cancel()
		defer stop()
		sub.run(ctx)
	})
	return sub.out, nil
}

// subscription of a topic.
func (s *Subscriber) subscription(topic string) (*subscription, error) {
	address, err := s.cfg.address(topic)
	if err != nil {
		return nil, err
	}
	return s.newSubscription(address, topic)
}

// Close ends all subscriptions and returns when their channels are closed: nothing more is given out; what is out may still be
// acked or nacked, for Consumer.DrainTimeout; then its context ends, and it is handed back, with all that was fetched ahead, to
// whoever subscribes to the group. The client stays open. It may be called more than once.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ends()
	s.subs.Wait()
	return nil
}

var errNacked = errors.New("bridge: nacked")
