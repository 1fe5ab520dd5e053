package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream/aggregate"
	"github.com/echomq/pipeline/tier/tiertest"
)

// Stock is what the events of an article fold to.
type Stock struct{ Pieces int }

// foldStock gives the events their meaning.
func foldStock(s Stock, r codec.Record) (Stock, error) {
	n, err := strconv.Atoi(string(r.Data))
	if r.Type == "taken" {
		n = -n
	}
	return Stock{s.Pieces + n}, err
}

// Pieces are put into a store and taken out of it, and never more than there are, however many processes do so: what was
// decided is appended only if nothing else has happened to the article meanwhile.
func ExampleRepository() {
	ctx := context.Background()
	client, end := tiertest.Local(ctx)
	defer end()

	articles, err := aggregate.New(client, aggregate.Config[Stock]{Address: "store/articles", Fold: foldStock, Schema: 1})
	if err != nil {
		log.Fatal(err)
	}
	put := func(Stock) ([]codec.Message, error) {
		return []codec.Message{{Type: "put", Data: []byte("5")}}, nil
	}
	take := func(s Stock) ([]codec.Message, error) {
		if s.Pieces < 3 {
			return nil, errors.New("too few are left")
		}
		return []codec.Message{{Type: "taken", Data: []byte("3")}}, nil
	}
	for _, decide := range []func(Stock) ([]codec.Message, error){put, take, take} {
		if _, err := articles.Execute(ctx, "bolts", decide); err != nil {
			fmt.Println("refused:", err)
		}
	}
	bolts, err := articles.Load(ctx, "bolts")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bolts, at version %d\n", bolts.Value.Pieces, bolts.Version)
	// Output:
	// refused: too few are left
	// 2 bolts, at version 2
}
