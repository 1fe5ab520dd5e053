package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// Two clerks want the last seat, and both have seen version 1 of the flight. The one who comes second is refused whole, and
// reads what the other did.
func ExampleWriter_AppendIf() {
	ctx := context.Background()
	client, end := tiertest.Local(ctx)
	defer end()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "air/flights", Keyed: true})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Append(ctx, codec.Message{Type: "flight.opened", Key: "LH-1"}); err != nil {
		log.Fatal(err)
	}
	for _, clerk := range []string{"ann", "bob"} {
		sold := codec.Message{Type: "seat.sold", Key: "LH-1", Data: []byte(clerk)}
		_, err := w.AppendIf(ctx, []codec.Message{sold}, stream.ExpectVersion("LH-1", 1))
		if conflict, lost := errors.AsType[*stream.ConflictError](err); lost {
			fmt.Printf("%s: %s has version %s, not %s\n", clerk, conflict.Key, conflict.Got, conflict.Want)
		} else if err != nil {
			log.Fatal(err)
		}
	}

	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "air/flights"})
	if err != nil {
		log.Fatal(err)
	}
	for v, err := range r.ReadKey(ctx, "LH-1", 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(v.Version, v.Type)
	}
	// Output:
	// bob: LH-1 has version 2, not 1
	// 1 flight.opened
	// 2 seat.sold
}
