package stream

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// What waits inside a writer cannot be seen from outside; tests of cancelling wait for it.

// Queued is how many messages wait to be sent.
func (w *Writer) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, b := range w.queue {
		n += len(b.messages)
	}
	return n
}

// Busy: somebody sends, or waits for an answer.
func (w *Writer) Busy() bool { return len(w.line) > 0 }

// Redeclared reads what the scope's hash says of a stream, and says it again.
func Redeclared(text string) (identity codec.Identity, removed bool, again string, err error) {
	d, err := parseDeclaration(text)
	known := declared{codec.Identity{Brand: d.brand, Exclusive: d.kind == exclusive}, d.kind, d.mark}
	return known.Identity, d.removed, known.text(), err
}

// Sender is a sender without a server, for a model test: what it does depends on answers in an order that no server
// gives on demand.
type Sender struct{ s sender }

// Batch is what the sender was given.
type Batch struct{ b *batch }

func NewSender() *Sender {
	x := &Sender{}
	x.s.newProducer("")
	return x
}

// Add gives the sender a batch to send. It takes at most 8 at a time.
func (x *Sender) Add(messages ...string) *Batch {
	b := &batch{parcel: parcel{messages: messages}, size: 1, turn: newTurn()}
	x.s.sent = append(x.s.sent, b)
	return &Batch{b}
}

func (x *Sender) Sending() int { return len(x.s.sent) }

// Round is one round of a writer: with what the calls are answered, or that none could be made.
func (x *Sender) Round(retryFor time.Duration, serve func([]tier.Call) []Answer, failed error) error {
	defer x.s.tell()
	x.s.begin(retryFor)
	if failed != nil {
		x.s.failed(failed, retryFor)
		return nil
	}
	x.s.declare = false
	if err := x.s.assign(declared{Identity: codec.Identity{Brand: "ORD"}}); err != nil {
		return err
	}
	calls, err := x.s.calls(tier.Address{Scope: "s", Stream: "orders"})
	if err != nil {
		return err
	}
	answers := make([]answer, len(calls))
	for i, a := range serve(calls) {
		answers[i] = answer{code: a.Code, err: a.Err, receipt: receipt{first: a.First, count: a.Count, size: 1}}
	}
	x.s.absorb(answers, retryFor)
	return nil
}

// Answer is the script's answer to a call, or an error.
type Answer struct {
	Code  string
	First codec.EntryID
	Count int
	Err   error
}

// Done reports whether the batch has ended, with what error, and with what receipt.
func (b *Batch) Done() (done bool, first codec.EntryID, err error) {
	return b.b.over(), b.b.receipt.first, b.b.err
}

// Page is what a reader holds of a log.
type Page struct{ Entries, Bytes int }

// Pages are the pages of a walk from an address to the end.
func (r *Reader) Pages(ctx context.Context, from codec.EntryID, follow bool) (pages []Page, err error) {
	c := newWalk(r.place, from, codec.MaxEntryID)
	c.follow = follow
	for !c.done {
		page, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 && follow {
			break
		}
		p := Page{Entries: len(page)}
		for i := range page {
			for _, f := range page[i].Fields {
				p.Bytes += len(f)
			}
		}
		pages = append(pages, p)
	}
	return pages, nil
}

// ReadReplies reads a reply in every way that this package has for one.
func ReadReplies(m rueidis.RedisMessage) (entries []codec.Entry, held []tier.Held) {
	entries, err := entriesOf(m)
	if err != nil && entries != nil {
		panic("entries beside an error")
	}
	held, _ = heldOf(m)
	if code, r, err := parseReceipt(m); err == nil && (code == "ok" || code == "dup") {
		b := &batch{parcel: parcel{messages: make([]string, 3)}}
		if b.accept(r) == nil {
			b.ids(0, 3)
		}
	}
	number(m)
	entryID(m)
	for n := range 7 {
		_, _ = tier.Parts("fuzz", m, n)
		_, _ = tier.Texts("fuzz", m, n)
	}
	_, _ = groupRowsOf("key", m)
	return entries, held
}

// PlaceSlice is one step of Place.
func (r *Restoration) PlaceSlice(ctx context.Context) (more bool, err error) {
	return r.placeSlice(ctx)
}

// HandOver hands messages over to the server, and gives them up: their callers have gone.
func (w *Writer) HandOver(ctx context.Context, ms []codec.Message) (handed bool, err error) {
	p, err := w.encode(ms)
	if err != nil {
		return false, err
	}
	identity, err := w.identity(ctx, false)
	if err != nil {
		return false, err
	}
	b, _ := w.open(p, len(ms))
	b.messages = p.messages
	given := w.more(identity, 0, 1, 1)
	w.direct.handed = w.direct.hand(ctx, w.direct.txs[0], sending{sender: &w.out, addr: w.place.addr, identity: identity}, given)
	w.out.sent = nil
	return w.direct.handed != nil, nil
}
