package stream

import (
	"context"
	"errors"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Past has the entries of streams that their logs have no more: a retention.Past, which reads their archives.
type Past interface {
	// After returns the next entries of a stream above an id, ascending: one at least, and a few MiB as a rule. None: it has
	// none above. A *GapError: what comes next went before it was archived, or the archive has it no more.
	After(ctx context.Context, stream tier.Address, id codec.EntryID) ([]codec.Entry, error)
}

// errNoMore is what is wrong with an entry that was parked and is in the archive no more.
var errNoMore = errors.New("stream: the entry was read from the archive, which has it no more")

// entry finds one in the log, or else in the past. False: neither has it.
func (p *place) entry(ctx context.Context, id codec.EntryID) (e codec.Entry, ok bool, err error) {
	key := p.addr.LogKey()
	m, err := p.client.Do(ctx, key, p.client.B().Xrange().Key(key).Start(id.String()).End(id.String()).Build())
	if err != nil {
		return e, false, err
	}
	entries, err := entriesOf(m)
	if err != nil {
		return e, false, err
	}
	if len(entries) > 0 {
		return entries[0], true, nil
	}
	return p.pastEntry(ctx, id)
}

// pastEntry finds an entry in the past.
func (p *place) pastEntry(ctx context.Context, id codec.EntryID) (e codec.Entry, ok bool, err error) {
	if p.past == nil {
		return e, false, nil
	}
	entries, err := p.past.After(ctx, p.addr, id.Prev())
	if err != nil && !errors.Is(err, ErrGap) || len(entries) == 0 || entries[0].ID != id {
		return e, false, err
	}
	return entries[0], true, nil
}

// past is how far an owner is in what the log has no more. Once the log has all above what was read, it is done with: from
// then on the cursor holds what comes next.
type past struct {
	done    bool
	entries []codec.Entry // that were read ahead
	asked   bool
	upTo    codec.EntryID // entries up to there may be in the archive only
}

// page reads what comes above an entry: from the archive as long as the log lacks some of it, then from the log. None says that
// there was nothing.
//
// What the archive gives may be in the log as well. The cursor was there before it is asked whether it is not, so that what
// is above its checkpoint then stays in the log, and nothing is lost between the two.
func (o *Owner) page(ctx context.Context, f *fetch, epoch string, from codec.EntryID, n int, wait time.Duration) (none bool, err error) {
	if o.cursor.place.past == nil {
		return o.fetch(ctx, f, from, n, wait)
	}
	o.mu.Lock()
	ahead, done := o.past.entries, o.past.done
	o.mu.Unlock()
	for len(ahead) > 0 && ahead[0].ID.Compare(from) <= 0 {
		ahead = ahead[1:]
	}
	if len(ahead) == 0 && !done {
		if ahead, err = o.fromPast(ctx, from); err != nil {
			return false, err
		}
		done = len(ahead) == 0
	}
	o.mu.Lock()
	if o.epoch == epoch {
		o.past.entries, o.past.done = ahead, done
		if len(ahead) > 0 { // not counted by the log
			o.passed, o.past.upTo = -1, later(o.past.upTo, ahead[len(ahead)-1].ID)
		}
	}
	o.mu.Unlock()
	if len(ahead) == 0 {
		return o.fetch(ctx, f, from, n, wait)
	}
	f.Entries = append(f.Entries[:0], ahead[:min(n, len(ahead))]...)
	return false, nil
}

// fromPast reads the next entries above one that the log lacks; none: it lacks none.
func (o *Owner) fromPast(ctx context.Context, from codec.EntryID) ([]codec.Entry, error) {
	p := o.cursor.place
	info := Info{Address: p.addr}
	if err := info.ask(ctx, p.client); err != nil {
		return nil, err
	}
	is, err := (&Reader{place: p}).Border(ctx) // after the log: what went before is archived, or lost
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	passed := o.passed
	if o.at.Compare(o.start) <= 0 { // where it begins: what the log has no more is not through
		passed = -1
	}
	o.mu.Unlock()
	switch {
	case is.Archived.Compare(from) <= 0, info.Length > 0 && info.First.Compare(from) <= 0, passed >= info.Added-info.Length:
		return nil, nil
	}
	entries, err := p.past.After(ctx, p.addr, from)
	if err == nil && len(entries) == 0 {
		var first codec.EntryID
		if first, err = p.firstMessage(ctx, info.First); err == nil {
			err = &GapError{Stream: p.addr.String(), From: from.Next(), First: first}
		}
	}
	return entries, err
}

// archived is up to where the archive may have what the log lacks, as due_owned.lua is told; empty: nothing is asked of it.
func (o *Owner) archived(ctx context.Context) (string, error) {
	if o.cursor.place.past == nil {
		return "", nil
	}
	o.mu.Lock()
	asked, upTo := o.past.asked, o.past.upTo
	o.mu.Unlock()
	if !asked {
		is, err := (&Reader{place: o.cursor.place}).Border(ctx)
		if err != nil {
			return "", err
		}
		o.mu.Lock()
		o.past.asked, o.past.upTo = true, later(o.past.upTo, is.Archived)
		upTo = o.past.upTo
		o.mu.Unlock()
	}
	return upTo.String(), nil
}
