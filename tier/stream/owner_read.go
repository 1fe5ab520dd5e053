package stream

import (
	"context"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Read returns up to n entries after the last that it has read, waiting for the first up to wait. Standing by, it waits
// for the ownership instead. While the cursor is paused, which Renew and the looks learn, it returns none.
func (o *Owner) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	return o.readInto(ctx, n, wait, &fetch{})
}

// ReadAgain is Read for one goroutine that reads again and again, and copies what it keeps: what it returns is good until
// the third call after it, so that one batch can be read while the one before it is at work, and the one before that committed.
// See Member.ReadAgain.
func (o *Owner) ReadAgain(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	return o.readInto(ctx, n, wait, o.nextMemory(false))
}

// ReadOn is ReadAgain for who goes on to read as many: once it has so many, the next ones are asked for, so that the server is at
// work on them while these are decoded and handled.
func (o *Owner) ReadOn(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	return o.readInto(ctx, n, wait, o.nextMemory(true))
}

func (o *Owner) nextMemory(on bool) *fetch {
	into := &o.memory[o.turn]
	o.turn = (o.turn + 1) % len(o.memory)
	into.clear()
	into.on = on
	return into
}

func (o *Owner) readInto(ctx context.Context, n int, wait time.Duration, into *fetch) ([]tier.Leased, error) {
	if n <= 0 {
		return nil, nil
	}
	if owns, err := o.stand(ctx, wait); !owns || err != nil {
		return nil, err
	}
	from, epoch, suspects, paused := o.readFrom()
	if paused {
		tier.Pause(ctx, wait)
		return nil, nil
	}
	if suspects { // one at a time, when nothing else is in flight
		if n = 1; !o.await(ctx, wait, func() bool { return len(o.held()) == 0 }) {
			return nil, nil
		}
	}
	if !o.await(ctx, wait, func() bool { return len(o.ahead)+len(o.above) < maxAhead }) {
		return nil, nil
	}
	none, err := o.page(ctx, into, epoch, from, n, min(wait, maxBlock))
	if err != nil {
		return nil, err
	}
	if none {
		o.readAll(epoch, from)
		return nil, nil
	}
	if err := o.tell(ctx, epoch, into.Entries[len(into.Entries)-1].ID); err != nil {
		return nil, err
	}
	return o.give(ctx, epoch, from, into)
}

// tell lets the server know what is read, before any of it is handled, until the checkpoint has moved: if this process dies
// of it, the next owner is to know.
func (o *Owner) tell(ctx context.Context, epoch string, reach codec.EntryID) error {
	o.mu.Lock()
	moved := o.at != o.began
	o.told = later(o.told, reach)
	o.mu.Unlock()
	if moved {
		return nil
	}
	return o.keep(ctx, epoch)
}

func later(a, b codec.EntryID) codec.EntryID {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// stand waits for the ownership; true when it is there. One that was not confirmed for a lease may be another's by now.
func (o *Owner) stand(ctx context.Context, wait time.Duration) (owns bool, err error) {
	o.mu.Lock()
	owns, at := o.epoch != "", o.askAt
	stale := owns && time.Since(o.confirmed) > o.lease
	o.mu.Unlock()
	switch {
	case stale:
		return false, tier.ErrFenced
	case owns:
		return true, nil
	}
	if !tier.Pause(ctx, min(wait, time.Until(at))) || time.Now().Before(at) {
		return false, nil
	}
	if _, err = o.Sync(ctx); err == nil && o.Owns() {
		err = tier.ErrFenced // whoever reads has to look first what it holds, and what is parked
	}
	return false, err
}

func (o *Owner) readFrom() (from codec.EntryID, epoch string, suspects, paused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.read, o.epoch, o.crashes >= 2 && o.read.Compare(o.reach) < 0, o.paused
}

// await waits until something is so, which may come to be with a commit. The caller does not hold mu, is does.
func (o *Owner) await(ctx context.Context, wait time.Duration, is func() bool) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		o.mu.Lock()
		so := is()
		o.mu.Unlock()
		if so {
			return true
		}
		select {
		case <-o.wake:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// fetch reads; none says that there was nothing. What was asked for before is taken if it is what comes next, and if there is any: it did
// not wait for more.
func (o *Owner) fetch(ctx context.Context, f *fetch, from codec.EntryID, n int, wait time.Duration) (none bool, err error) {
	if f.on && o.askedFor > 0 && o.asked == from {
		err = o.feed.Range(ctx, &f.Page, from.Next().String(), "+", o.askedFor)
		f.Entries = f.Entries[:min(n, len(f.Entries))]
	}
	if err == nil && len(f.Entries) == 0 {
		err = o.feed.Read(ctx, &f.Page, n, wait, from.String(), "XREAD")
	}
	if f.on {
		o.askedFor = 0
		if last := len(f.Entries) - 1; err == nil && last == n-1 && n > 1 { // one is read to see how large it is, or what it does
			o.asked, o.askedFor = f.Entries[last].ID, n
			o.feed.AskRange(ctx, o.asked.Next().String(), "+", n)
		}
	}
	return len(f.Entries) == 0, err
}

// give notes what was read, and leaves out what was through before.
func (o *Owner) give(ctx context.Context, epoch string, from codec.EntryID, f *fetch) ([]tier.Leased, error) {
	o.mu.Lock()
	start := o.start
	o.mu.Unlock()
	if err := o.cursor.place.decode(ctx, f, nil, start, nil); err != nil {
		return nil, err
	}
	leased := f.leased
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch != epoch || o.read != from || time.Since(o.confirmed) > o.lease {
		return nil, tier.ErrFenced // what was read is another's to handle, or not what comes next
	}
	if o.paused { // since the read began
		return nil, nil
	}
	kept := leased[:0]
	for i := range leased {
		l := &leased[i]
		o.read = l.Entry
		if o.wasThrough(l.Entry) {
			o.ahead = append(o.ahead, passage{entry: l.Entry, through: true})
			continue
		}
		if !o.given { // what comes after the first killed nobody, as far as is known
			l.Deliveries, o.given = 1+o.crashes, true
		}
		l.Replay = l.Entry.Compare(o.live) <= 0
		o.ahead = append(o.ahead, passage{entry: l.Entry})
		kept = append(kept, *l)
	}
	return kept, nil
}

// leased decodes entries. One without fields is in the past.
func (o *Owner) leased(ctx context.Context, entries []codec.Entry, deliveries map[codec.EntryID]int) ([]tier.Leased, error) {
	o.mu.Lock()
	start := o.start
	o.mu.Unlock()
	var gone []int
	for i := range entries {
		if len(entries[i].Fields) > 0 {
			continue
		}
		e, ok, err := o.cursor.place.pastEntry(ctx, entries[i].ID)
		if err != nil {
			return nil, err
		}
		if entries[i].Fields = e.Fields; !ok {
			gone = append(gone, i)
		}
	}
	f := fetch{Page: tier.Page{Entries: entries}}
	if err := o.cursor.place.decode(ctx, &f, deliveries, start, nil); err != nil {
		return nil, err
	}
	for _, i := range gone {
		f.leased[i].Records[0].Err = errNoMore
	}
	return f.leased, nil
}

// readAll notes that the log ends at what was read: what was through beyond it was trimmed, and what is parked of that is to
// be found lost.
func (o *Owner) readAll(epoch string, from codec.EntryID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.above); n > 0 && o.epoch == epoch && o.read == from {
		o.read, o.above = o.above[n-1], nil
	}
}

// wasThrough tells whether an entry, read in order, was through when this began.
func (o *Owner) wasThrough(e codec.EntryID) bool {
	n, found := slices.BinarySearchFunc(o.above, e, codec.EntryID.Compare)
	if o.above = o.above[n:]; found {
		o.above = o.above[1:]
	}
	return found
}
