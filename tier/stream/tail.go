package stream

import (
	"context"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	// tailWait is how long one read waits on the server for something new; a stopped Tail ends within it.
	tailWait = time.Second
	// quietWaits is after how many waits in vain it is looked whether the log is still the same one.
	quietWaits = 4
)

// Tail yields the messages from an address on and goes on with what is appended, until ctx ends: then it ends without an
// error. The stream need not exist yet. A failure of the server or of the connection is retried with a growing pause.
//
// An error ends it: ErrStreamRemoved, ErrTrimmed, or what the server refuses for good. It is never short in silence: when
// what it had not read yet was trimmed, or went with a Purge, it ends with a *TrimmedError, and so it does when the log is
// another one than before (Lost): the stream was removed and made again, or the server lost it. One that had read
// everything goes on after a trim and after a Purge.
func (r *Reader) Tail(ctx context.Context, from codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		r.follow(ctx, newWalk(r.place, from, codec.MaxEntryID), from, yield)
	}
}

// Resume is Tail from behind a snapshot: it yields what was not folded into it. It ends with a *TrimmedError, and yields
// nothing, unless all of that is there and the log is the same one: its Entry still is, or was the newest when it was kept.
func (r *Reader) Resume(ctx context.Context, s Snapshot) iter.Seq2[codec.Record, error] {
	if s.At.IsZero() {
		return r.Tail(ctx, codec.EntryID{})
	}
	return func(yield func(codec.Record, error) bool) {
		c := newWalk(r.place, s.Entry, codec.MaxEntryID)
		c.claim = claimSeen
		if s.added > 0 {
			c.from, c.claim, c.added = s.Entry.Next(), claimTail, s.added
		}
		r.follow(ctx, c, s.At.Next(), yield)
	}
}

// follow yields the messages from an address on, page by page.
func (r *Reader) follow(ctx context.Context, c *walk, from codec.EntryID, yield func(codec.Record, error) bool) {
	c.follow = true
	failures := 0
	for ctx.Err() == nil {
		page, err := r.await(ctx, c)
		if err == nil {
			failures = 0
			if !r.yieldPage(page, from, codec.MaxEntryID, yield) {
				return
			}
			continue
		}
		if class := tier.Classify(err); class == nil || class.Reaction == tier.Surface {
			if ctx.Err() == nil {
				yield(codec.Record{}, err)
			}
			return
		}
		failures++
		r.place.client.Logger().Warn("tail interrupted", "stream", r.place.addr.String(), "err", err)
		tier.Pause(ctx, tier.CallDelay(failures))
	}
}

// await returns the next page, or none after waiting for one.
func (r *Reader) await(ctx context.Context, c *walk) ([]codec.Entry, error) {
	if c.waits%quietWaits == 0 {
		page, err := r.page(ctx, c)
		if err != nil || len(page) > 0 {
			return page, err
		}
	}
	key := r.place.addr.LogKey()
	wait := r.place.client.B().Xread().Count(1).Block(tailWait.Milliseconds()).Streams().Key(key).Id(c.from.Prev().String()).Build()
	_, err := r.place.client.Wait(ctx, key, tailWait, wait)
	if rueidis.IsRedisNil(err) {
		c.waits++
		return nil, nil
	}
	c.waits = 0
	return nil, err
}

// page reads the next page of a tail.
func (r *Reader) page(ctx context.Context, c *walk) ([]codec.Entry, error) {
	before := *c
	page, err := c.next(ctx)
	if err == nil && len(page) == 0 && c.added == 0 { // a log that goes before it held anything is not missed
		err = r.place.isRemoved(ctx)
	}
	if err != nil {
		return nil, r.place.gone(ctx, err)
	}
	if len(page) > 0 {
		if err := r.place.identify(ctx); err != nil {
			*c = before // nobody has seen the page
			return nil, err
		}
	}
	return page, nil
}
