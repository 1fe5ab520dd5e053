package retention

import (
	"context"
	"errors"
	"iter"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// passage is one loop over a stream. What was yielded last says what comes next, whichever side it is on:
//
//	       trimmed                     archived up to A, nothing yielded
//	log ───────────▶ archive ──▶ log from A on ──▶ ... to the end
//	                    ▲             │ trimmed, or A has moved
//	                    └─────────────┘
type passage struct {
	*Reader
	next   codec.EntryID
	to     codec.EntryID
	follow bool
	yield  func(codec.Record, error) bool
	known  codec.EntryID // last entry of the archive, when it was last looked at
	looked bool
	tries  int // of a tail whose server failed
}

func (p *passage) read(ctx context.Context, yield func(codec.Record, error) bool) {
	p.yield = yield
	err := p.begin(ctx)
	for err != nil {
		trimmed, isTrimmed := errors.AsType[*stream.TrimmedError](err)
		gap, isGap := errors.AsType[*stream.GapError](err)
		switch {
		case errors.Is(err, errEnough):
			return
		case isTrimmed && !trimmed.Lost && !p.archives():
			err = p.gap(ctx, &stream.GapError{Stream: p.address.String(), From: p.next, First: trimmed.First})
		case isTrimmed && !trimmed.Lost:
			err = p.archived(ctx, false)
		case errors.Is(err, stream.ErrArchiveAhead):
			err = p.archived(ctx, true)
		case isGap && p.cfg.OnGap == Skip:
			err = p.gap(ctx, gap)
		case p.follow && waits(err):
			if p.tries++; !tier.Pause(ctx, tier.CallDelay(p.tries)) {
				return
			}
			p.log("tail interrupted", "stream", p.address.String(), "err", err)
			err = p.begin(ctx)
		default:
			if !p.follow || ctx.Err() == nil {
				yield(codec.Record{}, err)
			}
			return
		}
	}
}

// waits tells whether a server may answer later.
func waits(err error) bool {
	class := tier.Classify(err)
	return class != nil && class.Reaction != tier.Surface
}

// archives tells whether what the log has no more is looked for in an archive.
func (p *passage) archives() bool { return p.cfg.Archive != nil && p.cfg.OnGap != Stop }

// begin reads the log from the next address on: what it begins with decides whether the archive has more. The beginning is
// whatever there is.
func (p *passage) begin(ctx context.Context) error {
	if p.next.IsZero() && p.archives() {
		return p.archived(ctx, false)
	}
	if p.follow {
		return p.give(ctx, p.live.Tail(ctx, p.next))
	}
	return p.give(ctx, p.live.Range(ctx, p.next, p.to))
}

// give yields messages, and notes how far they go.
func (p *passage) give(ctx context.Context, records iter.Seq2[codec.Record, error]) error {
	for record, err := range records {
		if err != nil {
			return err
		}
		p.next, p.tries = record.Addr.Next(), 0
		if !p.yield(record, nil) {
			return errEnough
		}
	}
	if p.follow && ctx.Err() != nil {
		return errEnough
	}
	return nil
}

// archived reads what the archive has from the next address on, then the log. IsAhead: the mark is above what it had when it was last looked at.
func (p *passage) archived(ctx context.Context, isAhead bool) error {
	if !p.next.IsZero() && !isAhead { // above the border the store has nothing to say
		is, err := p.live.Border(ctx)
		if err != nil {
			return err
		}
		if !is.Archived.IsZero() && is.Archived.Compare(p.next) < 0 {
			return p.give(ctx, p.live.Beyond(ctx, is.Archived, p.next, p.to, p.follow))
		}
	}
	all, err := p.cfg.Archive.Segments(ctx)
	if err != nil {
		return err
	}
	last := all.Last()
	more := !p.looked || last.Compare(p.known) > 0
	p.looked, p.known = true, last
	switch {
	case isAhead && !more: // what is marked is in the manifest before
		return p.behind(ctx, last)
	case last.IsZero() && !p.next.IsZero(): // what went before the archive began is not known
		return p.lacking(ctx)
	case !more && last.Compare(p.next) < 0:
		return p.lacking(ctx)
	case !p.next.IsZero() && p.next.Compare(all.Gone) <= 0 && len(all.List) == 0:
		return p.lacking(ctx)
	}
	if len(all.List) > 0 && last.Compare(p.next) >= 0 {
		to := last
		if p.to.Compare(to) < 0 {
			to = p.to
		}
		if err := p.give(ctx, ahead(ctx, func(ctx context.Context) iter.Seq2[codec.Record, error] { return p.cfg.Archive.Range(ctx, p.next, to) })); err != nil {
			return p.goneOf(err)
		}
		if next := last.Next(); next.Compare(p.next) > 0 {
			p.next = next
		}
	}
	if p.next.Compare(p.to) > 0 {
		return nil
	}
	return p.give(ctx, p.live.Beyond(ctx, last, p.next, p.to, p.follow))
}

// behind is the error of an archive that ends below the mark: it is another one, or has lost what it had.
func (p *passage) behind(ctx context.Context, last codec.EntryID) error {
	is, err := p.live.Border(ctx)
	if err != nil {
		return err
	}
	return &archive.BehindError{Stream: p.address.String(), Last: last, Mark: is.Archived}
}

// goneOf is a gap when the archive's own age has taken what was to be read.
func (p *passage) goneOf(err error) error {
	if trimmed, ok := errors.AsType[*stream.TrimmedError](err); ok {
		return &stream.GapError{Stream: p.address.String(), From: p.next, First: trimmed.First}
	}
	return err
}

// lacking is the gap between what the archive has and the log.
func (p *passage) lacking(ctx context.Context) error {
	gap := &stream.GapError{Stream: p.address.String(), From: p.next}
	for record, err := range p.live.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		if err != nil {
			return err
		}
		gap.First = record.Addr
		break
	}
	return gap
}

// gap ends at a gap, or goes on behind it.
func (p *passage) gap(ctx context.Context, gap *stream.GapError) error {
	if p.cfg.OnGap != Skip {
		return gap
	}
	if p.cfg.Skipped != nil {
		p.cfg.Skipped(gap)
	}
	if gap.First.IsZero() { // nothing is left: what comes next is new
		if !p.follow {
			return nil
		}
		return p.give(ctx, p.live.Tail(ctx, codec.EntryID{}))
	}
	if p.to.Compare(gap.First) < 0 {
		return nil
	}
	p.next = gap.First
	return p.begin(ctx)
}
