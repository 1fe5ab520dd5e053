package archive

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/echomq/pipeline/codec"
)

// segmentReader reads a segment, a row group at a time.
type segmentReader struct {
	file   *parquet.File
	origin origin
	in     *window
}

// openSegment reads what the segment says of itself. An error is a *storeError, or what is wrong with the segment.
func openSegment(in io.ReaderAt, size int64) (s *segmentReader, err error) {
	w := &window{in: in}
	defer w.ended(&err)
	if err := w.footer(size); err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(w, size, parquet.SkipMagicBytes(true), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	o, err := readOrigin(f)
	return &segmentReader{f, o, w}, err
}

// footerBytes of the end are read at once: what describes the segment is there, as a rule all of it.
const footerBytes = 64 << 10

// window is a part of an object, in memory: a row group is one request, whatever the columns ask for.
type window struct {
	in     io.ReaderAt
	at     int64
	part   []byte
	failed error  // of the last request
	sum    string // of what describes the segment, hexadecimal SHA-256
}

// ended turns a panic into an error, since the bytes may be any; and what a failed request led to into its own error.
func (w *window) ended(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("not readable: %v", p)
	}
	if *err != nil && w.failed != nil {
		*err = w.failed
	}
}

func (w *window) load(at, n int64) error {
	w.at, w.part = at, nil
	part := make([]byte, n)
	_, err := w.ReadAt(part, at)
	w.part = part
	return err
}

// ReadAt reads from the part, or else from the object.
func (w *window) ReadAt(p []byte, at int64) (int, error) {
	if at >= w.at && at+int64(len(p)) <= w.at+int64(len(w.part)) {
		return copy(p, w.part[at-w.at:]), nil
	}
	n, err := w.in.ReadAt(p, at)
	if n == len(p) {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it ends too early: truncated")
	}
	w.failed = err
	return n, err
}

// entries yields the entries of the row groups that may have some between two of them.
func (s *segmentReader) entries(from, to codec.EntryID) iter.Seq2[*stored, error] {
	return func(yield func(*stored, error) bool) {
		for i := range s.file.RowGroups() {
			r, err := s.rows(i, from, to)
			if err != nil {
				yield(nil, err)
				return
			}
			for r.row < r.n {
				e, err := r.next()
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// overlaps: by what the file says of the row group's times.
func (s *segmentReader) overlaps(group int, from, to codec.EntryID) bool {
	chunk, ok := s.file.RowGroups()[group].ColumnChunks()[colTime].(*parquet.FileColumnChunk)
	if !ok {
		return true
	}
	low, high, ok := chunk.Bounds()
	return !ok || uint64(high.Int64()) >= from.Ms && uint64(low.Int64()) <= to.Ms
}

// read are the columns that make entries; the others follow from these.
var read = []int{colEntry, colOf, colType, colKey, colHeaderKey, colHeaderValue, colFormat, colData, colFields}

// lists are the columns that may have several values of a row.
var lists = []int{colFields, colHeaderKey, colHeaderValue}

// pagesAt is where the pages of a column begin.
func pagesAt(m *format.ColumnMetaData) int64 {
	if m.DictionaryPageOffset > 0 {
		return min(m.DataPageOffset, m.DictionaryPageOffset)
	}
	return m.DataPageOffset
}

// rows reads a row group, which is one request; none of one that has no entries between two.
func (s *segmentReader) rows(group int, from, to codec.EntryID) (r *rows, err error) {
	defer s.in.ended(&err)
	if !s.overlaps(group, from, to) {
		return &rows{}, nil
	}
	g := s.file.RowGroups()[group]
	low, high := int64(math.MaxInt64), int64(0)
	for i := range s.file.Metadata().RowGroups[group].Columns {
		m := &s.file.Metadata().RowGroups[group].Columns[i].MetaData
		at := pagesAt(m)
		low, high = min(low, at), max(high, at+m.TotalCompressedSize)
	}
	if low < 0 || low > high || high > s.file.Size() {
		return nil, errors.New("a row group that lies beyond the end")
	}
	if err := s.in.load(low, high-low); err != nil {
		return nil, err
	}
	r = &rows{n: int(g.NumRows()), stored: stored{identity: s.origin.identity}}
	for _, col := range read {
		m := &s.file.Metadata().RowGroups[group].Columns[col].MetaData
		at := pagesAt(m) - low
		if err = bounded(s.in.part[at:at+m.TotalCompressedSize], m, slices.Contains(lists, col)); err == nil {
			r.columns[col], err = values(g.ColumnChunks()[col])
		}
		if err != nil {
			return nil, fmt.Errorf("column %v: %w", schema.Columns()[col], err)
		}
	}
	return r, nil
}

// values of a column. They stay good: the pages are left to the garbage collector.
func values(c parquet.ColumnChunk) ([]parquet.Value, error) {
	pages := c.Pages()
	defer pages.Close()
	var list []parquet.Value
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		n := len(list)
		list = slices.Grow(list, int(page.NumValues()))[:n+int(page.NumValues())]
		for in := page.Values(); n < len(list); {
			k, err := in.ReadValues(list[n:])
			n += k
			if err != nil && !(errors.Is(err, io.EOF) && n == len(list)) {
				return nil, err
			}
		}
	}
}
