package stream

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Limits of one call of a Writer.
const (
	MaxBatch      = 4096    // messages
	MaxBatchBytes = 8 << 20 // of them, encoded
)

// DefaultMaxMessage is the largest message, encoded, in bytes, where WriterConfig has no other.
const DefaultMaxMessage = 1 << 20

const (
	shareMessages = 2048    // callers share a call up to this many messages, in packs up to MaxBatch
	shareBytes    = 1 << 20 // and this many bytes
	callsInFlight = 8       // of one write, as many as a producer key has receipts
	producerTTL   = 10 * time.Minute
)

// batch is what one script call appends: the messages of one caller or of several. Its number is given by the sender, 0
// before the first sending, unless it is a position.
type batch struct {
	parcel
	waiters int                     // callers that still wait; those of Publish always do
	notify  []func(codec.ID, error) // by message, for those of Publish
	held    int64                   // bytes of room that Publish holds
	room    *semaphore.Weighted
	memory  *memory // nil: messages are in memory of their own
	turn

	// Of the sender.
	packed  []string  // lengths and packs, of a batch that is sent as packs
	since   time.Time // first sending
	unknown bool      // a sending ended without a reply: it may be in the log
	last    error     // why it has to be sent again
	written bool      // in a transaction: nothing looks at the messages any more

	most        int // messages that callers share
	size        int // messages an entry
	compression codec.Compression
	identity    declared
	minted      []codec.ID // of an exclusive writer, before the first sending; else the server's receipt gives the ids

	// Set before the callers are told.
	receipt receipt
	err     error
}

// age is how long ago the batch was first sent, by whichever of the two clocks says more: one stands still while the host
// is suspended, the other may be set back.
func (b *batch) age() time.Duration {
	return max(time.Since(b.since), time.Now().Round(0).Sub(b.since.Round(0)))
}

// fits reports whether more messages can share the call: neither theirs nor its own may fail for the other's sake.
func (b *batch) fits(p parcel, n int) bool {
	return b.only == nil && p.only == nil && p.number == 0 &&
		len(b.messages)+n <= b.most && b.bytes+p.bytes <= shareBytes
}

// id is that of the i-th message.
func (b *batch) id(i int) codec.ID {
	if b.minted != nil {
		return b.minted[i]
	}
	id, _ := codec.ServerID(b.identity.Brand, b.identity.Node, b.receipt.at(i))
	return id
}

// ids returns those of the count messages from offset on.
func (b *batch) ids(offset, count int) []codec.ID {
	if b.minted != nil {
		return b.minted[offset : offset+count : offset+count]
	}
	ids := make([]codec.ID, count)
	b.receipt.addresses(func(i int, addr codec.EntryID) {
		if i >= offset && i < offset+count {
			ids[i-offset], _ = codec.ServerID(b.identity.Brand, b.identity.Node, addr)
		}
	})
	return ids
}

// publish tells those of Publish.
func (b *batch) publish() {
	if b.err != nil {
		for _, notify := range b.notify {
			if notify != nil {
				notify(codec.ID{}, b.err)
			}
		}
		return
	}
	b.receipt.addresses(func(i int, addr codec.EntryID) {
		if i >= len(b.notify) || b.notify[i] == nil {
			return
		}
		id, _ := codec.ServerID(b.identity.Brand, b.identity.Node, addr)
		if b.minted != nil {
			id = b.minted[i]
		}
		b.notify[i](id, nil)
	})
}

// finish tells whoever waits.
func (b *batch) finish() {
	if len(b.notify) > 0 {
		b.publish()
	}
	if b.held > 0 {
		b.room.Release(b.held)
	}
	if b.memory != nil && b.written {
		b.give()
	}
	b.turn.end()
}

// packs reports whether the batch is sent in packs.
func (b *batch) packs() bool { return b.size > 1 && b.only == nil }

// pack makes the packs, once: a call that is repeated shares them with those that nobody has answered.
func (b *batch) pack() error {
	if b.packed != nil {
		return nil
	}
	var body []byte
	for i := range b.entries() {
		group := b.group(i)
		body = body[:0]
		for _, message := range group {
			body = append(body, message...)
		}
		pack, err := codec.AppendPack(nil, len(group), body, b.compression)
		if err != nil {
			return fmt.Errorf("stream: pack: %w", err)
		}
		b.packed = append(b.packed, strconv.Itoa(len(group)), stringOf(pack))
	}
	return nil
}

// entries is how many the messages become.
func (b *batch) entries() int { return (len(b.messages) + b.size - 1) / b.size }

// group is the messages of the i-th entry.
func (b *batch) group(i int) []string {
	return b.messages[i*b.size : min((i+1)*b.size, len(b.messages))]
}

func sizeOf(messages []string) (n int) {
	for _, message := range messages {
		n += len(message)
	}
	return n
}

// sentBytes is how many bytes these have, of a batch that has its packs where they are compressed.
func (b *batch) sentBytes() (n int) {
	if b.packed == nil {
		return b.bytes
	}
	for i := 1; i < len(b.packed); i += 2 {
		n += len(b.packed[i])
	}
	return n
}

// call makes the script call under the sender's producer.
func (b *batch) call(addr tier.Address, s *sender) tier.Call {
	ttl := producerTTL.Milliseconds()
	if s.named {
		ttl = 0
	}
	args := make([]string, 0, 8+len(b.messages))
	args = append(args,
		strconv.FormatUint(b.number, 10),
		strconv.FormatInt(ttl, 10),
		strconv.Itoa(b.identity.Node),
		tier.StreamField(addr.Stream),
		b.identity.text(),
		s.above.load().String(),
		b.follows,
		strconv.Itoa(s.receipts(b)),
	)
	keys := []string{addr.LogKey(), addr.ProducerKey(s.producer), tier.ScopeKey(addr.Scope)}
	script := appendScript
	if b.only != nil || b.identity.kind == keyed {
		script = appendIfScript
		keys, args = b.expecting(addr, keys, args)
	} else if b.size == 1 {
		args = append(args, b.messages...)
	} else {
		script = packScript
		args = append(args, b.packed...)
	}
	return tier.Call{Script: script, Keys: keys, Args: args}
}
