package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ReaderConfig says what a Reader reads.
type ReaderConfig struct {
	// Address is "scope/stream".
	Address string
	// Upcasts turn old versions of a type into newer ones before anybody sees them. A message that a rule fails on has Err,
	// and is yielded with the raw Fields of its entry. Nil: none.
	Upcasts codec.Upcasts
}

// Reader reads the history of one stream, and follows it. It leaves no trace on the server. It is safe for concurrent
// use.
//
// Each loop over Range, Tail and the like reads page by page, however long its records are taken; one that needs more than two, but for
// Tail, reads the next over a connection of its own while the records of one are taken, and has asked for the one after it. So it holds two
// pages, and what of those before them is kept or not collected yet. A page has at most 512 entries: 1 MiB as a rule, 16 MiB when entries
// differ much. Only where large entries begin after small ones, one page has 512 of them.
type Reader struct {
	place   *place
	upcasts codec.Upcasts
}

// NewReader checks the configuration. It sends nothing.
func NewReader(client *tier.Client, cfg ReaderConfig) (*Reader, error) {
	place, err := newLogPlace(client, cfg.Address)
	if err != nil {
		return nil, err
	}
	return &Reader{place: place, upcasts: cfg.Upcasts}, nil
}

// Identity is what the ids of the stream are derived from. ErrNoStream, ErrStreamRemoved.
func (r *Reader) Identity(ctx context.Context) (codec.Identity, error) {
	d, err := r.place.known(ctx)
	return d.Identity, err
}

// Range yields the messages from one address to another, both included, ascending. The zero EntryID is the beginning,
// codec.MaxEntryID the end; any <ms>-<seq> in between will do, whether or not it exists, inside a pack too. Foreign and
// undecodable entries are yielded raw.
//
// An error ends it: ErrNoStream, ErrStreamRemoved, ErrTrimmed if what is asked for, or was to be read next, is gone.
func (r *Reader) Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		if err := r.place.readable(ctx); err != nil {
			yield(codec.Record{}, err)
			return
		}
		r.walk(ctx, newWalk(r.place, from, to), from, to, yield)
	}
}

// Entries yields the entries from one id to another, both included, as they are in the log: what Range makes records of. Errors as for
// Range, but that some are gone before the first is none.
func (r *Reader) Entries(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Entry, error] {
	return func(yield func(codec.Entry, error) bool) {
		c := &walk{place: r.place, from: from, to: to, claim: claimNone, kept: true}
		for page, err := range c.pages(ctx) {
			if err != nil {
				yield(codec.Entry{}, r.place.gone(ctx, err))
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// walk yields pages until the cursor is done.
func (r *Reader) walk(ctx context.Context, c *walk, from, to codec.EntryID, yield func(codec.Record, error) bool) {
	for page, err := range c.pages(ctx) {
		if err == nil && len(page) > 0 {
			err = r.place.identify(ctx)
		}
		if err != nil {
			yield(codec.Record{}, r.place.gone(ctx, err))
			return
		}
		if !r.yieldPage(page, from, to, yield) {
			return
		}
	}
}

// yieldPage yields the messages of a page between two addresses. It is false when the consumer has enough.
func (r *Reader) yieldPage(page []codec.Entry, from, to codec.EntryID, yield func(codec.Record, error) bool) bool {
	var records []codec.Record
	for i := range page {
		records = r.records(records[:0], page[i])
		for k := range records {
			addr := records[k].Addr
			if addr.Compare(from) >= 0 && addr.Compare(to) <= 0 && !yield(records[k], nil) {
				return false
			}
		}
	}
	return true
}

// records decodes an entry, and makes its messages those of the newest types.
func (r *Reader) records(dst []codec.Record, e codec.Entry) []codec.Record {
	n := len(dst)
	dst = r.place.records(dst, e)
	r.upcasts.Records(dst[n:], e.Fields)
	return dst
}

// Window yields the messages from t0 to t1 by the server's clock, both milliseconds included.
func (r *Reader) Window(ctx context.Context, t0, t1 time.Time) iter.Seq2[codec.Record, error] {
	return r.Range(ctx, codec.FloorEntry(t0), codec.CeilEntry(t1))
}

// Since yields the messages from t on, to the end as it is when it gets there.
func (r *Reader) Since(ctx context.Context, t time.Time) iter.Seq2[codec.Record, error] {
	return r.Range(ctx, codec.FloorEntry(t), codec.MaxEntryID)
}

// Last returns the newest n messages, ascending; they are all in memory at once.
func (r *Reader) Last(ctx context.Context, n int) ([]codec.Record, error) {
	if err := r.place.readable(ctx); err != nil {
		return nil, err
	}
	key := r.place.addr.LogKey()
	end := codec.MaxEntryID
	var newest []codec.Record // descending
	for len(newest) < n {
		count := int64(min(n-len(newest), 100))
		m, err := r.place.client.Do(ctx, key, r.place.client.B().Xrevrange().Key(key).End(end.String()).Start("-").Count(count).Build())
		if err != nil {
			return nil, err
		}
		entries, err := entriesOf(m)
		if err == nil && len(entries) > 0 {
			err = r.place.identify(ctx)
		}
		if err != nil {
			return nil, err
		}
		for i := range entries {
			records := r.records(nil, entries[i])
			slices.Reverse(records)
			newest = append(newest, records...)
		}
		if len(entries) < int(count) {
			break
		}
		end = entries[len(entries)-1].ID.Prev()
	}
	newest = newest[:min(n, len(newest))]
	slices.Reverse(newest)
	return newest, nil
}

// Place is the address at which a start lies now, for Range and Tail: that of New is behind the newest message, of Head, and of
// a log that is empty or does not exist, the zero EntryID.
func (r *Reader) Place(ctx context.Context, s Start) (codec.EntryID, error) {
	if s.kind != startNew {
		return s.at, nil
	}
	newest, err := r.Last(ctx, 1)
	if errors.Is(err, ErrNoStream) || err == nil && len(newest) == 0 {
		return codec.EntryID{}, nil
	}
	if err != nil {
		return codec.EntryID{}, err
	}
	return newest[0].Addr.Next(), nil
}

// Get finds a message by its id: one read, no index.
//
// Errors: ErrNotFound, also for an id of another stream; ErrTrimmed when the stream begins after it.
func (r *Reader) Get(ctx context.Context, id codec.ID) (codec.Record, error) {
	identity, err := r.place.known(ctx)
	if err != nil {
		return codec.Record{}, err
	}
	at, ok := identity.Entry(id)
	if !ok {
		return codec.Record{}, fmt.Errorf("%w: %s is not of %s, whose brand is %s and node %d", ErrNotFound, id, r.place.addr, identity.Brand, identity.Node)
	}
	for record, err := range r.Range(ctx, at, at) {
		if err != nil {
			return codec.Record{}, err
		}
		if record.ID == id {
			return record, nil
		}
	}
	return codec.Record{}, fmt.Errorf("%w: %s in %s", ErrNotFound, id, r.place.addr)
}
