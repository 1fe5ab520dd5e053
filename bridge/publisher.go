package bridge

import (
	"context"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// PublisherConfig says where a Publisher publishes to, and how.
type PublisherConfig struct {
	Topics
	// Pack is how many messages share an entry, 1 to 4096. Default 1. Packs cost the server a fraction, and subscribers settle
	// them whole: what is published in one call, or at the same time, comes again together after a crash.
	Pack int
	// MaxMessage is the largest encoded message in bytes. Default 1 MiB, at most 8 MiB.
	MaxMessage int
	// MaxLen is how long the log of a topic may get on the wire RedisStream: what is older is trimmed when something is published,
	// about, and whoever needs it. Nil, or 0 of a topic: nothing is. On the native wire retention is a policy of the stream.
	MaxLen func(topic string) int64
	// Registerer takes the metrics. Nil: none.
	Registerer prometheus.Registerer
}

// Publisher publishes messages to streams. It is safe for concurrent use: who publishes at the same time shares round trips.
// A call whose reply is lost is repeated without a duplicate.
//
// It keeps a writer of a few kilobytes for each topic that it was given, and that writer's metrics, as long as it lives: topics are meant to
// be kinds of messages. What differs from message to message, such as a customer, belongs into the key.
type Publisher struct {
	client *tier.Client
	cfg    PublisherConfig

	mu      sync.Mutex
	outlets map[string]outlet // by topic, for good
	closed  bool
	calls   sync.WaitGroup
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher checks the configuration. It sends nothing. The client stays the caller's, who closes it. ErrConfig.
func NewPublisher(client *tier.Client, cfg PublisherConfig) (*Publisher, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: a publisher needs a client", ErrConfig)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.MaxLen != nil && cfg.Wire == Native {
		return nil, fmt.Errorf("%w: MaxLen is for the wire RedisStream: set a policy of retention (stream.SetRetention)", ErrConfig)
	}
	p := &Publisher{client: client, cfg: cfg, outlets: map[string]outlet{}}
	if _, err := p.newWriter("scope/stream", nil); err != nil { // which looks at Pack and MaxMessage
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return p, nil
}

// Publish appends the messages to the topic's stream, in their order, and returns when the server has them. Up to 4096
// messages of 8 MiB together, encoded, are appended all or none; of more, and on the wire RedisStream, an error may come when some are appended: then it is tier.ErrPartly. The context is that of the first message,
// and none is sent when that of another has ended.
//
// Errors: ErrClosed, ErrNilMessage, ErrReserved, *tier.NameError, *codec.LimitError, *stream.TooLargeError and the error of
// an ended context, before anything is sent; those of stream.Writer.Append. tier.OutcomeUnknown(err) says whether the messages
// may be in the log.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	for i, m := range messages {
		err := ErrNilMessage
		if m != nil {
			err = m.Context().Err()
		}
		if err != nil {
			return fmt.Errorf("bridge: publish to %.64q: message %d: %w", topic, i, err)
		}
	}
	o, err := p.outlet(topic)
	if err != nil {
		return err
	}
	defer p.calls.Done()
	if len(messages) == 0 {
		return nil
	}
	if err := o.publish(messages[0].Context(), messages); err != nil {
		return fmt.Errorf("bridge: publish to %.64q: %w", topic, err)
	}
	return nil
}

// outlet is where the messages of one topic go. It sends nothing when one of them is refused.
type outlet interface {
	publish(ctx context.Context, messages []*message.Message) error
}

// nativeOutlet publishes to a stream.
type nativeOutlet struct{ *stream.Writer }

func (o nativeOutlet) publish(ctx context.Context, messages []*message.Message) error {
	ms := make([]codec.Message, len(messages))
	for i, m := range messages {
		var err error
		if ms[i], err = encode(m); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	for rest := ms; len(rest) > 0; {
		n := atOnce(rest)
		if _, err := o.AppendBatch(ctx, rest[:n]); err != nil {
			return partly(err, len(rest) < len(ms))
		}
		rest = rest[n:]
	}
	return nil
}

// partly is the error of a call of which some messages are in the log, for who would publish all of them again.
func partly(err error, some bool) error {
	if !some {
		return err
	}
	return &tier.Error{Op: "publish", Class: tier.ErrPartly, Err: err}
}

// atOnce is how many of the messages, one at least, go in one call.
func atOnce(ms []codec.Message) (n int) {
	bytes := 0
	for n < min(len(ms), stream.MaxBatch) {
		bytes += ms[n].Size()
		if n > 0 && bytes > stream.MaxBatchBytes {
			break
		}
		n++
	}
	return n
}

// outlet is the topic's. A call is counted, for Close to wait for, unless there is an error.
func (p *Publisher) outlet(topic string) (outlet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	o := p.outlets[topic]
	if o == nil {
		var err error
		if o, err = p.newOutlet(topic); err != nil {
			return nil, err
		}
		p.outlets[topic] = o
	}
	p.calls.Add(1)
	return o, nil
}

func (p *Publisher) newOutlet(topic string) (outlet, error) {
	address, err := p.cfg.address(topic)
	if err != nil {
		return nil, err
	}
	if p.cfg.Wire == RedisStream {
		return newForeignOutlet(p.client, topic, &p.cfg)
	}
	w, err := p.newWriter(address, p.cfg.Registerer)
	return nativeOutlet{w}, err
}

func (p *Publisher) newWriter(address string, r prometheus.Registerer) (*stream.Writer, error) {
	return stream.NewWriter(p.client, stream.WriterConfig{Address: address, Pack: p.cfg.Pack, MaxMessage: p.cfg.MaxMessage, Registerer: r})
}

// Close waits for the calls under way; later ones are refused. The client stays open. It may be called more than once.
func (p *Publisher) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.calls.Wait()
	return nil
}
