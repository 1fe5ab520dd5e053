package archive

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// segment folds the entries that are chosen into an object, or finds it there, and reads it back.
func (a *Archiver) segment(ctx context.Context, chosen stream.Chosen) (Segment, error) {
	file, err := os.CreateTemp(a.temp, "segment-*.parquet")
	if err != nil {
		return Segment{}, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	before, err := a.log.Border(ctx)
	if err != nil {
		return Segment{}, err
	}
	s, first, err := a.fold(ctx, chosen, file)
	if err != nil {
		return Segment{}, err
	}
	if s.Lost, err = a.lost(ctx, chosen, before.Lost, first); err != nil {
		return Segment{}, err
	}
	err = retried(ctx, func() error {
		err := a.store.Create(ctx, s.Name, file, s.Bytes)
		if errors.Is(err, ErrExists) { // from before a crash, or by another archiver, or by a try whose answer was lost
			return nil
		}
		return err
	})
	if err != nil {
		return Segment{}, fmt.Errorf("archive: %s: %w", s.Name, err)
	}
	return a.verify(ctx, s, file)
}

// lost is the id below which entries went that no archive has: between this segment and the one before it, or from its own beginning, which the
// log had no more. What goes after it was read is not lost.
func (a *Archiver) lost(ctx context.Context, chosen stream.Chosen, before, first codec.EntryID) (codec.EntryID, error) {
	if first == chosen.From {
		return least(before, first), nil
	}
	now, err := a.log.Border(ctx)
	return least(now.Lost, first), err
}

func least(a, b codec.EntryID) codec.EntryID {
	if b.Compare(a) < 0 {
		return b
	}
	return a
}

// fold writes the entries to a file. First is the first of them, or the one after the last when there is none any more.
func (a *Archiver) fold(ctx context.Context, chosen stream.Chosen, file *os.File) (s Segment, first codec.EntryID, err error) {
	identity, err := a.log.Identity(ctx)
	if err != nil {
		return s, first, err
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(file, sum), 256<<10)
	w := newSegmentWriter(out, origin{a.address, identity})
	for e, err := range a.log.Entries(ctx, chosen.From, chosen.To) {
		if err == nil {
			err = w.add(e)
		}
		if err != nil {
			return s, first, err
		}
	}
	contents, err := w.close()
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return s, first, err
	}
	if first = contents.First; contents.Entries == 0 {
		first = chosen.To.Next()
	}
	size, err := file.Seek(0, io.SeekEnd)
	contents.First, contents.Last = chosen.From, chosen.To // also when these were deleted meanwhile
	return Segment{Name: segmentName(a.address, chosen.From, chosen.To), Contents: contents, Bytes: size, SHA256: fmt.Sprintf("%x", sum.Sum(nil))}, first, err
}

// verify reads the object back, and answers what is to be listed. One that was there may have other bytes, of another version, and entries that were
// deleted from the log since: it must have all that the log has.
func (a *Archiver) verify(ctx context.Context, s Segment, file *os.File) (Segment, error) {
	damage := func(err error) error { return &DamageError{Object: s.Name, First: s.First, Last: s.Last, Err: err} }
	objects, err := a.store.List(ctx, s.Name)
	if err != nil {
		return s, err
	}
	if len(objects) == 0 || objects[0].Name != s.Name {
		return s, damage(ErrAbsent)
	}
	there, err := examine(ctx, a.store, a.temp, Segment{Name: s.Name, Contents: Contents{First: s.First, Last: s.Last}, Bytes: objects[0].Bytes})
	if err != nil {
		return s, err
	}
	if there.SHA256 == s.SHA256 && there.Digest == s.Digest {
		s.Footer = there.Footer
		return s, nil
	}
	if there.SHA256 == s.SHA256 {
		return s, damage(errors.New("it does not give back the entries that were written"))
	}
	if there.First.Compare(s.First) < 0 || there.Last.Compare(s.Last) > 0 {
		return s, damage(errors.New("it has entries beyond those of its name"))
	}
	if err := contains(ctx, a.store, there, file, s.Bytes); err != nil {
		return s, damaged(&s, err)
	}
	if there.Entries > 0 { // it was made before these went
		there.Lost = least(s.Lost, there.First)
	}
	there.First, there.Last = s.First, s.Last
	return there, nil
}

// contains: the segment in the store has each entry of the one in the file.
func contains(ctx context.Context, store Store, there Segment, file *os.File, size int64) error {
	ours, err := openSegment(file, size)
	if err != nil {
		return err
	}
	theirs, err := openSegment(object{ctx, store, there.Name}, there.Bytes)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(theirs.entries(codec.EntryID{}, codec.MaxEntryID))
	defer stop()
	var a, b rebuilder
	for e, err := range ours.entries(codec.EntryID{}, codec.MaxEntryID) {
		var want, got codec.Entry
		if err == nil {
			want, err = e.entry(&a)
		}
		for more := true; err == nil && more && got.ID.Compare(want.ID) < 0; {
			var have *stored
			if have, err, more = next(); more && err == nil {
				got, err = have.entry(&b)
			}
		}
		if err != nil {
			return err
		}
		if got.ID != want.ID || !slices.Equal(got.Fields, want.Fields) {
			return fmt.Errorf("another object is there, which does not have entry %s as the log has it", want.ID)
		}
	}
	return nil
}

// examine reads a whole object: what it holds, and the checksum of its bytes. *DamageError.
func examine(ctx context.Context, store Store, temp string, s Segment) (Segment, error) {
	file, err := os.CreateTemp(temp, "segment-*.parquet")
	if err != nil {
		return s, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	sum := sha256.New()
	in := io.NewSectionReader(object{ctx, store, s.Name}, 0, s.Bytes)
	if _, err := io.CopyBuffer(io.MultiWriter(sum, file), readOnly{in}, make([]byte, 1<<20)); err != nil {
		return s, damaged(&s, err)
	}
	s.SHA256 = fmt.Sprintf("%x", sum.Sum(nil))
	return summarize(file, s)
}

// summarize reads what a segment in a file holds.
func summarize(file *os.File, s Segment) (Segment, error) {
	in, err := openSegment(file, s.Bytes)
	if err != nil {
		return s, damaged(&s, err)
	}
	found, rebuild := newSummary(), rebuilder{}
	for e, err := range in.entries(codec.EntryID{}, codec.MaxEntryID) {
		var entry codec.Entry
		if err == nil {
			entry, err = e.entry(&rebuild)
		}
		if err == nil {
			err = found.add(entry, len(e.records))
		}
		if err != nil {
			return s, damaged(&s, err)
		}
	}
	s.Contents, s.Footer = found.contents(), in.in.sum
	return s, nil
}

// readOnly hides the other methods of a reader, so that a copy goes by its buffer.
type readOnly struct{ io.Reader }

// tries of a request to the store, with a pause after each that failed. After the last, the next turn tries again.
const tries = 4

func retried(ctx context.Context, request func() error) (err error) {
	for try := 1; ; try++ {
		if err = request(); err == nil || try == tries || !tier.Pause(ctx, tier.CallDelay(2+try)) {
			return err
		}
	}
}
