package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// Payments are added up in a state, by one owner of a cursor at a time. The second fails at first, after it has emitted, and
// is counted once all the same: what a handler emits happens with the settling of its message, or not at all.
func ExampleExclusive() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/payments"})
	if err != nil {
		log.Fatal(err)
	}
	for _, cents := range []string{"100", "20", "3"} {
		if _, err := w.Append(ctx, codec.Message{Key: "ann", Data: []byte(cents)}); err != nil {
			log.Fatal(err)
		}
	}

	c, err := ledger(client)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		printReceipts(ctx, client, 3)
		cancel() // a program would wait for a signal
	}()
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}

	balances, err := client.StateFields(context.Background(), "shop", "balances", "ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ann has paid", balances[0].Value)
	// Output:
	// receipt for ann: 100
	// receipt for ann: 20
	// receipt for ann: 3
	// ann has paid 123
}

// ledger adds payments up in the state balances, and writes a receipt for each. Any number of processes may run it: one at a time
// handles messages, those of a customer in their order, and each payment counts once, whatever is handled again.
func ledger(client *tier.Client) (*consumer.Consumer, error) {
	cursor, err := stream.NewCursor(client, stream.CursorConfig{Address: "shop/payments", Name: "ledger", Start: stream.Head()})
	if err != nil {
		return nil, err
	}
	handler := func(_ context.Context, d *consumer.Delivery) error {
		cents, err := strconv.ParseInt(string(d.Data), 10, 64)
		if err != nil {
			return consumer.Permanent(err) // to the dead letters; any other error is tried again
		}
		d.Emit(tier.HashIncrement("balances", d.Key, cents), tier.AppendTo("shop/receipts", codec.Message{Key: d.Key, Data: d.Data}))
		if cents == 20 && d.Attempt == 1 {
			return errors.New("the till is stuck") // what was emitted is dropped
		}
		return nil
	}
	return consumer.New(consumer.Exclusive(cursor), handler, consumer.Config{Order: consumer.ByKey, Backoff: time.Millisecond})
}

// printReceipts prints the first n receipts of the shop, as they come.
func printReceipts(ctx context.Context, client *tier.Client, n int) {
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "shop/receipts"})
	if err != nil {
		log.Fatal(err)
	}
	for receipt, err := range r.Tail(ctx, codec.EntryID{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("receipt for %s: %s\n", receipt.Key, receipt.Data)
		if n--; n == 0 {
			return
		}
	}
}

// The shop sends an invoice to another scope, which no handler of the shop can write to in the same step as it settles: by way
// of an outbox, from where a forwarder takes it on. Both may die anywhere, and there is one invoice.
func ExampleNewForwarder() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end := tiertest.Local(ctx)
	defer end()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Append(ctx, codec.Message{Type: "order.placed", Key: "ann"}); err != nil {
		log.Fatal(err)
	}
	group, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/orders", Name: "invoices", Start: stream.Head()})
	if err != nil {
		log.Fatal(err)
	}
	handler := func(_ context.Context, d *consumer.Delivery) error {
		out, err := consumer.ToOutbox("shop/outbox", "billing/invoices", codec.Message{Type: "invoice.due", Key: d.Key})
		if err != nil {
			return consumer.Permanent(err)
		}
		d.Emit(out)
		return nil
	}
	shop, err := consumer.New(consumer.Group(group), handler, consumer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	forwarder, err := consumer.NewForwarder(client, consumer.ForwarderConfig{Outbox: "shop/outbox"})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- shop.Run(ctx) }()
	go func() { ended <- forwarder.Run(ctx) }()

	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "billing/invoices"})
	if err != nil {
		log.Fatal(err)
	}
	for invoice, err := range r.Tail(ctx, codec.EntryID{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(invoice.Type, "by", invoice.Key)
		break
	}
	cancel()
	if err := errors.Join(<-ended, <-ended); err != nil {
		log.Fatal(err)
	}
	// Output:
	// invoice.due by ann
}
