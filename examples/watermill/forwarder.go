package main

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
)

// forward publishes to a topic by way of another, from where the Forwarder takes messages on.
func forward(ctx context.Context, b *backend) error {
	s, err := b.subscriber("forwarder")
	if err != nil {
		return err
	}
	if _, err = forwarder.NewForwarder(s, b.publisher, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: "outbox", Router: b.router}); err != nil {
		return err
	}
	return b.during(ctx, func() error {
		outbox := forwarder.NewPublisher(b.publisher, forwarder.PublisherConfig{ForwarderTopic: "outbox"})
		if err := outbox.Publish("parcels", text("a hat")); err != nil {
			return err
		}
		return b.show(ctx, "parcels")
	})
}
