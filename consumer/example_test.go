package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// Three orders are handled by a group. The second fails at first, and comes again.
func ExampleConsumer() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders", Brand: "ORD"})
	if err != nil {
		log.Fatal(err)
	}
	for _, customer := range []string{"ann", "bob", "cem"} {
		if _, err := w.Append(ctx, codec.Message{Type: "order.placed", Key: customer}); err != nil {
			log.Fatal(err)
		}
	}

	group, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/orders", Name: "mailer", Start: stream.Head()})
	if err != nil {
		log.Fatal(err)
	}
	left := 3
	handler := func(_ context.Context, d *consumer.Delivery) error {
		if d.Key == "bob" && d.Attempt == 1 {
			fmt.Println("bob: his mailbox is full")
			return errors.New("mailbox full")
		}
		fmt.Printf("%s: %s, attempt %d\n", d.Key, d.Type, d.Attempt)
		if left--; left == 0 {
			cancel() // a program would wait for a signal
		}
		return nil
	}
	c, err := consumer.New(consumer.Group(group), handler, consumer.Config{Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped")

	// Output:
	// ann: order.placed, attempt 1
	// bob: his mailbox is full
	// cem: order.placed, attempt 1
	// bob: order.placed, attempt 2
	// stopped
}

// A stream with partitions: each message goes to the one of its key, and each partition has one owner, who handles the messages
// of a key in order. More processes that run this share the partitions out among themselves.
func ExamplePartitioned() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	if err := stream.Partition(ctx, client, "shop", 4); err != nil {
		log.Fatal(err)
	}
	w, err := stream.NewPartitionedWriter(client, stream.WriterConfig{Address: "shop/orders", Brand: "ORD"})
	if err != nil {
		log.Fatal(err)
	}
	for _, kind := range []string{"placed", "paid", "shipped"} {
		if _, err := w.Append(ctx, codec.Message{Type: kind, Key: "ann"}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("ann's orders are in partition", codec.Partition("ann", 4))

	cursor, err := stream.NewPartitionedCursor(client, stream.CursorConfig{Address: "shop/orders", Name: "mailer", Start: stream.Head()})
	if err != nil {
		log.Fatal(err)
	}
	handler := func(_ context.Context, d *consumer.Delivery) error {
		fmt.Println(d.Key, d.Type)
		if d.Type == "shipped" {
			cancel() // normally Run goes on until the process ends
		}
		return nil
	}
	p, err := consumer.NewPartitioned(cursor, handler, consumer.Config{Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// ann's orders are in partition 3
	// ann placed
	// ann paid
	// ann shipped
}
