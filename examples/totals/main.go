// Command totals folds orders into a SQLite file: what each customer has ordered, each order counted once. It shows a
// projection into a store of one's own; docs/projections.md explains it. It needs a server:
//
//	export PIPELINE_URL=valkey://127.0.0.1:6379
//	pipeline produce shop/orders orders.csv --key customer
//	go run . fold totals.db &
//	go run . show totals.db
//
// Any number of processes may fold: one does, the others stand by.
//
// It is a module of its own, so that SQLite is nothing that users of the library have to verify or download.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
)

// Order is the payload of a message, as 'pipeline produce' makes it of a row.
type Order struct {
	Total string `json:"total"`
}

var payload = codec.JSON[Order]()

const (
	address = "shop/orders"
	name    = "totals" // of the projection
)

// version of what is made of the orders. A higher one is made from the head, in tables of its own, beside the live one.
const version = 1

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("PIPELINE_URL"), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

var errUsage = errors.New("fold FILE | show FILE")

func run(ctx context.Context, url string, args []string) error {
	if len(args) != 2 || args[0] != "fold" && args[0] != "show" {
		return errUsage
	}
	client, err := tier.Dial(ctx, url, tier.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	if args[0] == "show" {
		return show(ctx, client, args[1])
	}
	return fold(ctx, client, args[1], 5*time.Second)
}

// fold counts orders until ctx ends, whenever it is this process's turn. Lease is how long the totals stand still when the
// process that folds dies.
func fold(ctx context.Context, client *tier.Client, file string, lease time.Duration) error {
	s, err := openStore(ctx, file, version)
	if err != nil {
		return err
	}
	defer s.db.Close()
	p, err := projection.NewStored(client, projection.Config{
		Address: address, Name: name, Version: version, Lease: lease, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, s)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// show prints the totals of the live version, once all orders are in them that there were.
func show(ctx context.Context, client *tier.Client, file string) error {
	live, err := upToDate(ctx, client)
	if err != nil {
		return err
	}
	s, err := openStore(ctx, file, live)
	if err != nil {
		return err
	}
	defer s.db.Close()
	list, err := s.totals(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		fmt.Printf("%s %d orders %d.%02d\n", t.customer, t.orders, t.cents/100, t.cents%100)
	}
	n, err := s.refused(ctx)
	if err == nil && n > 0 {
		fmt.Println(n, "refused")
	}
	return err
}

// upToDate waits until the live version lacks nothing: the store is never behind what the server knows of it.
func upToDate(ctx context.Context, client *tier.Client) (live int, err error) {
	for told := false; ; told = true {
		list, err := projection.List(ctx, client, address)
		if err != nil {
			return 0, err
		}
		for _, i := range list {
			if i.Projection == name && i.Live && i.Lag == 0 {
				return i.Version, nil
			}
		}
		if !told {
			log.Print("waiting for a process that folds")
		}
		if !tier.Pause(ctx, 50*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
}
