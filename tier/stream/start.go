package stream

import (
	"time"

	"github.com/echomq/pipeline/codec"
)

// Start is where a group begins to read. It is always declared; the zero value is none.
type Start struct {
	kind startKind
	at   codec.EntryID
}

type startKind uint8

const (
	startNone startKind = iota
	startHead
	startNew
	startAt
)

// Head begins with the oldest message.
func Head() Start { return Start{kind: startHead} }

// New begins with what is appended after the group was created.
func New() Start { return Start{kind: startNew} }

// FromEntry begins with the message at an address, or the first one after it.
func FromEntry(at codec.EntryID) Start { return Start{kind: startAt, at: at} }

// FromID begins with the message of an id, or the first one after it; of an exclusive stream that is
// FromEntry(id.HostEntry()).
func FromID(id codec.ID) Start { return FromEntry(id.ServerEntry()) }

// FromTime begins with the first message at or after t, by the server's clock. Groups are not made to begin in the future,
// see FutureStartError.
func FromTime(t time.Time) Start { return FromEntry(codec.FloorEntry(t)) }

// after is the id after which the group reads, as XGROUP has it.
func (s Start) after() string {
	switch {
	case s.kind == startNew:
		return "$"
	case s.kind == startAt:
		return s.at.Prev().String()
	default:
		return "0-0"
	}
}
