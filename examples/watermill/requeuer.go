package main

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// requeue puts letters that could not be sent into a topic of their own, and the Requeuer brings them back.
func requeue(ctx context.Context, b *backend) error {
	s, err := b.subscriber("requeuer")
	if err != nil {
		return err
	}
	aside, err := middleware.PoisonQueue(b.publisher, "letters.failed")
	if err != nil {
		return err
	}
	if _, err := requeuer.NewRequeuer(requeuer.Config{
		Subscriber: s, SubscribeTopic: "letters.failed", Publisher: b.publisher, Router: b.router,
		GeneratePublishTopic: func(p requeuer.GeneratePublishTopicParams) (string, error) {
			return p.Message.Metadata[middleware.PoisonedTopicKey], nil
		},
	}, watermill.NopLogger{}); err != nil {
		return err
	}
	mailer, err := b.subscriber("mailer")
	if err != nil {
		return err
	}
	b.router.AddHandler("mailer", "letters", mailer, "letters.sent", b.publisher, func(m *message.Message) ([]*message.Message, error) {
		if m.Metadata[requeuer.RetriesKey] == "" {
			return nil, errors.New("the mail server is away")
		}
		return message.Messages{m}, nil
	}).AddMiddleware(aside)
	return b.during(ctx, func() error {
		if err := b.publisher.Publish("letters", text("dear ann")); err != nil {
			return err
		}
		return b.show(ctx, "letters.sent", requeuer.RetriesKey)
	})
}
