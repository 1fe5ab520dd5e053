package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// backend is all that the parts know of streams.
type backend struct {
	client    *tier.Client
	topics    bridge.Topics
	publisher message.Publisher
	router    *message.Router
	out       io.Writer
}

// subscriber is one of a group.
func (b *backend) subscriber(group string) (message.Subscriber, error) {
	return bridge.NewSubscriber(b.client, bridge.SubscriberConfig{
		Topics: b.topics, Group: group, MaxInFlight: 4, Lease: time.Second, // short, for a service that is killed all the time
		Consumer: consumer.Config{Backoff: 10 * time.Millisecond},
	})
}

// consume adds a handler to the router.
func (b *backend) consume(name, topic string, handle message.NoPublishHandlerFunc) error {
	s, err := b.subscriber(name)
	if err == nil {
		b.router.AddConsumerHandler(name, topic, s, handle)
	}
	return err
}

// during lets the router work while f does.
func (b *backend) during(ctx context.Context, f func() error) error {
	ran := make(chan error, 1)
	go func() { ran <- b.router.Run(ctx) }()
	<-b.router.Running()
	return errors.Join(f(), b.router.Close(), <-ran)
}

// show prints the next message of a topic, when there is one.
func (b *backend) show(ctx context.Context, topic string, metadata ...string) error {
	s, err := b.subscriber("show")
	if err != nil {
		return err
	}
	messages, err := s.Subscribe(ctx, topic)
	if err != nil {
		return err
	}
	m, open := <-messages
	if !open {
		return ctx.Err()
	}
	fmt.Fprintf(b.out, "%s: %s", topic, m.Payload)
	for _, key := range metadata {
		fmt.Fprintf(b.out, ", %s %s", key, m.Metadata[key])
	}
	fmt.Fprintln(b.out)
	m.Ack()
	return s.Close()
}

func text(s string) *message.Message { return message.NewMessage(s, []byte(s)) }
