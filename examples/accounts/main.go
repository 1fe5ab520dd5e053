// Command accounts is a bank whose accounts are event-sourced; docs/event-sourcing.md explains it. It needs a server:
//
//	export PIPELINE_URL=valkey://127.0.0.1:6379
//	go run ./examples/accounts open ann 10000
//	go run ./examples/accounts open bob 0
//	go run ./examples/accounts transfer t1 ann bob 2500
//	go run ./examples/accounts balance ann bob
//	go run ./examples/accounts history ann
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Getenv("PIPELINE_URL"), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

var errUsage = errors.New("open ACCOUNT CENTS | transfer ID FROM TO CENTS | balance ACCOUNT... | history ACCOUNT")

func run(ctx context.Context, url string, args []string) error {
	client, err := tier.Dial(ctx, url, tier.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	bank, err := NewBank(client)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 3 && args[0] == "open":
		cents, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return bank.Open(ctx, args[1], cents)
	case len(args) == 5 && args[0] == "transfer":
		cents, err := strconv.Atoi(args[4])
		if err != nil {
			return err
		}
		return bank.Transfer(ctx, args[1], args[2], args[3], cents)
	case len(args) > 1 && args[0] == "balance":
		for _, account := range args[1:] {
			cents, err := bank.Balance(ctx, account)
			if err != nil {
				return err
			}
			fmt.Println(account, cents)
		}
		return nil
	case len(args) == 2 && args[0] == "history":
		return history(ctx, client, args[1])
	}
	return errUsage
}

// history shows how an account came to be what it is.
func history(ctx context.Context, client *tier.Client, account string) error {
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: "bank/accounts", Upcasts: upcasts})
	if err != nil {
		return err
	}
	var a Account
	for e, err := range r.ReadKey(ctx, account, 1) {
		if err == nil {
			err = e.Err
		}
		if err == nil {
			a, err = fold(a, e.Record)
		}
		if err != nil {
			return err
		}
		fmt.Println(e.Version, e.Type, a.Cents)
	}
	return nil
}
