package consumer

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// flight is an entry from fetch to settle. The tracker changes it; what does not change is read freely.
type flight struct {
	entry    codec.EntryID
	messages []message   // none while there is a pack, nor when all are done
	pack     *codec.Pack // that no worker has decoded yet

	weight     int // bytes
	deliveries int
	n          int          // messages
	left       int          // messages that are not through, as far as the tracker was told
	done       int32        // messages that are done, and have no outputs, as far as it was told; with next it fills a word
	next       atomic.Int32 // the first message that no worker was given, see claim
	at         int          // its place among the flights of the tracker
	here       bool         // among them
	begun      bool         // a worker was given one of its messages
	narrowed   bool         // others of its messages were settled before, or have attempts of their own: the server has a row of it
	suspect    bool         // it may be what ended the consumers that had it before
	unsure     bool         // a settle of it may have happened
	gone       bool         // no longer pending on the server: nothing is to be done about it
	dropped    bool         // another's now: whatever becomes of it here has no effect
}

// packed is a flight with its pack.
type packed struct {
	flight
	pack codec.Pack
}

// shut is a place behind all messages.
const shut = 1 << 30

// claim gives out the next message to begin; nil: there is none. Workers may call it without the lock while they hold a message of the
// flight; they report what they finished with their last one.
func (f *flight) claim() *message {
	for {
		i := int(f.next.Add(1)) - 1
		if i >= len(f.messages) {
			return nil
		}
		if m := &f.messages[i]; m.fate == fateOpen {
			return m
		}
	}
}

// shut lets no message be begun any more, and returns those that were not.
func (f *flight) shut() []message {
	rest := f.messages[min(int(f.next.Swap(shut)), len(f.messages)):]
	for i := range rest {
		rest[i].idle.Store(true)
	}
	return rest
}

// running appends the messages whose handlers are at work.
func (f *flight) running(dst []*message) []*message {
	for i := range f.messages[:min(int(f.next.Load()), len(f.messages))] {
		if m := &f.messages[i]; !m.idle.Load() {
			dst = append(dst, m)
		}
	}
	return dst
}

// message is one message of a flight, with the context of its handler. A handler may keep it, so its memory is not used again:
// each byte of it is garbage for each message.
type message struct {
	Delivery
	ctx  handling
	lane *lane // it waits in, or holds up; nil: none

	death *death        // fateDead; of fateAgain, why
	pause time.Duration // until it is due: fateAgain, fateLater
	fate  fate
	alone bool        // it was not begun, since it may be what ended its consumers: fateLater
	idle  atomic.Bool // no handler has it: it is through, or waits in a lane, or is never begun
}

// turn is a message on its way: it waits for a worker, or one has it. Or it is a pack, see undecoded.
type turn struct {
	f    *flight
	m    *message
	done int // other messages of the flight that its worker is through with, and the tracker was not told of
}

// follow gives out the message behind one that is done, of those that no lane has. False: there is none, or it may not be begun, and the
// tracker is to be told.
func (w turn) follow() (turn, bool) {
	if int(w.f.next.Load()) >= len(w.f.messages) || len(w.m.outputs) > 0 {
		return turn{}, false
	}
	w.m.idle.Store(true)
	m := w.f.claim()
	if m == nil {
		return turn{}, false
	}
	w.m.fate = fateDone
	return turn{w.f, m, w.done + 1}, true
}

// undecoded says that a worker is to decode the pack of the flight first: there is no message yet.
func (w turn) undecoded() bool { return w.m == nil }

func (w turn) isOpen() bool { return !w.f.dropped && w.m.fate == fateOpen }

// death is why a message is given up, or comes again.
type death struct {
	reason string
	cause  string // the same, in a word, for the metrics
}

// why is why its handler failed.
func (m *message) why() string {
	if m.death == nil {
		return ""
	}
	return m.death.reason
}

// verdict is what becomes of an entry once its messages are through.
type verdict uint8

const (
	toSettle   verdict = iota // all of it is done
	toCommit                  // something of it comes again later, or is given up, or has outputs
	toHandBack                // a stop got in the way: what is open is released at once, and this delivery does not count
	toForget                  // not pending any more
	verdicts
)

func (f *flight) verdict() verdict {
	if f.gone || f.dropped {
		return toForget
	}
	if f.pack != nil {
		return toHandBack
	}
	v := toSettle
	for i := range f.messages {
		switch m := &f.messages[i]; m.fate {
		case fateOpen:
			v = max(v, toHandBack)
		case fateAgain, fateLater, fateDead:
			return toCommit
		case fateDone:
			if len(m.outputs) > 0 {
				return toCommit
			}
		}
	}
	if v == toSettle && f.narrowed {
		return toCommit // which removes the row
	}
	return v
}

// ending is what the source is told of a flight of which not all is done, or that has outputs. What was not begun is due
// at once.
func (f *flight) ending() tier.Ending {
	a := tier.Ending{Entry: f.entry, Deliveries: f.deliveries}
	for i := range f.messages {
		m := &f.messages[i]
		switch m.fate {
		case fateAgain:
			a.Open = append(a.Open, tier.Open{Index: m.Position.Index, Attempt: m.Attempt, Delay: m.pause, Reason: m.why()})
		case fateLater, fateOpen:
			a.Open = append(a.Open, tier.Open{Index: m.Position.Index, Attempt: m.Attempt - 1, Delay: m.pause, Suspect: m.alone})
		case fateDead:
			a.Dead = append(a.Dead, tier.Letter{Index: f.indexOf(m), Reason: m.death.reason, Attempts: m.Attempt})
		case fateDone:
			a.Outputs = append(a.Outputs, m.outputs...)
		}
	}
	return a
}

// refuse makes the message whose output it is, counted among all of the flight, one that is given up.
func (f *flight) refuse(output int, err error) {
	for i := range f.messages {
		m := &f.messages[i]
		if m.fate != fateDone {
			continue
		}
		if output < len(m.outputs) {
			m.fate, m.death = fateDead, &death{clip(fmt.Sprintf("output %d (%s): %v", output, m.outputs[output].Kind, err)), deadPermanent}
			return
		}
		output -= len(m.outputs)
	}
}

// effects is how many outputs a flight has.
func (f *flight) effects() (n int) {
	for i := range f.messages {
		n += len(f.messages[i].outputs)
	}
	return n
}

// letters is how many of its messages are given up.
func (f *flight) letters() (n int) {
	for i := range f.messages {
		if f.messages[i].fate == fateDead {
			n++
		}
	}
	return n
}

// indexOf is a message's index in its pack; -1 when it is the whole entry.
func (f *flight) indexOf(m *message) int {
	if m.Position.Index == 0 && m.Addr == f.entry {
		return -1
	}
	return m.Position.Index
}

// handedBack is the entry as it is released: its delivery does not count.
func (f *flight) handedBack() tier.Returned {
	h := tier.Returned{Held: tier.Held{Entry: f.entry, Deliveries: f.deliveries - 1}}
	done := f.narrowed
	for i := range f.messages {
		m := &f.messages[i]
		if m.fate == fateDone {
			done = true
			continue
		}
		h.Open = append(h.Open, tier.Open{Index: m.Position.Index, Attempt: m.Attempt})
	}
	if !done {
		h.Open = nil
	}
	return h
}

// held is the entry as it is released when the server refuses to commit it: as it was, this delivery counted.
func (f *flight) held() tier.Returned {
	return tier.Returned{Held: tier.Held{Entry: f.entry, Deliveries: f.deliveries}}
}

// outcome is how one message's handler ended.
type outcome uint8

const (
	outcomeOK          outcome = iota
	outcomeError               // it returned an error, or ended its goroutine
	outcomePanic               //
	outcomeSnoozed             // it is not ready for the message yet
	outcomeInterrupted         // it returned an error after the drain time
	outcomeLost                // it returned after the lease was lost
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"ok", "error", "panic", "snoozed", "interrupted", "lost"}[o]
}
