package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// DefaultSettle is how old an entry is before it is archived. A failover may lose the newest entries of a log: then the archive would have
// some that the log never had.
const DefaultSettle = 10 * time.Second

// Archiver archives one stream, by the steps
//
//	choose    the segment's first and last entry are written down on the server
//	fold      the entries are read, and written to an object named by these two
//	verify    the object is read back: it gives back every entry
//	manifest  the next manifest lists it
//	mark      the server is told: what is below may go
//
// Each step finds what it did before, so a process that died anywhere is followed by one that goes on. The server refuses the first
// and the last step to whom does not hold the right to trim; the store makes no object twice.
type Archiver struct {
	right   *stream.Sweep
	client  *tier.Client
	store   Store
	address tier.Address
	policy  stream.Retention
	log     *stream.Reader
	temp    string
	settle  time.Duration
}

// ArchiverConfig says what an Archiver archives.
type ArchiverConfig struct {
	Address tier.Address
	// Policy of the stream, as it was read.
	Policy stream.Retention
	// Temp is the directory where a segment is written before it goes to the store. Empty: that of the system.
	Temp string
	// Settle is how old an entry is before it is archived. 0: DefaultSettle.
	Settle time.Duration
}

// NewArchiver makes an archiver that holds the right to trim by the sweep that it is given. It asks nothing.
func NewArchiver(client *tier.Client, right *stream.Sweep, store Store, cfg ArchiverConfig) (*Archiver, error) {
	log, err := stream.NewReader(client, stream.ReaderConfig{Address: cfg.Address.String()})
	if err != nil {
		return nil, err
	}
	return &Archiver{right, client, store, cfg.Address, cfg.Policy, log, cfg.Temp, cmp.Or(cfg.Settle, DefaultSettle)}, nil
}

// Archived is what was done.
type Archived struct {
	Segments int // that were made
	Entries  int64
	Messages int64
	Bytes    int64 // of objects
	Deleted  int   // segments that the archive's own max age has taken
	// Moved: the log had lost its end, and goes on above the archive's.
	Moved bool
}

// Add adds what was done in a later turn.
func (a *Archived) Add(b Archived) {
	a.Segments += b.Segments
	a.Entries += b.Entries
	a.Messages += b.Messages
	a.Bytes += b.Bytes
	a.Deleted += b.Deleted
	a.Moved = a.Moved || b.Moved
}

// StrayError says that the log has entries below the archive's last that the archive does not have: the store has the archive of
// another log, or ids were given twice after the server lost its end. Nothing is archived, and nothing goes, until a person has looked.
type StrayError struct {
	Stream string
	Entry  codec.EntryID // the first of them
	Last   codec.EntryID // of the archive
}

func (e *StrayError) Error() string {
	return fmt.Sprintf("archive: %s has entry %s, which the archive does not have though it goes up to %s: it is of another log, or the server has lost what it had: give the stream a store of its own", e.Stream, e.Entry, e.Last)
}

// BehindError says that the archive ends below the mark: the store has lost what was archived.
type BehindError struct {
	Stream     string
	Last, Mark codec.EntryID
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("archive: %s was archived up to %s, and the store has it up to %s: bring its objects back, or set another store in the policy, an empty prefix, in its place: that gets what the log still has, and of what went it says that it is missing", e.Stream, e.Mark, e.Last)
}

// Turn archives what there is, a segment at most: more says that there is another one. With flush, also what is too small and too
// young for a segment by the policy.
//
// Errors: those of stream.Sweep.Mark; *StrayError, *BehindError, *DamageError; what the store fails with.
func (a *Archiver) Turn(ctx context.Context, flush bool) (done Archived, more bool, err error) {
	chosen, err := a.ask(ctx)
	if err != nil {
		return done, false, err
	}
	m, err := readManifest(ctx, a.store, a.address)
	if err != nil {
		return done, false, err
	}
	if chosen, err = a.begin(ctx, m, chosen, &done); err != nil {
		return done, false, err
	}
	if done.Deleted, err = a.expire(ctx, m); err != nil {
		return done, false, err
	}
	if chosen.To.IsZero() {
		if chosen, more, err = a.choose(ctx, chosen.Mark, flush); err != nil || chosen.To.IsZero() {
			return done, false, err
		}
	}
	s, err := a.segment(ctx, chosen)
	if err != nil {
		return done, false, err
	}
	if err := a.list(ctx, m, s); err != nil {
		return done, false, err
	}
	if _, err := a.right.Mark(ctx, a.address.Stream, a.policy, s.Last, chosen.Top); err != nil {
		return done, false, err
	}
	done.Segments, done.Entries, done.Messages, done.Bytes = 1, s.Entries, s.Messages, s.Bytes
	return done, more, nil
}

// ask asks what is chosen, of who holds the right.
func (a *Archiver) ask(ctx context.Context) (stream.Chosen, error) {
	return a.right.Choose(ctx, a.address.Stream, a.policy, codec.EntryID{}, codec.EntryID{}, a.settle)
}

// begin brings the mark to where the manifest ends.
func (a *Archiver) begin(ctx context.Context, m *manifest, chosen stream.Chosen, done *Archived) (_ stream.Chosen, err error) {
	last := m.last()
	if last.Compare(chosen.Mark) < 0 {
		return chosen, &BehindError{a.address.String(), last, chosen.Mark}
	}
	if last.IsZero() {
		return chosen, nil
	}
	if last != chosen.Mark && (last != chosen.To || chosen.Top.Compare(last) < 0) { // else it died before the mark
		if err := a.strays(ctx, chosen.Mark, last); err != nil {
			return chosen, err
		}
	}
	if done.Moved, err = a.right.Mark(ctx, a.address.Stream, a.policy, last, chosen.Top); err != nil {
		return chosen, err
	}
	if chosen.From.Compare(last) <= 0 { // it is done, or another archive of the log has gone beyond its beginning
		return stream.Chosen{Mark: last}, nil
	}
	chosen.Mark = last
	return chosen, nil
}

// strays looks for entries of the log that lie above the mark and not above the archive's last, and are not in the archive.
func (a *Archiver) strays(ctx context.Context, mark, last codec.EntryID) error {
	r := Reader{store: a.store, address: a.address}
	all, err := r.Segments(ctx)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(r.between(ctx, all.List, mark.Next(), last))
	defer stop()
	var have codec.EntryID
	for e, err := range a.log.Entries(ctx, mark.Next(), last) {
		for more := true; err == nil && more && have.Compare(e.ID) < 0; {
			var s *stored
			if s, err, more = next(); more && err == nil {
				have = s.id
			}
		}
		if err == nil && have != e.ID {
			err = &StrayError{a.address.String(), e.ID, last}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list has the manifest name the segment. Who finds that another has written one meanwhile reads it, and goes on from there.
func (a *Archiver) list(ctx context.Context, m *manifest, s Segment) error {
	for {
		if i, ok := m.find(s.Last); ok {
			if m.Segments[i].First != s.First || m.Segments[i].SHA256 != s.SHA256 {
				return &DamageError{Object: manifestName(a.address, m.number), First: s.First, Last: s.Last, Err: errors.New("lists another segment with that last entry")}
			}
			return nil
		}
		if last := m.last(); last.Compare(s.First) >= 0 {
			return fmt.Errorf("archive: %s: the manifest goes up to %s, and a segment is to begin at %s: another archiver works with other segments", a.address, last, s.First)
		}
		s.After = m.last()
		if s.Lost.Compare(s.After.Next()) <= 0 {
			s.Lost = codec.EntryID{}
		}
		m.Segments = append(m.Segments, s)
		err := m.write(ctx, a.store, a.address)
		if !errors.Is(err, ErrExists) {
			return err
		}
		fresh, err := readManifest(ctx, a.store, a.address)
		if err != nil {
			return err
		}
		*m = *fresh
	}
}
