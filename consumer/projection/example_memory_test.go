package projection_test

import (
	"context"
	"fmt"
	"log"
	"strconv"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// shelf is how many pieces there are of each article.
type shelf struct{ Pieces map[string]int }

func foldShelf(s shelf, d *consumer.Delivery) (shelf, error) {
	n, err := strconv.Atoi(string(d.Data))
	if err != nil {
		return s, nil // passed over: an error would end Run
	}
	s.Pieces[d.Key] += n
	return s, nil
}

func newShelf(client *tier.Client) (*projection.Memory[shelf], error) {
	return projection.NewMemory(client, projection.MemoryConfig[shelf]{
		Address: "store/moves", Name: "shelf", Version: 1, // of shelf and foldShelf
		New:  func() shelf { return shelf{map[string]int{}} },
		Fold: foldShelf,
	})
}

// Each process has the whole state in its memory. One that starts goes on from the snapshot that another has kept: here
// everything before has been purged.
func ExampleMemory() {
	ctx := context.Background()
	client, end := tiertest.Local(ctx)
	defer end()
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "store/moves"})
	if err != nil {
		log.Fatal(err)
	}
	for _, pieces := range []string{"5", "-2", "4"} {
		if _, err := w.Append(ctx, codec.Message{Key: "bolts", Data: []byte(pieces)}); err != nil {
			log.Fatal(err)
		}
		shelf, err := newShelf(client)
		if err != nil {
			log.Fatal(err)
		}
		if err := show(ctx, shelf); err != nil {
			log.Fatal(err)
		}
		if _, err := stream.Purge(ctx, client, "store/moves"); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 5 bolts
	// 3 bolts
	// 7 bolts
}

// show runs it for as long as it takes to look.
func show(ctx context.Context, m *projection.Memory[shelf]) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	<-m.Ready()
	m.View(func(s shelf) { fmt.Println(s.Pieces["bolts"], "bolts") })
	stop() // the state is kept
	return <-done
}
