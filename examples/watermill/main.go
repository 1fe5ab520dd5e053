// Command watermill shows that what comes with Watermill works on streams as on any backend. Each part is a program of its own:
//
//	export PIPELINE_URL=valkey://127.0.0.1:6379
//	go run . forwarder    # or requeuer, poison, deduplicator, cqrs, metrics
//	go run . shop         # a service with all of it, until it is stopped
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/tier"
)

var parts = map[string]func(ctx context.Context, b *backend) error{
	"forwarder": forward, "requeuer": requeue, "poison": poison, "deduplicator": deduplicate, "cqrs": command, "metrics": measure, "shop": shop,
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Getenv("PIPELINE_URL"), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, url string, args []string) error {
	if len(args) != 1 || parts[args[0]] == nil {
		return fmt.Errorf("want one of %s", strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
	}
	client, err := tier.Dial(ctx, url, tier.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	b := &backend{client: client, topics: bridge.Topics{Scope: "watermill"}, out: out}
	if b.publisher, err = bridge.NewPublisher(client, bridge.PublisherConfig{Topics: b.topics}); err != nil {
		return err
	}
	if b.router, err = message.NewRouter(message.RouterConfig{}, nil); err != nil {
		return err
	}
	return parts[args[0]](ctx, b)
}
