package archive

import (
	"cmp"
	"context"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// choose decides where the next segment ends, and has the server write it down. The zero EntryID: there is none to be made yet.
func (a *Archiver) choose(ctx context.Context, mark codec.EntryID, flush bool) (c stream.Chosen, more bool, err error) {
	h, err := stream.HoldingsOf(ctx, a.client, a.address.String())
	if err != nil || h.Length == 0 {
		return c, false, err
	}
	size := int64(100) // of an entry, where the user may not ask
	if h.Bytes > 0 {
		size = max(1, h.Bytes/h.Length)
	}
	most := max(1, cmp.Or(a.policy.SegmentBytes, stream.DefaultSegmentBytes)/size)
	behind, err := a.age(ctx, &h, mark)
	if err != nil {
		return c, false, err
	}
	below := codec.FloorEntry(h.Now.Add(-a.settle))
	end, n, err := stream.Upto(ctx, a.client, a.address.String(), mark, below, most, size)
	if err != nil || n == 0 {
		return c, false, err
	}
	if n < most && behind < cmp.Or(a.policy.SegmentAge, stream.DefaultSegmentAge) && !flush {
		return c, false, nil
	}
	c, err = a.right.Choose(ctx, a.address.Stream, a.policy, mark, end, a.settle)
	return c, n == most, err
}

// Behind is how old the first entry is that the archive does not have; 0: it has all. It does not ask the store.
//
// Errors: those of stream.Sweep.Trim.
func (a *Archiver) Behind(ctx context.Context) (time.Duration, error) {
	chosen, err := a.ask(ctx)
	if err != nil {
		return 0, err
	}
	h, err := stream.HoldingsOf(ctx, a.client, a.address.String())
	if err != nil {
		return 0, err
	}
	return a.age(ctx, &h, chosen.Mark)
}

// age is how old the first entry above the mark is; 0: there is none.
func (a *Archiver) age(ctx context.Context, h *stream.Holdings, mark codec.EntryID) (time.Duration, error) {
	first, n, err := stream.Upto(ctx, a.client, a.address.String(), mark, codec.MaxEntryID, 1, 1)
	if err != nil || n == 0 {
		return 0, err
	}
	return max(time.Millisecond, h.Now.Sub(first.Time())), nil
}
