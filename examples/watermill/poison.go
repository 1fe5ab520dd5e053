package main

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// poison puts what no handler can handle into a topic of its own.
func poison(ctx context.Context, b *backend) error {
	aside, err := middleware.PoisonQueue(b.publisher, "numbers.bad")
	if err != nil {
		return err
	}
	b.router.AddMiddleware(aside)
	if err := b.consume("adder", "numbers", func(m *message.Message) error {
		var n int
		_, err := fmt.Sscan(string(m.Payload), &n)
		return err
	}); err != nil {
		return err
	}
	return b.during(ctx, func() error {
		if err := b.publisher.Publish("numbers", text("1"), text("two")); err != nil {
			return err
		}
		return b.show(ctx, "numbers.bad", middleware.ReasonForPoisonedKey, middleware.PoisonedTopicKey)
	})
}
