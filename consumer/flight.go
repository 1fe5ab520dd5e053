package consumer

import (
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// flight is an entry from fetch to settle. The tracker changes it; what does not change is read freely.
type flight struct {
	entry    codec.EntryID
	messages []message

	weight     int // bytes
	deliveries int
	next       int   // the first message that no worker was given
	left       int   // messages that are not through
	failed     bool  // a handler failed: the entry is to come again
	cut        bool  // a stop got in the way: the entry is to be handed back
	poison     error // a message cannot be read: the entry is to be buried
	unsure     bool  // a settle of it may have happened
	gone       bool  // no longer pending on the server: nothing is to be done about it
	dropped    bool  // another's now: whatever becomes of it here has no effect
}

// message is one message of a flight, with the context of its handler.
type message struct {
	Delivery
	ctx     handling
	running bool
}

// verdict is what becomes of an entry once its messages are through.
type verdict uint8

const (
	toSettle   verdict = iota // every handler returned nil
	toRetry                   // a handler failed: released for later
	toHandBack                // a stop got in the way: released at once, and this delivery does not count
	toBury                    // not readable: to the dead letters
	toForget                  // not pending any more
	verdicts
)

// verdict prefers what repeats the least and loses nothing: readable messages of an entry that is to be buried are
// handled first, and come again with it when one of them fails.
func (f *flight) verdict() verdict {
	switch {
	case f.gone, f.dropped:
		return toForget
	case f.failed:
		return toRetry
	case f.cut:
		return toHandBack
	case f.poison != nil:
		return toBury
	default:
		return toSettle
	}
}

// held is the entry as it is released: what counts are the deliveries so far, this one too if it was used.
func (f *flight) held(v verdict) tier.Held {
	n := f.deliveries
	if v == toHandBack {
		n--
	}
	return tier.Held{Entry: f.entry, Deliveries: n}
}

// outcome is how one message's handler ended.
type outcome uint8

const (
	outcomeOK          outcome = iota
	outcomeError               // it returned an error, or ended its goroutine
	outcomePanic               //
	outcomeInterrupted         // it returned an error after the drain time
	outcomeLost                // it returned after the lease was lost
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"ok", "error", "panic", "interrupted", "lost"}[o]
}
