package stream

import (
	"context"
	"iter"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Beyond yields the messages from an address on, of which the caller has read up to there what an archive has: its last entry is
// archived. What was trimmed before is no loss then, as long as it is archived. It ends at an address, as Range does, or with
// follow goes on with what is appended, as Tail does.
//
// An error ends it: ErrArchiveAhead, and nothing is yielded, when more is archived by now; a *GapError when entries from there on
// are gone that are not archived, unless that is the zero EntryID, the beginning of what there is; a *TrimmedError when that happens
// while it reads, and then they may be archived; those of Range.
func (r *Reader) Beyond(ctx context.Context, archived, from, to codec.EntryID, follow bool) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		if err := r.place.readable(ctx); err != nil && !follow { // who follows may come before the stream
			yield(codec.Record{}, err)
			return
		}
		c := newWalk(r.place, from, to)
		c.claim, c.follow = claimNone, follow
		page, err := c.next(ctx)
		if err == nil {
			err = r.begins(ctx, archived, from, page)
		}
		switch {
		case err != nil:
		case len(page) > 0:
			err = r.place.identify(ctx)
		case follow:
			err = r.place.isRemoved(ctx)
		}
		switch {
		case err != nil:
			yield(codec.Record{}, r.place.gone(ctx, err))
		case !r.yieldPage(page, from, to, yield):
		case follow:
			r.follow(ctx, c, from, yield)
		default:
			r.walk(ctx, c, from, to, yield)
		}
	}
}

// Border is what is known of the entries that a log has no more.
type Border struct {
	Archived codec.EntryID // up to it the archive has what the log had; zero: there is no archive
	Lost     codec.EntryID // below it, entries went the last time that some did that no archive has; zero: none did
}

// Border asks for the border between a stream and its archive.
func (r *Reader) Border(ctx context.Context) (Border, error) {
	key := r.place.addr.RetentionKey()
	m, err := r.place.client.Do(ctx, key, r.place.client.B().Hmget().Key(key).Field(tier.MarkField, tier.LostField).Build())
	if err != nil {
		return Border{}, err
	}
	row, err := m.ToArray()
	if err != nil || len(row) != 2 {
		return Border{}, tier.Wrap("HMGET", key, err)
	}
	return Border{entryID(row[0]), entryID(row[1])}, nil
}

// begins tells whether a page that was read without a claim is what comes first from an address on. It is asked after the page
// was read: what is marked as archived, or lost, may have gone before.
func (r *Reader) begins(ctx context.Context, archived, from codec.EntryID, page []codec.Entry) error {
	is, err := r.Border(ctx)
	if err != nil {
		return err
	}
	if is.Archived.Compare(archived) > 0 {
		return ErrArchiveAhead
	}
	var first codec.EntryID
	if len(page) > 0 {
		first = page[0].ID
	}
	if !from.IsZero() && is.Lost.Compare(from) > 0 && (first.IsZero() || is.Lost.Compare(first) <= 0) {
		first, err = r.place.firstMessage(ctx, first)
		if err == nil && (first.IsZero() || first.Compare(from) > 0) {
			err = &GapError{Stream: r.place.addr.String(), From: from, First: first}
		}
	}
	return err
}
