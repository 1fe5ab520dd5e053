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

// Three mails are sent with one call of the mail server, which does not take the second one yet: it alone comes again.
func ExampleNewBatch() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/mails"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.AppendBatch(ctx, []codec.Message{{Key: "ann"}, {Key: "bob"}, {Key: "cem"}}); err != nil {
		log.Fatal(err)
	}
	group, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/mails", Name: "mailer", Start: stream.Head()})
	if err != nil {
		log.Fatal(err)
	}
	sent := 0
	handler := func(_ context.Context, batch []*consumer.Delivery) []error {
		verdicts := make([]error, len(batch)) // nil: it is done
		for i, d := range batch {
			if d.Key == "bob" && d.Attempt == 1 {
				verdicts[i] = consumer.RetryAfter(errors.New("mailbox full"), time.Millisecond)
				continue
			}
			sent++
		}
		fmt.Printf("a batch of %d, %d sent\n", len(batch), sent)
		if sent == 3 {
			cancel() // a program would wait for a signal
		}
		return verdicts
	}
	// With 3 messages or after a quarter of a second, whichever is first.
	c, err := consumer.NewBatch(consumer.Group(group), handler, consumer.Config{Concurrency: 1, BatchSize: 3, BatchWait: time.Second / 4})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// a batch of 3, 2 sent
	// a batch of 1, 3 sent
}
