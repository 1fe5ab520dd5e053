package topology_test

import (
	"context"
	"fmt"
	"log"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology"
	"github.com/echomq/pipeline/topology/stage"
)

// A pipeline that is declared in Go: checked, applied and run until all is through.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, end := tiertest.Local(ctx) // in a program: tier.Dial(ctx, "redis://localhost:6379", tier.Options{})
	defer end()

	doc := &topology.Document{
		Name: "sales",
		Scopes: map[string]topology.Scope{"sales": {Streams: map[string]topology.Stream{
			"orders": {External: true}, "large": {},
		}}},
		Stages: map[string]stage.Config{
			"large": {From: "sales/orders", To: "sales/large", Filter: "data.total >= 100"},
		},
	}
	if err := doc.Check(); err != nil { // all that is wrong, with its path
		log.Fatal(err)
	}
	plan, err := topology.PlanOf(ctx, client, doc)
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range plan.Changes {
		fmt.Println(change.Verb, change.Thing())
	}
	if err := plan.Apply(ctx, client, topology.ApplyOptions{}); err != nil {
		log.Fatal(err)
	}

	orders, err := stream.NewWriter(client, stream.WriterConfig{Address: "sales/orders"})
	if err != nil {
		log.Fatal(err)
	}
	for customer, total := range map[string]int{"ann": 120, "bob": 5} {
		if _, err := orders.Append(ctx, codec.Message{Key: customer, Data: fmt.Appendf(nil, `{"total": %d}`, total)}); err != nil {
			log.Fatal(err)
		}
	}

	run, err := topology.NewRun(client, doc, topology.RunOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Run(ctx) }()
	if err := run.Drained(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	large, err := stream.NewReader(client, stream.ReaderConfig{Address: "sales/large"})
	if err != nil {
		log.Fatal(err)
	}
	for m, err := range large.Range(context.Background(), codec.EntryID{}, codec.MaxEntryID) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Key, string(m.Data))
	}
	// Output:
	// create stream sales/large
	// create stream sales/orders
	// create cursor large of sales/orders
	// ann {"total": 120}
}

// Cases say what stages make of given messages; no server is asked.
func ExampleDocument_Try() {
	doc := &topology.Document{
		Name:   "sales",
		Scopes: map[string]topology.Scope{"sales": {Streams: map[string]topology.Stream{"orders": {External: true}, "large": {}}}},
		Stages: map[string]stage.Config{"large": {From: "sales/orders", To: "sales/large", Filter: "data.total >= 100"}},
	}
	found, err := doc.Try(context.Background(), topology.Case{
		Given:  map[string][]topology.Sample{"sales/orders": {{Data: map[string]any{"total": 120}}, {Data: map[string]any{"total": 5}}}},
		Expect: map[string][]topology.Sample{"sales/large": {{Data: map[string]any{"total": 121}}}},
	}, stage.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range found {
		fmt.Println(m.Where)
		for _, l := range m.Lines {
			fmt.Println(l.Sign, l.Text)
		}
	}
	// Output:
	// stream sales/large
	// - {"data":{"total":121}}
	// + {"data":{"total":120}}
}
