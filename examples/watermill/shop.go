package main

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

var errNegative = errors.New("nobody pays less than nothing")

// shop is a service: commands become events, events become invoices. What was sent twice is handled once, what fails is tried again, and what
// always fails goes to the topic "poison". Any number of processes share the work, and whatever becomes of them, no command is lost.
func shop(ctx context.Context, b *backend) error {
	aside, err := middleware.PoisonQueue(b.publisher, "poison")
	if err != nil {
		return err
	}
	dedup, err := b.once("shop")
	if err != nil {
		return err
	}
	retry := middleware.Retry{MaxRetries: 2, InitialInterval: 5 * time.Millisecond}
	b.router.AddMiddleware(aside, dedup.Middleware, retry.Middleware, middleware.Recoverer)
	s, err := newBuses(b)
	if err != nil {
		return err
	}
	if err := errors.Join(
		s.commandHandlers.AddHandlers(cqrs.NewCommandHandler("place", func(ctx context.Context, c *PlaceOrder) error {
			if c.Cents < 0 {
				return errNegative
			}
			return s.events.Publish(ctx, OrderPlaced(*c))
		})),
		s.eventHandlers.AddHandlers(cqrs.NewEventHandler("invoice", func(ctx context.Context, e *OrderPlaced) error {
			invoice := text(e.Order)
			invoice.SetContext(ctx)
			return b.publisher.Publish("invoices", invoice)
		})),
	); err != nil {
		return err
	}
	return b.router.Run(ctx)
}
