package projection_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
	"github.com/echomq/pipeline/tier/stream"
)

type balance struct{ Cents int }

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := embedded.Start(ctx, embedded.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Kill()
	client, err := tier.Dial(ctx, server.URL(), tier.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/payments"})
	if err != nil {
		log.Fatal(err)
	}
	for _, cents := range []string{"500", "-120", "20"} {
		if _, err := w.Append(ctx, codec.Message{Type: "paid", Key: "ann", Data: []byte(cents)}); err != nil {
			log.Fatal(err)
		}
	}

	folded := make(chan struct{}, 3)
	balances, err := projection.NewTable(client, projection.TableConfig[balance]{
		Config: projection.Config{Address: "shop/payments", Name: "balances"},
		Fold: func(b balance, d *consumer.Delivery) (balance, error) {
			cents, err := strconv.Atoi(string(d.Data))
			if err != nil {
				return b, consumer.Permanent(err) // to the dead letters; any other error is tried again
			}
			if b.Cents+cents > 300 && !d.Replay { // not when a later version is made from history
				d.Emit(tier.AppendTo("shop/notices", codec.Message{Key: d.Key, Data: []byte("rich")}))
			}
			folded <- struct{}{}
			return balance{b.Cents + cents}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- balances.Run(ctx) }()
	for range 3 {
		<-folded
	}
	cancel() // what was folded is committed
	if err := <-done; err != nil {
		log.Fatal(err)
	}

	view, err := projection.NewView[balance](client, "shop", "balances", nil)
	if err != nil {
		log.Fatal(err)
	}
	b, ok, err := view.Get(context.Background(), "ann")
	fmt.Println(b.Cents, ok, err)
	// Output: 400 true <nil>
}
