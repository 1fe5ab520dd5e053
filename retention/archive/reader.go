package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// ReaderConfig says what a Reader reads.
type ReaderConfig struct {
	// Address is "scope/stream".
	Address string
	// Upcasts are those of a stream.ReaderConfig.
	Upcasts codec.Upcasts
}

// Reader reads the archive of one stream. It asks the store, and no server. It is safe for concurrent use.
//
// A loop has one row group in memory, a few MiB as a rule, and the one before it until that is collected.
type Reader struct {
	store   Store
	address tier.Address
	upcasts codec.Upcasts
}

// NewReader checks the configuration. It reads nothing.
func NewReader(store Store, cfg ReaderConfig) (*Reader, error) {
	address, err := tier.ParseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	return &Reader{store, address, cfg.Upcasts}, nil
}

// DamageError is an object that is not what the archive wrote, or not there: which entries it has, and what is wrong.
type DamageError struct {
	Object      string
	First, Last codec.EntryID // of the segment; 0-0 of a manifest
	Err         error
}

func (e *DamageError) Error() string {
	if e.Last.IsZero() {
		return fmt.Sprintf("archive: %s: %v", e.Object, e.Err)
	}
	return fmt.Sprintf("archive: entries %s to %s, %s: %v", e.First, e.Last, e.Object, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// damaged says which segment it is that cannot be read, unless it is the store.
func damaged(s *Segment, err error) error {
	if errors.As(err, new(*storeError)) {
		return err
	}
	return &DamageError{Object: s.Name, First: s.First, Last: s.Last, Err: err}
}

// Segments lists the segments, as the manifest has them now. None: there is no archive yet. *DamageError.
func (r *Reader) Segments(ctx context.Context) (Segments, error) {
	m, err := readManifest(ctx, r.store, r.address)
	if err != nil {
		return Segments{}, err
	}
	return Segments{m.Segments, m.Gone}, nil
}

// Range yields the messages from one address to another, both included, ascending, of those that the archive has when it
// begins: the records that stream.Reader.Range yields of them in the log, to the byte.
//
// An error ends it: *stream.TrimmedError when it begins at or below what the archive's max age has taken, unless that is the
// zero EntryID, the beginning of what there is, or when that takes what it was to read next; *stream.GapError where entries went before they
// were archived; *DamageError; what the store fails with.
func (r *Reader) Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		for s, err := range r.Unbroken(ctx, from, to) {
			if err != nil {
				yield(codec.Record{}, err)
				return
			}
			for record, err := range r.segment(ctx, s, from, to) {
				if !yield(record, r.expired(ctx, s, err)) || err != nil {
					return
				}
			}
		}
	}
}

// Unbroken yields the segments that may have entries between two addresses, as the manifest has them when it begins.
//
// An error ends it: where entries between the two are missing, that of Range.
func (r *Reader) Unbroken(ctx context.Context, from, to codec.EntryID) iter.Seq2[*Segment, error] {
	return func(yield func(*Segment, error) bool) {
		all, err := r.Segments(ctx)
		if err == nil && !from.IsZero() && from.Compare(all.Gone) <= 0 {
			err = r.trimmed(ctx, &all)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range all.List {
			s := &all.List[i]
			if err := r.gap(ctx, s, from, to); err != nil && (i > 0 || !from.IsZero()) {
				yield(nil, err)
				return
			}
			if s.Last.Compare(from) >= 0 && !yield(s, nil) {
				return
			}
		}
	}
}

// gap is an error when entries between two addresses went before they were archived in this segment, or before it.
func (r *Reader) gap(ctx context.Context, s *Segment, from, to codec.EntryID) error {
	if next := s.After.Next(); from.Compare(next) < 0 {
		from = next
	}
	if from.Compare(s.Lost) >= 0 || to.Compare(from) < 0 {
		return nil
	}
	first, err := r.firstMessage(ctx, s, greatest(s.First, s.Lost))
	if err == nil && first.Compare(from) > 0 {
		err = &stream.GapError{Stream: r.address.String(), From: from, First: first}
	}
	return err
}

func greatest(a, b codec.EntryID) codec.EntryID {
	if b.Compare(a) > 0 {
		return b
	}
	return a
}

// expired tells an object that the archive's max age took while it was read from one that is missing.
func (r *Reader) expired(ctx context.Context, s *Segment, err error) error {
	if !errors.Is(err, ErrAbsent) {
		return err
	}
	if now, failed := r.Segments(ctx); failed == nil && s.Last.Compare(now.Gone) <= 0 {
		return r.trimmed(ctx, &now)
	}
	return err
}

// trimmed is the error of who wants what the archive's max age has taken.
func (r *Reader) trimmed(ctx context.Context, all *Segments) error {
	trimmed := &stream.TrimmedError{Stream: r.address.String()}
	if len(all.List) > 0 {
		var err error
		if trimmed.First, err = r.firstMessage(ctx, &all.List[0], all.List[0].First); err != nil {
			return err
		}
	}
	return trimmed
}

// firstMessage is the address of the first message of a segment from an entry on: that of a pack lies below the entry's.
func (r *Reader) firstMessage(ctx context.Context, s *Segment, from codec.EntryID) (codec.EntryID, error) {
	for e, err := range r.between(ctx, []Segment{*s}, from, s.Last) {
		if err != nil {
			return from, err
		}
		return e.records[0].Addr, nil
	}
	return from, nil
}

// segment yields the messages of a segment between two addresses.
func (r *Reader) segment(ctx context.Context, s *Segment, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	upTo := codec.EntryID{Ms: to.Ms, Seq: math.MaxUint64} // the pack that holds this message ends within its millisecond
	return func(yield func(codec.Record, error) bool) {
		if s.Last.Compare(from) < 0 || s.First.Compare(upTo) > 0 {
			return
		}
		var rebuild rebuilder
		for e, err := range r.entries(ctx, s, from, upTo) {
			if err == nil {
				err = r.upcast(e, &rebuild)
			}
			if err != nil {
				yield(codec.Record{}, err)
				return
			}
			for i := range e.records {
				addr := e.records[i].Addr
				if addr.Compare(from) >= 0 && addr.Compare(to) <= 0 && !yield(e.records[i], nil) {
					return
				}
			}
		}
	}
}

// upcast makes the messages of an entry those of the newest types.
func (r *Reader) upcast(e *stored, b *rebuilder) error {
	if len(r.upcasts) == 0 {
		return nil
	}
	entry, err := e.entry(b)
	if err == nil {
		r.upcasts.Records(e.records, entry.Fields)
	}
	return err
}

// between yields the entries from one to another, both included.
func (r *Reader) between(ctx context.Context, list []Segment, from, to codec.EntryID) iter.Seq2[*stored, error] {
	return func(yield func(*stored, error) bool) {
		for i := range list {
			if list[i].Last.Compare(from) < 0 || list[i].First.Compare(to) > 0 {
				continue
			}
			for e, err := range r.entries(ctx, &list[i], from, to) {
				if err == nil && (e.id.Compare(from) < 0 || e.id.Compare(to) > 0) {
					continue
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// entries yields the entries of a segment, of the row groups that may have some of those between two of them.
func (r *Reader) entries(ctx context.Context, s *Segment, from, to codec.EntryID) iter.Seq2[*stored, error] {
	return func(yield func(*stored, error) bool) {
		segment, err := r.open(ctx, s)
		if err != nil {
			yield(nil, damaged(s, err))
			return
		}
		for e, err := range segment.entries(from, to) {
			if err != nil {
				yield(nil, damaged(s, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// open reads what a segment says of itself: it is what was written, or else an error, for times and counts that have changed would hide entries.
func (r *Reader) open(ctx context.Context, s *Segment) (*segmentReader, error) {
	segment, err := openSegment(object{ctx, r.store, s.Name}, s.Bytes)
	if err == nil && s.Footer != "" && s.Footer != segment.in.sum {
		err = errors.New("what it says of itself is not what was written")
	}
	return segment, err
}
