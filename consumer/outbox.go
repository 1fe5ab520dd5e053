package consumer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// outboxType is the type of messages in an outbox: Key is the address that Data, an encoded message, goes to.
const outboxType = "echomq.outbox"

// ToOutbox is the output of a message for a stream of another scope, by way of an outbox: a stream of the handler's own
// scope, from where a forwarder takes it on.
//
// Errors: tier.ErrName of an address, *codec.LimitError.
func ToOutbox(outbox, target string, m codec.Message) (tier.Output, error) {
	if _, err := tier.ParseAddress(target); err != nil {
		return tier.Output{}, err
	}
	data, err := codec.AppendMessage(nil, &m)
	if err != nil {
		return tier.Output{}, err
	}
	return tier.AppendTo(outbox, codec.Message{Type: outboxType, Key: target, Data: data}), nil
}

// ForwarderConfig says which outbox a forwarder empties. Only Outbox is needed.
type ForwarderConfig struct {
	// Outbox is "scope/stream".
	Outbox string
	// Name of its cursor. Default "forwarder". What one of another name has forwarded, this one forwards too.
	Name string
	// Lease of the cursor, as that of stream.CursorConfig.
	Lease time.Duration
	// Concurrency is to how many streams it appends at the same time. Default 8. To one stream it appends one message after
	// another, in the order of the outbox.
	Concurrency int
	// Backoff and MaxBackoff as those of Config. A stream that cannot be appended to blocks what is for it, and nothing else,
	// until it can.
	Backoff, MaxBackoff time.Duration
	// Logger and Registerer as those of Config.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// NewForwarder makes the consumer that takes messages on from an outbox to the streams that they are for, in order and exactly
// once: it owns its cursor alone, and appends as a named producer whose positions are those of the outbox, so that what was
// appended before is known, whoever did it. Any number of them may run; one is at work. It sends nothing and starts nothing.
//
// What is no message of ToOutbox goes to the dead letters.
func NewForwarder(client *tier.Client, cfg ForwarderConfig) (*Consumer, error) {
	if cfg.Name == "" {
		cfg.Name = "forwarder"
	}
	c, err := stream.NewCursor(client, stream.CursorConfig{Address: cfg.Outbox, Name: cfg.Name, Start: stream.Head(), Lease: cfg.Lease})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	f := &forwarder{client: client, producer: producerOf(c.Address(), cfg.Name), writers: map[string]*stream.Writer{}}
	return New(Exclusive(c), f.forward, Config{
		Order: ByKey, MaxDeliveries: -1, // a position that was given up could not be appended after later ones
		Concurrency: cfg.Concurrency, Backoff: cfg.Backoff, MaxBackoff: cfg.MaxBackoff,
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
}

// producerOf names the producer of an outbox: by all that it is, or by the hash of that where it is too long. The lengths tell
// apart what would be the same name put together: two outboxes with one producer would each take the other's messages for appended.
func producerOf(outbox tier.Address, cursor string) string {
	name := fmt.Sprintf("%d.%d.%s.%s.%s", len(outbox.Scope), len(outbox.Stream), outbox.Scope, outbox.Stream, cursor)
	if tier.CheckName("producer", name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

type forwarder struct {
	client   *tier.Client
	producer string

	mu      sync.Mutex
	writers map[string]*stream.Writer // by address
}

func (f *forwarder) forward(ctx context.Context, d *Delivery) error {
	if d.Type != outboxType {
		return Permanent(fmt.Errorf("consumer: a message of type %.64q in an outbox: use ToOutbox", d.Type))
	}
	var m codec.Message
	if rest, err := codec.DecodeMessage(d.Data, &m); err != nil || len(rest) > 0 {
		return Permanent(fmt.Errorf("consumer: a message of an outbox that cannot be read: %d bytes too many, %w", len(rest), err))
	}
	position, ok := outboxPosition(d.Addr)
	if !ok {
		return Permanent(fmt.Errorf("consumer: the id %s in an outbox is none that its writers give", d.Addr))
	}
	w, err := f.writer(d.Key)
	if err != nil {
		return Permanent(err)
	}
	_, err = w.AppendAt(ctx, position, []codec.Message{m})
	kind := (*stream.KindDiffersError)(nil)
	switch {
	case errors.Is(err, stream.ErrAlreadyAppended):
		return nil
	case errors.As(err, &kind) && f.learn(d.Key, kind):
		return f.forward(ctx, d)
	case errors.Is(err, stream.ErrBadCall), errors.As(err, new(*stream.TooLargeError)), errors.As(err, new(*codec.LimitError)):
		return Permanent(err) // it is of this message, which was not sent and never will be
	}
	return err
}

// learn makes the writer anew of a stream that is keyed and was taken for plain, or the other way round; false of any other kind.
func (f *forwarder) learn(address string, kind *stream.KindDiffersError) bool {
	isKeyed := kind.Have == "keyed"
	if !isKeyed && kind.Have != "" || kind.Have == kind.Ask {
		return false
	}
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: address, Producer: f.producer, Keyed: isKeyed})
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writers[address] = w
	return true
}

// outboxPosition is the place of a message in its outbox as the number of a named producer: 41 bits of ms and 12 of sequence.
func outboxPosition(e codec.EntryID) (uint64, bool) {
	id, ok := codec.ServerID("OUT", 0, e)
	if !ok {
		return 0, false
	}
	at := id.ServerEntry()
	n := (at.Ms-codec.Epoch)<<12 | at.Seq
	return n, n > 0
}

func (f *forwarder) writer(address string) (*stream.Writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.writers[address]; w != nil {
		return w, nil
	}
	w, err := stream.NewWriter(f.client, stream.WriterConfig{Address: address, Producer: f.producer})
	if err == nil {
		f.writers[address] = w
	}
	return w, err
}
