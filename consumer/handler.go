package consumer

import (
	"context"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Handler does the work that a message asks for. Nil settles the message; an error brings it back later, unless it is
// [Permanent]; [RetryAfter] and [Snooze] say when. A panic, and a runtime.Goexit, are errors of their message and of nothing
// else.
//
// The context carries the values of Run's context, but does not end with it: a handler may finish its work when the
// consumer stops. It ends when the handler returns, and before that when the work is in vain or has to give way:
// context.Cause then tells [ErrLeaseLost] or [ErrDrainTimeout]. A handler that does not heed it is let go on, but no
// longer waited for.
//
// Handlers run at the same time, up to Config.Concurrency of them.
type Handler func(ctx context.Context, d *Delivery) error

// Delivery is one message given to a handler. Its strings and bytes are parts of the server's reply: a handler that
// keeps a small part of one for long should clone it.
type Delivery struct {
	codec.Record
	// Attempt is 1 at first, and one more each time that the message is delivered. Deliveries that a stop has cut short, or
	// that were snoozed, do not count.
	Attempt int
	// MaxAttempts is the attempt after which it is given up, should its handler fail once more: that of its terms, or of the
	// consumer; 0: there is none.
	MaxAttempts int
	// Replay says that the message lies before what is live of the log: it was there when its cursor was made or moved, so
	// effects that are meant to happen once, when it is new, are best left out. Only exclusive sources tell this. Of whatever
	// source, a message with codec.HeaderReplayOf is one too: it repeats one of another stream.
	Replay bool

	// Terms are what the sender of the message asks for; nil: nothing. The consumer keeps to them before its own configuration, a
	// batch to those about time not.
	Terms *tier.Terms

	outputs []tier.Output
	notes   annotator // nil: it is no job
}

// MaxOutputs is how many outputs a message can have.
const MaxOutputs = 4096

// Emit adds effects that happen together with the settling of this message, exactly once, if its handler returns nil; else
// they are dropped. An output that cannot be written (another scope, a state that holds something else, an increment of
// what is no integer) makes its message fail for good, with the reason among the dead letters, and has no effect. They are
// written in their order. Emit is not safe for concurrent use.
func (d *Delivery) Emit(outputs ...tier.Output) { d.outputs = append(d.outputs, outputs...) }

// Outputs are those that were emitted so far.
func (d *Delivery) Outputs() []tier.Output { return d.outputs }
