package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/echomq/pipeline/codec"
)

// Checked is a segment that was looked at, or a range of entries that something is wrong with.
type Checked struct {
	Segment
	Problem string // empty: it is what was archived
}

// Verify reads all of an archive, and yields each segment, and what is wrong: an object that is not there, cut, or other than
// what was written; entries that are missing between two segments, or from the beginning of one, or that overlap; objects that the manifest does not list. Each
// object is brought to a file in temp, a directory; empty: that of the system.
//
// An error ends it: what the store fails with, or a manifest that cannot be read, *DamageError.
func (r *Reader) Verify(ctx context.Context, temp string) iter.Seq2[Checked, error] {
	return func(yield func(Checked, error) bool) {
		m, err := readManifest(ctx, r.store, r.address)
		if err != nil {
			yield(Checked{}, err)
			return
		}
		last := m.Gone
		for _, s := range m.Segments {
			if s.After != last && !yield(gap(s, last), nil) || !s.Lost.IsZero() && !yield(lost(s), nil) {
				return
			}
			last = s.Last
			checked, err := r.check(ctx, temp, s)
			if !yield(checked, err) || err != nil {
				return
			}
		}
		objects, err := r.store.List(ctx, segmentPrefix(r.address))
		if err != nil {
			yield(Checked{}, err)
			return
		}
		for _, o := range objects {
			if checked := m.unlisted(r, o); checked.Problem != "" && !yield(checked, nil) {
				return
			}
		}
	}
}

// gap is what lies between two segments that do not follow each other.
func gap(s Segment, last codec.EntryID) Checked {
	return Checked{
		Segment{Name: s.Name, Contents: Contents{First: last.Next(), Last: s.First.Prev()}},
		fmt.Sprintf("a gap: the next segment comes after %s, and the one before it ends with %s", s.After, last),
	}
}

// lost is what went before it was archived.
func lost(s Segment) Checked {
	return Checked{
		Segment{Name: s.Name, Contents: Contents{First: s.After.Next(), Last: s.Lost.Prev()}},
		fmt.Sprintf("a gap: entries above %s and below %s went before they were archived", s.After, s.Lost),
	}
}

// check looks at the object of a segment.
func (r *Reader) check(ctx context.Context, temp string, s Segment) (Checked, error) {
	found, err := examine(ctx, r.store, temp, s)
	var damage *DamageError
	switch {
	case errors.Is(err, ErrAbsent):
		return Checked{s, "the object is not there"}, nil
	case errors.As(err, &damage):
		return Checked{s, damage.Err.Error()}, nil
	case err != nil:
		return Checked{}, err
	case found.SHA256 != s.SHA256:
		return Checked{s, "its bytes are not those that were written"}, nil
	case found.Digest != s.Digest || found.Entries != s.Entries || found.Messages != s.Messages:
		return Checked{s, fmt.Sprintf("it has %d entries and %d messages, and not the %d and %d that were written", found.Entries, found.Messages, s.Entries, s.Messages)}, nil
	case s.Entries > 0 && (found.First.Compare(s.First) < 0 || found.Last.Compare(s.Last) > 0):
		return Checked{s, fmt.Sprintf("it has entries %s to %s, beyond its own", found.First, found.Last)}, nil
	}
	return Checked{Segment: s}, nil
}

// unlisted says what an object is that no segment names.
func (m *manifest) unlisted(r *Reader, o Object) Checked {
	first, last, ok := parseSegmentName(r.address, o.Name)
	c := Checked{Segment: Segment{Name: o.Name, Contents: Contents{First: first, Last: last}, Bytes: o.Bytes}}
	i, found := m.find(last)
	switch {
	case !ok:
		c.Problem = "not an object of the archive"
	case found && m.Segments[i].Name == o.Name:
	case last.Compare(m.Gone) <= 0:
		c.Problem = "its entries have passed the archive's max age: it goes with the next that do"
	case first.Compare(m.last()) <= 0:
		c.Problem = "not listed, and it overlaps with segments that are"
	default:
		c.Problem = "not listed yet: an archiver is at work, or one died, and the next lists it"
	}
	return c
}
