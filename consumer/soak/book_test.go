package soak_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// book knows every message that was written, by its key, and what became of it.
type book struct {
	mu      sync.Mutex
	losses  int            // times the server may have lost what it had acknowledged
	acked   map[string]ack // by key
	keys    map[codec.ID]string
	refused map[string]error // nothing was written, so said the error
	unknown map[string]error // perhaps
	handled map[string]int   // deliveries, since the group was last sent back
	before  map[string]bool  // handled before that
	broken  []string         // laws, with the place
}

type ack struct {
	id     codec.ID
	losses int // before it was begun
}

func newBook() *book {
	return &book{
		acked: map[string]ack{}, keys: map[codec.ID]string{},
		refused: map[string]error{}, unknown: map[string]error{}, handled: map[string]int{}, before: map[string]bool{},
	}
}

func (b *book) violated(format string, args ...any) {
	if len(b.broken) < 20 {
		b.broken = append(b.broken, fmt.Sprintf(format, args...))
	}
}

// begin is before a message is sent; what the server acknowledges of it after a loss that was still to come may be gone.
func (b *book) begin() (losses int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.losses
}

// wrote notes the outcome of an append.
func (b *book) wrote(key string, losses int, id codec.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		if other, ok := b.keys[id]; ok {
			b.violated("id %s was given to %s and to %s", id, other, key)
		}
		b.acked[key], b.keys[id] = ack{id, losses}, key
	case tier.OutcomeUnknown(err):
		b.unknown[key] = err
	default:
		if class := tier.Classify(err); !errors.Is(err, context.Canceled) && (class == nil || class.Reaction == tier.Surface) {
			b.violated("%s: a server that will be well again made this error: %v", key, err)
		}
		b.refused[key] = err
	}
}

// ascending notes that one caller was given these ids, one after another.
func (b *book) ascending(before, id codec.ID) {
	if before.IsZero() || id.IsZero() || before.String() < id.String() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.violated("id %s came after %s", id, before)
}

func (b *book) delivered(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handled[key]++
}

// again says that the group was sent back to the beginning: what was handled does not count any more.
func (b *book) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.handled {
		b.before[key] = true
	}
	b.handled = map[string]int{}
}

// lost says that the server may have lost what it acknowledged so far.
func (b *book) lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses++
}

// audit compares the book with the log, when everything has come to rest.
func (b *book) audit(ctx context.Context, r *stream.Reader) (inLog int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[string]codec.ID{}
	var last codec.ID
	for rec, err := range r.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		if err != nil {
			return 0, err
		}
		key := rec.Key
		if rec.ID.IsZero() || rec.Err != nil {
			b.violated("%s is no message of ours: %v %v", rec.Position, rec.Fields, rec.Err)
			continue
		}
		if !last.IsZero() && rec.ID.String() <= last.String() {
			b.violated("the log has %s after %s", rec.ID, last)
		}
		last = rec.ID
		if id, twice := found[key]; twice {
			b.violated("%s is in the log twice: %s and %s", key, id, rec.ID)
		}
		found[key] = rec.ID
		if a, ok := b.acked[key]; ok && a.id != rec.ID {
			b.violated("%s was acknowledged as %s and is in the log as %s", key, a.id, rec.ID)
		}
		if err, ok := b.refused[key]; ok {
			b.violated("%s is in the log, though its writer was told that nothing was written: %v", key, err)
		}
		if b.handled[key] == 0 {
			b.violated("%s (%s) was never handled", key, rec.ID)
		}
	}
	for key, a := range b.acked {
		if _, ok := found[key]; !ok && a.losses == b.losses {
			b.violated("%s (%s) was acknowledged, and no loss came after it: it is not in the log", key, a.id)
		}
	}
	for key := range b.handled {
		_, acked := b.acked[key]
		_, perhaps := b.unknown[key]
		if !acked && !perhaps {
			b.violated("%s was handled, though nobody has written it", key)
		}
	}
	return len(found), nil
}

// sum is one line about what is known.
func (b *book) sum() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, times := range b.handled {
		n += times
	}
	why := map[string]int{}
	for _, err := range b.refused {
		if class := tier.Classify(err); class != nil {
			why[class.Code]++
		} else {
			why[err.Error()]++
		}
	}
	return fmt.Sprintf("acknowledged %d, unknown %d, refused %d %v, handled %d (%d deliveries), losses %d, broken laws %d",
		len(b.acked), len(b.unknown), len(b.refused), why, len(b.handled), n, b.losses, len(b.broken))
}
