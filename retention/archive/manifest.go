package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Segment is what the manifest says of one.
type Segment struct {
	Name string `json:"name"` // of the object
	Contents
	// After is the entry that the segment before it ends with, in the manifest.
	After codec.EntryID `json:"after"`
	// Lost: of the entries above After, some below this one went before they were archived, by a hard cap or while the archive was another, or
	// none. 0-0: none did, there is no other between the two segments.
	Lost   codec.EntryID `json:"lost,omitzero"`
	Bytes  int64         `json:"bytes"`  // of the object
	SHA256 string        `json:"sha256"` // of these, hexadecimal
	// Footer is the SHA-256 of the end of the object, from where it describes itself, hexadecimal; empty: it was not written down.
	Footer string `json:"footer,omitempty"`
}

// Segments are those of a stream, ascending.
type Segments struct {
	List []Segment
	// Gone is the last entry that the archive's own max age has taken; 0-0: none.
	Gone codec.EntryID
}

// Last is the last entry that the archive has, or had; 0-0: none.
func (s *Segments) Last() codec.EntryID {
	if len(s.List) == 0 {
		return s.Gone
	}
	return s.List[len(s.List)-1].Last
}

// manifest lists the segments of a stream. Each change is an object of its own, which is made once and has the next number, so two
// that change it at once do not undo each other: the second finds the number taken, and reads again.
type manifest struct {
	Schema   int           `json:"schema"`
	Stream   string        `json:"stream"`
	Gone     codec.EntryID `json:"gone"`
	Segments []Segment     `json:"segments"`

	number uint64 // 0: there is none yet
}

// manifestsKept are the newest, for those who read one while others write. Older ones are deleted.
const manifestsKept = 8

// prefix of the objects of a stream. Tools that know partitions in paths read scope and stream as columns.
func prefix(a tier.Address) string { return "scope=" + a.Scope + "/stream=" + a.Stream + "/" }

func segmentPrefix(a tier.Address) string { return prefix(a) + "segments/" }

func segmentName(a tier.Address, first, last codec.EntryID) string {
	return segmentPrefix(a) + first.String() + "_" + last.String() + ".parquet"
}

// parseSegmentName is the inverse of segmentName.
func parseSegmentName(a tier.Address, name string) (first, last codec.EntryID, ok bool) {
	from, to, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, segmentPrefix(a)), ".parquet"), "_")
	first, err1 := codec.ParseEntryID(from)
	last, err2 := codec.ParseEntryID(to)
	return first, last, err1 == nil && err2 == nil && segmentName(a, first, last) == name
}

func manifestPrefix(a tier.Address) string { return prefix(a) + "manifest/" }

func manifestName(a tier.Address, number uint64) string {
	return fmt.Sprintf("%s%020d.json", manifestPrefix(a), number)
}

// manifests lists the numbers that there are, ascending, and how large each is.
func manifests(ctx context.Context, store Store, a tier.Address) (numbers []uint64, bytes []int64, err error) {
	objects, err := store.List(ctx, manifestPrefix(a))
	for _, o := range objects {
		text, ok := strings.CutSuffix(strings.TrimPrefix(o.Name, manifestPrefix(a)), ".json")
		if n, err := strconv.ParseUint(text, 10, 64); ok && err == nil && manifestName(a, n) == o.Name {
			numbers, bytes = append(numbers, n), append(bytes, o.Bytes)
		}
	}
	return numbers, bytes, err
}

// readManifest reads the newest. *DamageError.
func readManifest(ctx context.Context, store Store, a tier.Address) (*manifest, error) {
	for range 8 {
		numbers, sizes, err := manifests(ctx, store, a)
		if err != nil {
			return nil, err
		}
		if len(numbers) == 0 {
			return &manifest{Schema: schemaVersion, Stream: a.String()}, nil
		}
		m := &manifest{number: numbers[len(numbers)-1]}
		name := manifestName(a, m.number)
		if size := sizes[len(sizes)-1]; size > maxManifest {
			return nil, &DamageError{Object: name, Err: fmt.Errorf("%w: a manifest of %d bytes", errBounds, size)}
		}
		data := make([]byte, sizes[len(sizes)-1])
		_, err = store.ReadAt(ctx, name, data, 0)
		if errors.Is(err, ErrAbsent) { // so many newer ones were written that it went
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err := m.parse(data, a); err != nil {
			return nil, &DamageError{Object: name, Err: err}
		}
		return m, nil
	}
	return nil, fmt.Errorf("archive: manifest of %s: others change it all the time", a)
}

// last is the last entry that the archive has, or had.
func (m *manifest) last() codec.EntryID { return (&Segments{m.Segments, m.Gone}).Last() }

// find finds the segment that ends with an entry.
func (m *manifest) find(last codec.EntryID) (int, bool) {
	return slices.BinarySearchFunc(m.Segments, last, func(s Segment, last codec.EntryID) int { return s.Last.Compare(last) })
}

func (m *manifest) parse(data []byte, a tier.Address) error {
	if err := json.Unmarshal(data, m); err != nil {
		return err
	}
	if m.Schema > schemaVersion {
		return fmt.Errorf("of schema %d, this version reads %d: upgrade it", m.Schema, schemaVersion)
	}
	if m.Stream != a.String() {
		return fmt.Errorf("of stream %s, not %s", m.Stream, a)
	}
	last := m.Gone
	for i := range m.Segments {
		s := &m.Segments[i]
		if s.First.Compare(last) <= 0 || s.Last.Compare(s.First) < 0 {
			return fmt.Errorf("segment %s comes after entry %s", s.Name, last)
		}
		last = s.Last
	}
	return nil
}

// write makes the next manifest of this one, and deletes those that nobody reads any more. ErrExists: another was made meanwhile.
func (m *manifest) write(ctx context.Context, store Store, a tier.Address) error {
	data, err := json.Marshal(m)
	if err == nil && len(data) > maxManifest {
		err = fmt.Errorf("archive: the manifest of %s has %d segments, and can have no more: set larger ones, or give the stream another store", a, len(m.Segments))
	}
	if err != nil {
		return err
	}
	if err := store.Create(ctx, manifestName(a, m.number+1), bytes.NewReader(data), int64(len(data))); err != nil {
		return err
	}
	if m.number++; m.number == 1 { // the first: does the store keep what it promises?
		if err := store.Create(ctx, manifestName(a, 1), bytes.NewReader(data), int64(len(data))); !errors.Is(err, ErrExists) {
			return cmp.Or(err, errors.New("archive: the store writes over objects that there are, and so cannot hold an archive"))
		}
	}
	numbers, _, err := manifests(ctx, store, a)
	if err != nil {
		return err
	}
	if newest := numbers[len(numbers)-1]; newest != m.number { // it was frozen for so long that its number had been deleted
		return fmt.Errorf("%w: manifest %d is there", ErrExists, newest)
	}
	for _, n := range slices.Backward(numbers[:max(0, len(numbers)-manifestsKept)]) {
		if err := store.Delete(ctx, manifestName(a, n)); err != nil {
			return err
		}
	}
	return nil
}
