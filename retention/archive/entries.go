package archive

import (
	"context"
	"errors"
	"iter"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// After returns the next entries above one, as they were in the log: what a row group has of them, a few MiB as a rule. None: the
// archive has none above.
//
// Errors: *stream.GapError when the next ones went before they were archived, or by the archive's max age, unless the id is the zero
// EntryID; *DamageError; what the store fails with.
func (r *Reader) After(ctx context.Context, id codec.EntryID) (entries []codec.Entry, err error) {
	all, err := r.Segments(ctx)
	if err != nil {
		return nil, err
	}
	if !id.IsZero() && id.Compare(all.Gone) < 0 {
		return nil, r.gapAfter(id, r.trimmed(ctx, &all))
	}
	for i := range all.List {
		s := &all.List[i]
		if s.Last.Compare(id) <= 0 {
			continue
		}
		if err := r.gap(ctx, s, id.Next(), codec.MaxEntryID); err != nil && !(id.IsZero() && i == 0) {
			return nil, err
		}
		if entries, err = r.group(ctx, s, id); err != nil {
			return nil, r.gapAfter(id, r.expired(ctx, s, err))
		}
		if len(entries) > 0 {
			return entries, nil
		}
	}
	return nil, nil
}

// gapAfter is the error of who wants what comes after an entry, when the archive's max age has taken that.
func (r *Reader) gapAfter(id codec.EntryID, err error) error {
	if trimmed, ok := errors.AsType[*stream.TrimmedError](err); ok {
		return &stream.GapError{Stream: r.address.String(), From: id.Next(), First: trimmed.First}
	}
	return err
}

// Whole is an entry as it was in the log, and what its ids were derived from.
type Whole struct {
	codec.Entry
	Of codec.Identity
}

// Entries yields the entries from one to another, both included, ascending, as they were in the log. They stay good.
//
// Errors: those of Range.
func (r *Reader) Entries(ctx context.Context, from, to codec.EntryID) iter.Seq2[Whole, error] {
	return func(yield func(Whole, error) bool) {
		for s, err := range r.Unbroken(ctx, from, to) {
			if err != nil {
				yield(Whole{}, err)
				return
			}
			for e, err := range r.between(ctx, []Segment{*s}, from, to) {
				var w Whole
				if err == nil {
					w.Of = e.identity
					w.Entry, err = e.entry(&rebuilder{}) // which keeps its bytes
				}
				if !yield(w, r.expired(ctx, s, err)) || err != nil {
					return
				}
			}
		}
	}
}

// group are the entries above one of the first row group of a segment that has some.
func (r *Reader) group(ctx context.Context, s *Segment, id codec.EntryID) (entries []codec.Entry, err error) {
	segment, err := r.open(ctx, s)
	for i := 0; err == nil && len(entries) == 0 && i < len(segment.file.RowGroups()); i++ {
		entries, err = segment.group(i, id)
	}
	if err != nil {
		return nil, damaged(s, err)
	}
	return entries, nil
}

// group are the entries above one of a row group.
func (s *segmentReader) group(i int, above codec.EntryID) (entries []codec.Entry, err error) {
	r, err := s.rows(i, above, codec.MaxEntryID)
	for err == nil && r.row < r.n {
		var e *stored
		if e, err = r.next(); err == nil && e.id.Compare(above) > 0 {
			var whole codec.Entry
			if whole, err = e.entry(&rebuilder{}); err == nil { // which keeps its bytes
				entries = append(entries, whole)
			}
		}
	}
	return entries, err
}
