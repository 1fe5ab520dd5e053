// Command orders appends three orders to a stream and lets a group handle them. It needs a server:
//
//	PIPELINE_URL=valkey://127.0.0.1:6379 go run ./examples/orders
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync/atomic"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Order is the payload of a message.
type Order struct {
	Customer string
	Cents    int
}

var payload = codec.Msgpack[Order]()

func main() {
	if err := run(context.Background(), os.Getenv("PIPELINE_URL")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	client, err := tier.Dial(ctx, url, tier.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := place(ctx, client); err != nil {
		return err
	}
	return mail(ctx, client)
}

// place appends orders. Each gets its id from the server, and stands once even if a reply is lost and it is sent again.
func place(ctx context.Context, client *tier.Client) error {
	writer, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders"})
	if err != nil {
		return err
	}
	for _, order := range []Order{{"ann", 1250}, {"bob", 320}, {"ann", 9900}} {
		m := codec.Message{Type: "order.placed", Key: order.Customer}
		if err := payload.Encode(&m, order); err != nil {
			return err
		}
		id, err := writer.Append(ctx, m)
		if err != nil {
			return err
		}
		fmt.Println("placed", id)
	}
	return nil
}

// mail handles the orders as the group "mailer". Other processes that do the same share the work, and take over what
// one leaves undone that dies.
func mail(ctx context.Context, client *tier.Client) error {
	group, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/orders", Name: "mailer", Start: stream.Head()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mailed atomic.Int32
	handle := func(ctx context.Context, d *consumer.Delivery) error {
		order, err := payload.Decode(&d.Message)
		if err != nil {
			return err // it comes again
		}
		fmt.Printf("mailed %s to %s: %d.%02d\n", d.ID, order.Customer, order.Cents/100, order.Cents%100)
		if mailed.Add(1) == 3 {
			stop() // this example ends; a service goes on
		}
		return nil // it is settled
	}
	c, err := consumer.New(consumer.Group(group), handle, consumer.Config{})
	if err != nil {
		return err
	}
	return c.Run(ctx) // until ctx ends: then it finishes what it has begun, and hands the rest back
}
