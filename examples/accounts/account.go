package main

import (
	"fmt"

	"github.com/echomq/pipeline/codec"
)

// What happens to an account. An event is a fact: it is named in the past tense, and never changed.
type (
	// Opened has the type account.opened.
	Opened struct{ Cents int }
	// Moved has the type money.sent in the account that it left, and money.received in the other.
	Moved struct {
		Transfer string // names both halves, and makes a repeated transfer harmless
		Other    string // account
		Cents    int
	}
)

var (
	opened = codec.Msgpack[Opened]()
	moved  = codec.Msgpack[Moved]()
)

// Account is what the events of one account fold to.
type Account struct {
	Open      bool
	Cents     int
	Transfers map[string]bool // that were seen
}

// fold is the account after an event. It is all that gives events a meaning.
func fold(a Account, r codec.Record) (Account, error) {
	switch r.Type {
	case "account.opened":
		e, err := opened.Decode(&r.Message)
		return Account{Open: true, Cents: e.Cents}, err
	case "money.sent", "money.received":
		e, err := moved.Decode(&r.Message)
		if r.Type == "money.sent" {
			e.Cents = -e.Cents
		}
		if a.Transfers == nil {
			a.Transfers = map[string]bool{}
		}
		a.Transfers[e.Transfer] = true
		a.Cents += e.Cents
		return a, err
	}
	return a, fmt.Errorf("an event of type %q, which this program does not know", r.Type)
}

// upcasts turn events of old programs into those of today. The first one counted whole euros.
var upcasts = codec.Upcasts{
	"account.opened.euros": func(m *codec.Message) error {
		old, err := codec.Msgpack[struct{ Euros int }]().Decode(m)
		if err != nil {
			return err
		}
		m.Type = "account.opened"
		return opened.Encode(m, Opened{Cents: 100 * old.Euros})
	},
}
