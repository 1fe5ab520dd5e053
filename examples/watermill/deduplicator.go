package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/tier/stream"
)

// once makes a Deduplicator that all processes share, by the UUIDs of messages.
func (b *backend) once(name string) (*middleware.Deduplicator, error) {
	keys, err := bridge.NewKeyRepository(b.client, stream.SeenConfig{Scope: b.topics.Scope, Name: name, Window: time.Hour})
	return &middleware.Deduplicator{
		KeyFactory: func(m *message.Message) (string, error) { return m.UUID, nil },
		Repository: keys, Timeout: 10 * time.Second,
	}, err
}

// deduplicate handles what was published twice once.
func deduplicate(ctx context.Context, b *backend) error {
	dedup, err := b.once("till")
	if err != nil {
		return err
	}
	b.router.AddMiddleware(dedup.Middleware)
	paid := make(chan string)
	if err := b.consume("till", "payments", func(m *message.Message) error {
		paid <- string(m.Payload)
		return nil
	}); err != nil {
		return err
	}
	return b.during(ctx, func() error {
		if err := b.publisher.Publish("payments", text("ann pays"), text("ann pays"), text("bob pays")); err != nil {
			return err
		}
		for range 2 {
			fmt.Fprintln(b.out, <-paid)
		}
		return nil
	})
}
