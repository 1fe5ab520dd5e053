package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/bridge"
)

type (
	// PlaceOrder is a command.
	PlaceOrder struct {
		Order string
		Cents int
	}
	// OrderPlaced is an event.
	OrderPlaced struct {
		Order string
		Cents int
	}
)

// buses are those of a program: a topic for each kind of command and of event.
type buses struct {
	commands        *cqrs.CommandBus
	events          *cqrs.EventBus
	commandHandlers *cqrs.CommandProcessor
	eventHandlers   *cqrs.EventProcessor
}

func newBuses(b *backend) (s buses, err error) {
	names := bridge.MsgpackMarshaler{}
	var errs [4]error
	s.commands, errs[0] = cqrs.NewCommandBusWithConfig(b.publisher, cqrs.CommandBusConfig{
		Marshaler:            names,
		GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return p.CommandName, nil },
	})
	s.events, errs[1] = cqrs.NewEventBusWithConfig(b.publisher, cqrs.EventBusConfig{
		Marshaler:            names,
		GeneratePublishTopic: func(p cqrs.GenerateEventPublishTopicParams) (string, error) { return p.EventName, nil },
	})
	s.commandHandlers, errs[2] = cqrs.NewCommandProcessorWithConfig(b.router, cqrs.CommandProcessorConfig{
		Marshaler:              names,
		GenerateSubscribeTopic: func(p cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) { return p.CommandName, nil },
		SubscriberConstructor: func(p cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return b.subscriber(p.HandlerName)
		},
	})
	s.eventHandlers, errs[3] = cqrs.NewEventProcessorWithConfig(b.router, cqrs.EventProcessorConfig{
		Marshaler:              names,
		GenerateSubscribeTopic: func(p cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return p.EventName, nil },
		SubscriberConstructor: func(p cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return b.subscriber(p.HandlerName)
		},
	})
	return s, errors.Join(errs[:]...)
}

// command sends a command, whose handler publishes an event, whose handler prints it.
func command(ctx context.Context, b *backend) error {
	s, err := newBuses(b)
	if err != nil {
		return err
	}
	placed := make(chan *OrderPlaced)
	if err := errors.Join(
		s.commandHandlers.AddHandlers(cqrs.NewCommandHandler("place", func(ctx context.Context, c *PlaceOrder) error {
			return s.events.Publish(ctx, OrderPlaced(*c))
		})),
		s.eventHandlers.AddHandlers(cqrs.NewEventHandler("print", func(_ context.Context, e *OrderPlaced) error {
			placed <- e
			return nil
		})),
	); err != nil {
		return err
	}
	return b.during(ctx, func() error {
		if err := s.commands.Send(ctx, PlaceOrder{Order: "o-1", Cents: 1250}); err != nil {
			return err
		}
		e := <-placed
		fmt.Fprintln(b.out, "placed", e.Order, e.Cents)
		return nil
	})
}
