package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// direct is the short way to the log: a transaction appends the messages of some batches by commands of their own, which cost the
// server two thirds of what they cost in a script, and a script at its end notes their receipts, or takes them out again. It
// is taken by many messages of a writer that is one of many, unconditional and in good order; everything else, and
// everything that went wrong, goes by the scripts, under the same numbers.
//
// Two transactions take turns. While the server runs one, it is handed the commands of the next, which run once the one before is known to have
// gone through.
type direct struct {
	client  *tier.Client
	txs     [2]*tier.Transaction // the first one is the next to run
	able    bool                 // the server gives one transaction's entries ids that follow one another
	allowed bool                 // the user may do all of it
	open    bool                 // a transaction has run since something went wrong

	heads    heads
	producer string
	handed   *transaction // to the first one; nil: none
	rest     time.Time    // before which it is not tried
}

// What goes by a script as fast, and what is too little to be handed over before it may run: more may come until then.
const (
	directMessages = 32       // fewer entries
	directAgain    = 8        // or of these, when a transaction is open
	directBytes    = 32 << 10 // or bytes of them
	directPack     = 8 << 10  // or bytes of a pack
	aheadEntries   = writeEntries / 2
	aheadBytes     = writeBytes / 2
	directRest     = time.Second
)

func newDirect(client *tier.Client) direct {
	return direct{client: client, txs: [2]*tier.Transaction{client.Transaction(), client.Transaction()}, able: client.Server().StillClock()}
}

// takes reports whether all of some batches can go this way, and is enough.
func (d *direct) takes(s sending, batches []*batch) bool {
	if !d.able || len(batches) == 0 || s.named || s.mint != nil || s.identity.kind != "" || batches[0].number < 2 || time.Now().Before(d.rest) {
		return false
	}
	entries, bytes := 0, 0
	for _, b := range batches {
		if b.only != nil || b.unknown || b.last != nil {
			return false
		}
		entries, bytes = entries+b.entries(), bytes+b.sentBytes()
	}
	if batches[0].size > 1 {
		return bytes >= entries*directPack
	}
	return entries >= directMessages || bytes >= directBytes || entries >= directAgain && d.open
}

// sending is what a writer has to be sent.
type sending struct {
	*sender
	addr     tier.Address
	identity declared
}

// send sends what the sender has numbered, of which only the first ones may be answered. While the server works, it hands over what may go
// next, of what more brings behind the first so many. It answers nil when nothing had an effect, and the scripts are to be called; else since when the server has it, too.
func (d *direct) send(ctx context.Context, s sending, more func(sent int) []*batch) ([]answer, time.Time) {
	t := d.handed
	if d.handed = nil; t == nil && d.takes(s, s.sent) {
		s.tell() // opening a transaction may take as long as any call, and their messages are in the log
		t = d.hand(ctx, d.txs[0], s, s.sent)
	}
	if t == nil {
		return nil, time.Time{}
	}
	ran, err := d.txs[0].Run(ctx, func() {
		s.tell()
		if next := more(len(t.batches)); d.takes(s, next) {
			d.handed = d.hand(ctx, d.txs[1], s, next)
		}
	}, t.read)
	if d.handed != nil {
		d.txs[0], d.txs[1] = d.txs[1], d.txs[0]
	}
	for _, b := range t.batches { // as the answers say
		b.unknown = false
	}
	if err == nil && !ran {
		d.pause()
		return nil, time.Time{}
	}
	d.open = true
	for i := range t.answers {
		if err != nil {
			t.answers[i] = answer{err: err}
		}
		gone := t.answers[i].err == nil && t.answers[i].code == "ok"
		if t.batches[i].written = gone; !gone {
			d.pause()
		}
	}
	return t.answers, t.since
}

// start has what was handed over run, or else what the sender has numbered, before somebody sends and waits for the answer.
func (d *direct) start(ctx context.Context, s sending) {
	if d.handed == nil && d.takes(s, s.sent) {
		d.handed = d.hand(ctx, d.txs[0], s, s.sent)
	}
	if d.handed == nil {
		return
	}
	for _, b := range d.handed.batches {
		b.unknown = true
	}
	d.handed.since = time.Now()
	d.txs[0].Start(ctx)
}

// keep gives up what was handed over unless the sender still has it to be sent next, under the same numbers.
func (d *direct) keep(s *sender) {
	t := d.handed
	if t != nil && (d.producer != s.producer || len(s.sent) < len(t.batches) || !slices.Equal(t.batches, s.sent[:len(t.batches)])) {
		d.txs[0].Discard()
		d.handed = nil
	}
}

// hand hands batches over. Nothing else is sent: when it fails, the scripts tell what is wrong, or go on without.
func (d *direct) hand(ctx context.Context, tx *tier.Transaction, s sending, batches []*batch) *transaction {
	keys := []string{s.addr.LogKey(), s.addr.ProducerKey(s.producer), tier.ScopeKey(s.addr.Scope)}
	if !d.may(ctx, keys) {
		return nil
	}
	if d.producer != s.producer {
		d.producer, d.heads = s.producer, headsOf(keys)
	}
	t := &transaction{heads: d.heads, sending: s, batches: batches, since: time.Now(), answers: make([]answer, len(batches))}
	if err := tx.Hand(ctx, keys[0], t.write); err != nil {
		d.able = !errors.Is(err, tier.ErrPermission)
		d.pause()
		return nil
	}
	return t
}

// heads are the beginnings of the commands of a transaction.
type heads struct{ entry, pack, room, follow, last, receipt []byte }

func headsOf(keys []string) heads {
	script := func(args int, name, which string, keys ...string) []byte {
		return tier.CommandHead(args, slices.Concat([]string{name, which, strconv.Itoa(len(keys))}, keys)...)
	}
	return heads{
		entry: tier.CommandHead(1, "XADD", keys[0], "*", "m"),
		pack:  tier.CommandHead(1, "XADD", keys[0], "NOMKSTREAM", "*", "b"),
		// Not known to the server, these leave nothing, and the receipt takes the packs out.
		room:   script(3, "EVALSHA", roomScript.Digest(), keys...),
		follow: script(2, "EVALSHA", followScript.Digest(), keys[:2]...),
		last:   script(3, "EVALSHA", followScript.Digest(), keys[:2]...),
		// By its source: by its digest, the server might not know it, after what came before it was done.
		receipt: script(10, "EVAL", receiptScript.Code(), keys...),
	}
}

// may asks, once and after each trouble, whether the user may do all that the transaction does, and makes the server know the scripts.
func (d *direct) may(ctx context.Context, keys []string) bool {
	if d.allowed {
		return true
	}
	results := d.client.RunMulti(ctx,
		tier.Call{Script: roomScript, Keys: keys, Args: []string{"0", "", ""}},
		tier.Call{Script: followScript, Keys: keys[:2], Args: []string{"0", "0"}}, // which has nothing to follow
	)
	if err := cmp.Or(results[0].Err, results[1].Err); err != nil {
		d.pause()
		return false
	}
	may, err := results[0].Message.AsInt64()
	d.allowed = err == nil && may == 1
	d.able = d.allowed
	return d.allowed
}

// pause leaves the way to the scripts for a while. What was handed over never runs.
func (d *direct) pause() {
	if d.handed != nil {
		d.txs[0].Discard()
	}
	d.handed, d.open, d.allowed = nil, false, false
	d.rest = time.Now().Add(directRest)
}

// transaction is what one sends and is answered: of each batch its entries, and behind them the script that notes their receipt.
type transaction struct {
	heads
	sending
	batches []*batch
	since   time.Time // the server has it
	ends    []int     // the places of the batches' receipts among the commands
	done    bool      // of the batch that is read, something was
	answers []answer
}

// write writes the commands, and returns how many.
func (t *transaction) write(c *tier.Conn) (commands int) {
	above, ttl, field := t.above.load().String(), strconv.FormatInt(producerTTL.Milliseconds(), 10), tier.StreamField(t.addr.Stream)
	for _, b := range t.batches {
		if b.size == 1 {
			for _, message := range b.messages {
				c.Send(t.entry, message)
			}
			commands += len(b.messages)
		} else {
			for i := range b.entries() {
				group := b.group(i)
				switch size, last := strconv.Itoa(len(group)), strconv.Itoa(i*b.size+len(group)-1); {
				case i == 0:
					c.Send(t.room, size, above, field)
				case i == b.entries()-1:
					c.Send(t.last, last, size, "1")
				default:
					c.Send(t.follow, last, size)
				}
				if b.packed != nil {
					c.Send(t.pack, b.packed[2*i+1])
				} else {
					c.SendParts(t.pack, codec.AppendPackHead(nil, len(group), sizeOf(group)), group)
				}
			}
			commands += 2 * b.entries()
		}
		c.Send(t.receipt, strconv.FormatUint(b.number, 10), ttl, field, above,
			strconv.Itoa(t.receipts(b)), strconv.Itoa(len(b.messages)), strconv.Itoa(b.entries()), strconv.Itoa(min(b.size, len(b.messages))),
			strconv.Itoa(t.identity.Node), t.identity.text())
		t.ends = append(t.ends, commands)
		commands++
	}
	return commands
}

// read reads the reply to the i-th command.
func (t *transaction) read(c *tier.Conn, i int) error {
	at, ends := slices.BinarySearch(t.ends, i)
	if !ends {
		_, err := c.Skip()
		t.done = t.done || err == nil
		if err != nil && errors.As(err, new(tier.Refusal)) { // the receipt tells what comes of it
			return nil
		}
		return err
	}
	reply, err := c.Value()
	var refusal tier.Refusal
	switch {
	case err == nil:
		t.answers[at] = answerOf(reply)
	case !errors.As(err, &refusal):
		return err
	case t.done: // messages are in the log, and nothing says so to who repeats them
		t.answers[at].err = &tier.Error{Op: "append", Key: t.addr.LogKey(), Class: tier.ErrPartly, Err: refusal}
	default:
		t.answers[at].code = "again"
	}
	t.done = false
	return nil
}

// answerOf reads a reply of receipt.lua.
func answerOf(reply any) (a answer) {
	parts, _ := reply.([]any)
	if len(parts) != 4 {
		return answer{err: fmt.Errorf("stream: append: unexpected reply %v", reply)}
	}
	a.code, _ = parts[0].(string)
	count, _ := parts[2].(int64)
	size, _ := parts[3].(int64)
	a.receipt.count, a.receipt.size = int(count), int(size)
	if a.code != "ok" {
		return a
	}
	first, _ := parts[1].(string)
	a.receipt.first, a.err = codec.ParseEntryID(first)
	return a
}
