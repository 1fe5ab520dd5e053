package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream/aggregate"
)

// Bank decides.
type Bank struct {
	accounts *aggregate.Repository[Account]
}

// NewBank sends nothing.
func NewBank(client *tier.Client) (*Bank, error) {
	accounts, err := aggregate.New(client, aggregate.Config[Account]{
		Address: "bank/accounts",
		Fold:    fold,
		Schema:  1, // raise it when Account or fold changes: snapshots of the old one are not used then
		Upcasts: upcasts,
	})
	return &Bank{accounts}, err
}

// What is decided against.
var (
	ErrExists    = errors.New("the account exists")
	ErrNoAccount = errors.New("no such account")
	ErrTooLittle = errors.New("too little money")
	ErrNonsense  = errors.New("a transfer is of some money, to another account")
)

// Open opens an account.
func (b *Bank) Open(ctx context.Context, account string, cents int) error {
	_, err := b.accounts.Execute(ctx, account, func(a Account) ([]codec.Message, error) {
		if a.Open {
			return nil, ErrExists
		}
		m := codec.Message{Type: "account.opened"}
		err := opened.Encode(&m, Opened{cents})
		return []codec.Message{m}, err
	})
	return err
}

// Transfer moves money. Both events are appended, or none, and only if nothing else happened to either account meanwhile:
// then it is decided again. Whoever does not know whether a transfer was made, since the process or the connection died in
// the middle of it, asks for it again, with the same id.
func (b *Bank) Transfer(ctx context.Context, id, from, to string, cents int) error {
	if from == to || cents <= 0 {
		return ErrNonsense
	}
	_, err := b.accounts.ExecuteAll(ctx, []string{from, to}, func(states ...Account) ([]codec.Message, error) {
		sender, receiver := states[0], states[1]
		switch {
		case sender.Transfers[id]:
			return nil, nil // it was made before
		case !sender.Open || !receiver.Open:
			return nil, ErrNoAccount
		case sender.Cents < cents:
			return nil, ErrTooLittle
		}
		sent := codec.Message{Type: "money.sent", Key: from}
		received := codec.Message{Type: "money.received", Key: to}
		err := errors.Join(
			moved.Encode(&sent, Moved{id, to, cents}),
			moved.Encode(&received, Moved{id, from, cents}),
		)
		return []codec.Message{sent, received}, err
	})
	return err
}

// Balance is what is in an account, in cents.
func (b *Bank) Balance(ctx context.Context, account string) (int, error) {
	a, err := b.accounts.Load(ctx, account)
	if err == nil && !a.Value.Open {
		err = fmt.Errorf("%w: %s", ErrNoAccount, account)
	}
	return a.Value.Cents, err
}
