package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// direct is the short way to the log: a transaction appends the messages of some batches by commands of their own, which cost the
// server two thirds of what they cost in a script, and a script at its end notes their receipts, or takes them out again. It
// is taken by many messages of a writer that is one of many, unconditional and in good order; everything else, and
// everything that went wrong, goes by the scripts, under the same numbers.
type direct struct {
	client  *tier.Client
	tx      *tier.Transaction
	able    bool // the server gives one transaction's entries ids that follow one another
	allowed bool // the user may do all of it

	heads    heads
	producer string // whose last number the open transaction has seen
	last     uint64
	open     bool
	rest     time.Time // before which it is not tried
}

// What goes by a script as fast.
const (
	directMessages = 32       // fewer entries
	directAgain    = 8        // or of these, when a transaction is open, which is void after a script
	directBytes    = 32 << 10 // or bytes of them
	directPack     = 8 << 10  // or bytes of a pack
	directRest     = time.Second
)

func newDirect(client *tier.Client) direct {
	return direct{client: client, tx: client.Transaction(), able: client.Server().StillClock()}
}

// takes reports whether all that is sent can go this way, and is enough.
func (d *direct) takes(s *sender, identity declared) bool {
	if !d.able || s.named || s.mint != nil || identity.kind != "" || s.sent[0].number < 2 || time.Now().Before(d.rest) {
		return false
	}
	entries, bytes := 0, 0
	for _, b := range s.sent {
		if b.only != nil || b.unknown || b.last != nil {
			return false
		}
		entries, bytes = entries+b.entries(), bytes+b.sentBytes()
	}
	if s.sent[0].size > 1 {
		return bytes >= entries*directPack
	}
	return entries >= directMessages || bytes >= directBytes || entries >= directAgain && d.begun(s)
}

// send sends what the sender has numbered. It answers nil when nothing had an effect, and the scripts are to be called.
func (d *direct) send(ctx context.Context, s *sender, addr tier.Address, identity declared) []answer {
	if !d.takes(s, identity) {
		return nil
	}
	keys := []string{addr.LogKey(), addr.ProducerKey(s.producer), tier.ScopeKey(addr.Scope)}
	if !d.begun(s) {
		s.tell() // it may take long
		d.begin(ctx, s, keys, tier.StreamField(addr.Stream), identity)
		if !d.begun(s) {
			return nil
		}
	}
	t := transaction{heads: d.heads, sender: s, log: keys[0], field: tier.StreamField(addr.Stream), answers: make([]answer, len(s.sent))}
	seen, ran, err := d.tx.Exec(ctx, t.write, s.tell, t.read)
	d.look(seen, identity)
	if err == nil && !ran {
		d.pause()
		return nil
	}
	for i := range t.answers {
		if err != nil {
			t.answers[i] = answer{err: err}
		}
		if err != nil || t.answers[i].code == "again" {
			d.pause()
		}
		s.sent[i].written = t.answers[i].err == nil && t.answers[i].code == "ok"
	}
	return t.answers
}

// begun reports whether the open transaction has seen what these batches follow.
func (d *direct) begun(s *sender) bool {
	return d.open && d.producer == s.producer && d.last == s.sent[0].number-1
}

// begin opens a transaction. Nothing is sent but that: when it fails, the scripts tell what is wrong, or go on without.
func (d *direct) begin(ctx context.Context, s *sender, keys []string, field string, identity declared) {
	d.open = false
	if !d.may(ctx, keys) {
		return
	}
	seen, err := d.tx.Open(ctx, keys[1:], []string{"GET", keys[1]}, []string{"HMGET", keys[2], "node", field})
	if err != nil {
		d.able = !errors.Is(err, tier.ErrPermission)
		d.pause()
		return
	}
	d.producer, d.heads = s.producer, headsOf(keys)
	d.look(seen, identity)
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
		receipt: script(8, "EVAL", receiptScript.Source, keys...),
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

func (d *direct) pause() {
	d.open, d.allowed = false, false
	d.rest = time.Now().Add(directRest)
}

// look takes what the next transaction has seen.
func (d *direct) look(seen []any, identity declared) {
	d.open, d.last = false, 0
	if len(seen) != 2 {
		return
	}
	held, _ := seen[0].(string)
	row, _ := seen[1].([]any)
	number, _, _ := strings.Cut(held, " ")
	last, err := strconv.ParseUint(number, 10, 64)
	if err != nil || len(row) != 2 {
		return
	}
	d.last = last
	d.open = row[0] == strconv.Itoa(identity.Node) && row[1] == identity.text()
}

// transaction is what one sends and is answered: of each batch its entries, and behind them the script that notes their receipt.
type transaction struct {
	heads
	sender  *sender
	log     string
	field   string // of the stream in the scope
	ends    []int  // the places of the batches' receipts among the commands
	done    bool   // of the batch that is read, something was
	answers []answer
}

// write writes the commands, and returns how many.
func (t *transaction) write(c *tier.Conn) (commands int) {
	above, ttl := t.sender.above.load().String(), strconv.FormatInt(producerTTL.Milliseconds(), 10)
	for _, b := range t.sender.sent {
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
					c.Send(t.room, size, above, t.field)
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
		c.Send(t.receipt, strconv.FormatUint(b.number, 10), ttl, t.field, above,
			strconv.Itoa(t.sender.receipts(b)), strconv.Itoa(len(b.messages)), strconv.Itoa(b.entries()), strconv.Itoa(min(b.size, len(b.messages))))
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
		t.answers[at].err = &tier.Error{Op: "append", Key: t.log, Class: tier.ErrPartly, Err: refusal}
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
