package bridge_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// orders passes each order on as an invoice. What it publishes, and what it is given, stands in streams of the scope shop.
func orders(client *tier.Client) (*message.Router, error) {
	topics := bridge.Topics{Scope: "shop"}
	publisher, err := bridge.NewPublisher(client, bridge.PublisherConfig{Topics: topics})
	if err != nil {
		return nil, err
	}
	subscriber, err := bridge.NewSubscriber(client, bridge.SubscriberConfig{Topics: topics, Group: "billing", MaxInFlight: 16})
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		return nil, err
	}
	router.AddHandler("billing", "orders", subscriber, "invoices", publisher, func(order *message.Message) ([]*message.Message, error) {
		return []*message.Message{message.NewMessage(watermill.NewUUID(), append([]byte("invoice for "), order.Payload...))}, nil
	})
	return router, nil
}

// Watermill's Router works on streams as on any backend.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	client, end := tiertest.Local(ctx) // a server of its own; a program would only tier.Dial
	defer end()
	router, err := orders(client)
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- router.Run(ctx) }()

	topics := bridge.Topics{Scope: "shop"}
	clients, err := bridge.NewPublisher(client, bridge.PublisherConfig{Topics: topics})
	if err != nil {
		log.Fatal(err)
	}
	if err := clients.Publish("orders", message.NewMessage(watermill.NewUUID(), []byte("a hat"))); err != nil {
		log.Fatal(err)
	}
	post, err := bridge.NewSubscriber(client, bridge.SubscriberConfig{Topics: topics, Group: "post"})
	if err != nil {
		log.Fatal(err)
	}
	invoices, err := post.Subscribe(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	invoice := <-invoices
	fmt.Printf("%s, delivery %s\n", invoice.Payload, invoice.Metadata[bridge.MetaAttempt])
	invoice.Ack()

	stop()
	if err := <-ran; err != nil {
		log.Fatal(err)
	}
	if err := post.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: invoice for a hat, delivery 1
}

// TestTheDocumentHasTheProgram keeps what docs/bridge.md shows the same as what is run here.
func TestTheDocumentHasTheProgram(t *testing.T) {
	document, err := os.ReadFile("../docs/bridge.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(document), "```go\n")
	require.True(t, found)
	program, _, _ := strings.Cut(rest, "```\n")
	require.Contains(t, string(source), program)
}
