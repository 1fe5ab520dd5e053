package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/echomq/pipeline/codec"
)

// A row group is what a reader has in memory at once. It has whole entries.
const (
	groupBytes = 4 << 20 // of fields, about
	groupRows  = 32 << 10
	batchRows  = 512 // that go to the columns at a time
)

// Contents are what a segment holds, whatever its bytes.
type Contents struct {
	First    codec.EntryID `json:"first"` // entry
	Last     codec.EntryID `json:"last"`
	Entries  int64         `json:"entries"`
	Messages int64         `json:"messages"` // rows; an entry that holds none is one
	Digest   string        `json:"digest"`   // hexadecimal SHA-256 of the entries: ms, seq, number of fields, and each field behind its length, as 8 bytes each, big-endian
}

// summary finds the contents of entries that it is shown in their order.
type summary struct {
	Contents
	hash hash.Hash
	buf  []byte
}

func newSummary() *summary { return &summary{hash: sha256.New()} }

func (s *summary) add(e codec.Entry, messages int) error {
	if s.Entries > 0 && e.ID.Compare(s.Last) <= 0 {
		return fmt.Errorf("entry %s comes after %s", e.ID, s.Last)
	}
	if s.Entries == 0 {
		s.First = e.ID
	}
	s.Last = e.ID
	s.Entries++
	s.Messages += int64(messages)
	number := binary.BigEndian.AppendUint64
	s.buf = number(number(number(s.buf[:0], e.ID.Ms), e.ID.Seq), uint64(len(e.Fields)))
	for _, f := range e.Fields {
		s.buf = append(number(s.buf, uint64(len(f))), f...)
	}
	s.hash.Write(s.buf)
	return nil
}

func (s *summary) contents() Contents {
	s.Digest = fmt.Sprintf("%x", s.hash.Sum(nil))
	return s.Contents
}

// segmentWriter writes entries of a stream as a segment.
type segmentWriter struct {
	out     *parquet.GenericWriter[any]
	origin  origin
	summary *summary
	rebuild rebuilder
	records []codec.Record
	values  [columns][]parquet.Value
	rows    int // in values
	group   struct{ rows, bytes int }
}

func newSegmentWriter(out io.Writer, o origin) *segmentWriter {
	w := &segmentWriter{out: parquet.NewGenericWriter[any](out, writerOptions()...), origin: o, summary: newSummary()}
	o.write(w.out)
	return w
}

// add writes an entry, which comes after the one before. A pack is kept as it would be without compression: all of the segment has its own.
func (w *segmentWriter) add(e codec.Entry) error {
	if e.ID.Ms > math.MaxInt64 {
		return fmt.Errorf("entry %s: its milliseconds are no time: see 'pipeline doctor'", e.ID)
	}
	w.records = w.origin.identity.Records(w.records[:0], e)
	if w.records[0].Fields == nil { // it is neither foreign nor undecodable
		e = codec.Uncompressed(e)
	}
	if err := w.summary.add(e, len(w.records)); err != nil {
		return err
	}
	raw := !w.rebuild.whole(w.origin.identity, e, w.records)
	name := stringOf(e.ID.AppendTo(nil))
	for i := range w.records {
		w.row(&w.records[i], name, i, len(w.records))
		w.fields(e.Fields, raw && i == 0)
	}
	for _, f := range e.Fields {
		w.group.bytes += len(f) + 1 // also of thousands that are empty
	}
	if w.rows >= batchRows || w.group.bytes >= groupBytes {
		return w.flush()
	}
	return nil
}

func (w *segmentWriter) put(col int, v parquet.Value, rep, def int) {
	w.values[col] = append(w.values[col], v.Level(rep, def, col))
}

func text(s string) parquet.Value {
	return parquet.ByteArrayValue(bytesOf(strings.ToValidUTF8(s, "\uFFFD")))
}

// row writes all columns of a message but its fields.
func (w *segmentWriter) row(r *codec.Record, entry string, index, of int) {
	w.rows++
	null := parquet.NullValue()
	if r.ID.IsZero() {
		w.put(colID, null, 0, 0)
	} else {
		w.put(colID, parquet.ByteArrayValue([]byte(r.ID.String())), 0, 1)
	}
	w.put(colEntry, parquet.ByteArrayValue(bytesOf(entry)), 0, 0)
	w.put(colIndex, parquet.Int32Value(int32(index)), 0, 0)
	w.put(colOf, parquet.Int32Value(int32(of)), 0, 0)
	w.put(colTime, parquet.Int64Value(int64(r.Position.Entry.Ms)), 0, 0)
	if r.Fields != nil { // foreign, or not readable
		for _, col := range []int{colType, colKey, colFormat, colData, colHeaderKey, colHeaderValue} {
			w.put(col, null, 0, 0)
		}
		return
	}
	w.put(colType, text(r.Type), 0, 1)
	w.put(colKey, text(r.Key), 0, 1)
	w.put(colFormat, parquet.ByteArrayValue(bytesOf(formats[r.Format])), 0, 1)
	w.put(colData, parquet.ByteArrayValue(r.Data), 0, 1)
	for i := range r.Headers {
		rep := min(i, 1)
		w.put(colHeaderKey, text(r.Headers[i].Key), rep, 1)
		w.put(colHeaderValue, text(r.Headers[i].Value), rep, 1)
	}
	if len(r.Headers) == 0 {
		w.put(colHeaderKey, null, 0, 0)
		w.put(colHeaderValue, null, 0, 0)
	}
}

func (w *segmentWriter) fields(fields []string, keep bool) {
	if !keep || len(fields) == 0 {
		w.put(colFields, parquet.NullValue(), 0, 0)
		return
	}
	for i, f := range fields {
		w.put(colFields, parquet.ByteArrayValue(bytesOf(f)), min(i, 1), 1)
	}
}

// flush gives the rows to the columns, and ends the row group when it is full.
func (w *segmentWriter) flush() error {
	if w.rows == 0 { // the columns look at the first of what they are given
		return nil
	}
	for col, out := range w.out.ColumnWriters() {
		if _, err := out.WriteRowValues(w.values[col]); err != nil {
			return err
		}
		clear(w.values[col])
		w.values[col] = w.values[col][:0]
	}
	w.group.rows += w.rows
	w.rows = 0
	if w.group.rows < groupRows && w.group.bytes < groupBytes {
		return nil
	}
	w.group.rows, w.group.bytes = 0, 0
	return w.out.Flush()
}

// close ends the segment.
func (w *segmentWriter) close() (Contents, error) {
	if err := w.flush(); err != nil {
		return Contents{}, err
	}
	return w.summary.contents(), w.out.Close()
}
