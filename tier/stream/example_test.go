package stream_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func ExampleWriter() {
	ctx := context.Background()
	client, stop := tiertest.Local(ctx)
	defer stop()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	id, err := w.Append(ctx, codec.Message{Type: "order.placed", Key: "c-7", Data: []byte(`{"total":3}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id.Brand(), time.Since(id.Time()) < time.Minute)

	ids, err := w.AppendBatch(ctx, []codec.Message{{Type: "order.paid", Key: "c-7"}, {Type: "order.sent", Key: "c-7"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ids), id.Compare(ids[0]) < 0, ids[0].Compare(ids[1]) < 0)
	// Output:
	// ORD true
	// 2 true true
}

func ExampleWriter_Publish() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, stop := tiertest.Local(ctx)
	defer stop()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders", Pack: 100})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	<-w.Ready()
	done := 0
	for range 1000 {
		err := w.Publish(ctx, codec.Message{Type: "order.placed"}, func(_ codec.ID, err error) {
			if err == nil {
				done++ // callbacks come one after another
			}
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	cancel() // what is queued is sent first
	fmt.Println(<-ended, done)
	// Output: <nil> 1000
}

func ExampleWriter_AppendAt() {
	ctx := context.Background()
	client, stop := tiertest.Local(ctx)
	defer stop()

	// An importer that was restarted does not know whether line 2 went in. It says which line it is.
	for range 2 {
		w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders", Producer: "orders.csv"})
		if err != nil {
			log.Fatal(err)
		}
		for line := uint64(1); line <= 2; line++ {
			if _, err := w.AppendAt(ctx, line, []codec.Message{{Type: "order.placed", Key: fmt.Sprint(line)}}); err != nil {
				log.Fatal(err)
			}
		}
	}
	for info, err := range stream.Streams(ctx, client, "shop") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.Address, info.Brand, info.Length)
	}
	// Output: shop/orders ORD 2
}

func ExampleReader() {
	ctx := context.Background()
	client, stop := tiertest.Local(ctx)
	defer stop()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders", Pack: 2})
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	ids, err := w.AppendBatch(ctx, []codec.Message{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}, {Key: "e"}})
	if err != nil {
		log.Fatal(err)
	}

	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	for record, err := range r.Range(ctx, ids[1].ServerEntry(), ids[3].ServerEntry()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(record.Key, " ")
	}
	n := 0
	for _, err := range r.Since(ctx, began) {
		if err != nil {
			log.Fatal(err)
		}
		n++
	}
	one, err := r.Get(ctx, ids[2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, one.Key, one.ID == ids[2])
	// Output: b c d 5 c true
}

func ExampleReader_Tail() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, stop := tiertest.Local(ctx)
	defer stop()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Append(ctx, codec.Message{Key: "1"}); err != nil {
		log.Fatal(err)
	}
	for record, err := range r.Tail(ctx, codec.EntryID{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record.Key)
		if record.Key == "3" {
			cancel() // ends it
			continue
		}
		if _, err := w.Append(ctx, codec.Message{Key: string(record.Key[0] + 1)}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1
	// 2
	// 3
}

func ExampleGroup() {
	ctx := context.Background()
	client, stop := tiertest.Local(ctx)
	defer stop()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.AppendBatch(ctx, []codec.Message{{Key: "a"}, {Key: "b"}, {Key: "c"}}); err != nil {
		log.Fatal(err)
	}

	g, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/orders", Name: "mailer", Start: stream.Head()})
	if err != nil {
		log.Fatal(err)
	}
	m, err := g.Join(ctx, "mailer")
	if err != nil {
		log.Fatal(err)
	}
	leased, err := m.Read(ctx, 2, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range leased {
		fmt.Println(l.Records[0].Key, l.Deliveries)
	}
	acked, err := m.Settle(ctx, []codec.EntryID{leased[0].Entry})
	if err != nil {
		log.Fatal(err)
	}
	groups, err := stream.Groups(ctx, client, "shop/orders")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(acked, groups[0].Pending, groups[0].Lag)
	// Output:
	// a 1
	// b 1
	// 1 1 1
}

func ExampleMember_TakeOver() {
	ctx := context.Background()
	client, stop := tiertest.Local(ctx)
	defer stop()

	w, err := stream.NewWriter(client, stream.WriterConfig{Address: "shop/orders"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.AppendBatch(ctx, []codec.Message{{Key: "a"}, {Key: "b"}}); err != nil {
		log.Fatal(err)
	}
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/orders", Name: "mailer", Start: stream.Head()})
	if err != nil {
		log.Fatal(err)
	}
	sleeper, err := g.Join(ctx, "sleeper")
	if err != nil {
		log.Fatal(err)
	}
	leased, err := sleeper.Read(ctx, 2, 0)
	if err != nil {
		log.Fatal(err)
	}
	// It hands one back. Of one that stops without, others wait for the lease to end.
	if err := sleeper.Release(ctx, []tier.Returned{{Held: tier.Held{Entry: leased[1].Entry, Deliveries: leased[1].Deliveries}}}, 0); err != nil {
		log.Fatal(err)
	}
	other, err := g.Join(ctx, "other")
	if err != nil {
		log.Fatal(err)
	}
	taken, err := other.TakeOver(ctx, 10, allSuspects)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(taken.Leased[0].Records[0].Key, taken.Leased[0].Deliveries)

	_, err = sleeper.Settle(ctx, []codec.EntryID{leased[0].Entry, leased[1].Entry})
	fmt.Println(err)
	held, err := sleeper.Sync(ctx)
	fmt.Println(len(held), held[0].Entry == leased[0].Entry, err)
	// Output:
	// b 2
	// tier: refused: entries of this consumer were taken over
	// 1 true <nil>
}
