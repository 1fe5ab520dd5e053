package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// inFlight is how many messages are out at a subscription.
const inFlight = 100

var (
	bridgePublishWork = Work{
		Name: "bridge-publish", What: "Publish of Watermill, one message a call, from many goroutines",
		ceiling: ceilingAppend, atOnce: appenders, contestant: func(a *arena) contestant { return &bridgePublishes{arena: a} },
	}
	bridgeWork = Work{
		Name: "bridge", What: "Subscribe of Watermill, with 100 messages out, each acked, from Subscribe to the last one settled",
		ceiling: ceilingConsume, atOnce: inFlight, contestant: func(a *arena) contestant { return &bridgeSubscribes{arena: a} },
		latency: bridgeLatency,
	}
)

// topics are the streams of this run.
func (a *arena) topics() bridge.Topics { return bridge.Topics{Scope: a.scope} }

// sink publishes what it is given. The library of Watermill is the bridge's alone, and this is its way to be called without.
func (a *arena) sink(topic string) (handle consumer.Handler, closed func() error, err error) {
	p, err := bridge.NewPublisher(a.client, bridge.PublisherConfig{Topics: a.topics()})
	if err != nil {
		return nil, nil, err
	}
	return bridge.Sink(p, topic), p.Close, nil
}

// handed is a message as a consumer hands it to a sink.
func handed(m codec.Message) *consumer.Delivery {
	return &consumer.Delivery{Record: codec.Record{ID: handedID, Message: m}}
}

var handedID = func() codec.ID {
	id, err := codec.Parse("ORD0STI5N2TpNA")
	if err != nil {
		panic(err) // it is a constant
	}
	return id
}()

// topic is a new one, with the key of its log.
func (a *arena) topic() (name, log string) {
	address := a.address()
	return address.Stream, tier.Address{Scope: a.scope, Stream: bridge.StreamOf(address.Stream)}.LogKey()
}

type bridgePublishes struct {
	*arena
	n      int
	log    string
	handle consumer.Handler
	end    func() error
}

func (b *bridgePublishes) prepare(_ context.Context, n int) (err error) {
	var topic string
	topic, b.log = b.topic()
	b.n = n
	b.handle, b.end, err = b.sink(topic)
	return err
}

func (b *bridgePublishes) run(ctx context.Context) error {
	return shared(ctx, b.concurrency(appenders), b.n, func(ctx context.Context, i int) error { return b.handle(ctx, handed(b.message(i))) })
}

func (b *bridgePublishes) keys() []string { return []string{b.log} }

func (b *bridgePublishes) clean(ctx context.Context) error {
	if b.end == nil {
		return nil
	}
	return errors.Join(b.end(), b.delete(ctx, b.log))
}

// bridgeSubscribes is one subscription at full speed.
type bridgeSubscribes struct {
	*arena
	n    int
	name string // of the topic
	log  string
	from *bridge.Subscriber
}

func (b *bridgeSubscribes) prepare(ctx context.Context, n int) (err error) {
	b.n = n
	b.name, b.log = b.topic()
	if err := b.fillStream(ctx, b.scope+"/"+bridge.StreamOf(b.name), 1, n); err != nil {
		return err
	}
	b.from, err = b.subscriber()
	return err
}

func (a *arena) subscriber() (*bridge.Subscriber, error) {
	return bridge.NewSubscriber(a.client, bridge.SubscriberConfig{
		Topics: a.topics(), Group: groupName, Start: stream.Head(), MaxInFlight: a.concurrency(inFlight),
	})
}

// run acks by as many goroutines as there may be messages out, as the Router does.
func (b *bridgeSubscribes) run(ctx context.Context) error {
	out, err := b.from.Subscribe(ctx, b.name)
	if err != nil {
		return err
	}
	err = shared(ctx, b.concurrency(inFlight), b.n, func(ctx context.Context, _ int) error {
		select {
		case m, ok := <-out:
			if !ok {
				return errors.New("bench: the subscription has ended")
			}
			if len(m.Payload) != b.size {
				return fmt.Errorf("bench: a message of %d bytes, sent were %d", len(m.Payload), b.size)
			}
			m.Ack()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return err
	}
	return settled(ctx, b.pending(b.log))
}

func (b *bridgeSubscribes) keys() []string { return []string{b.log} }

func (b *bridgeSubscribes) clean(ctx context.Context) error {
	if b.from == nil {
		return nil
	}
	return errors.Join(b.from.Close(), b.delete(ctx, b.log))
}

// bridgeLatency is the time from Publish to when the subscription hands it out.
func bridgeLatency(ctx context.Context, a *arena, l *openLoop) (err error) {
	topic, log := a.topic()
	defer func() { err = errors.Join(err, a.delete(context.WithoutCancel(ctx), log)) }()
	from, err := a.subscriber()
	if err != nil {
		return err
	}
	out, err := from.Subscribe(ctx, topic)
	if err != nil {
		return err
	}
	acking := inBackground(ctx, func(context.Context) error {
		for m := range out { // until Close
			l.arrivedWith(m.Payload)
			m.Ack()
		}
		return nil
	})
	defer func() { err = errors.Join(err, from.Close(), acking.end()) }()
	handle, closed, err := a.sink(topic)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	return l.run(ctx, true, func(ctx context.Context, i int) error {
		m := a.message(i)
		m.Data = l.data(a, i)
		return handle(ctx, handed(m))
	})
}
