package archive

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"github.com/echomq/pipeline/codec"
)

// rows are those of a row group: the values of its columns, and which comes next. Columns of lists have a value for each of a row's,
// or one that is null.
type rows struct {
	n       int
	columns [columns][]parquet.Value
	row     int
	header  int // in the columns of headers
	field   int // in that of fields
	stored  stored
}

// stored is an entry as a segment has it. It is good until the next one is read, its strings and bytes for longer.
type stored struct {
	id       codec.EntryID
	identity codec.Identity
	fields   []string // when the records do not give them back
	records  []codec.Record
}

// entry as it was in the log; b has what it needs until b's next use.
func (s *stored) entry(b *rebuilder) (codec.Entry, error) {
	if s.fields != nil {
		return codec.Entry{ID: s.id, Fields: s.fields}, nil
	}
	fields, ok := b.fields(nil, s.identity, s.records)
	if !ok {
		return codec.Entry{}, fmt.Errorf("entry %s: messages that no writer would write", s.id)
	}
	return codec.Entry{ID: s.id, Fields: fields}, nil
}

var errRows = errors.New("columns of different lengths")

// next reads the rows of the next entry.
func (r *rows) next() (*stored, error) {
	if r.row >= len(r.columns[colEntry]) || r.row >= len(r.columns[colOf]) {
		return nil, errRows
	}
	id, err := codec.ParseEntryID(stringOf(r.columns[colEntry][r.row].ByteArray()))
	if err != nil {
		return nil, err
	}
	of := int(r.columns[colOf][r.row].Int32())
	if of < 1 || of > r.n-r.row || uint64(of-1) > id.Seq && of > 1 {
		return nil, fmt.Errorf("entry %s: of %d messages", id, of)
	}
	s := &r.stored
	s.id, s.fields, s.records = id, nil, s.records[:0]
	for _, f := range r.list(colFields, &r.field) {
		s.fields = append(s.fields, stringOf(f.ByteArray()))
	}
	for i := range of {
		if i > 0 {
			r.list(colFields, &r.field)
		}
		from := r.header
		keys := r.list(colHeaderKey, &r.header)
		values := r.list(colHeaderValue, &from)
		if s.fields == nil {
			if err := r.message(codec.EntryID{Ms: id.Ms, Seq: id.Seq - uint64(of-1-i)}, i, keys, values); err != nil {
				return nil, err
			}
		}
		r.row++
	}
	if s.fields != nil {
		s.records = s.identity.Records(s.records, codec.Entry{ID: id, Fields: s.fields})
		if len(s.records) != of {
			return nil, fmt.Errorf("entry %s: %d messages, not %d", id, len(s.records), of)
		}
	}
	return s, nil
}

// list takes the values that the row has in a column of lists.
func (r *rows) list(col int, at *int) []parquet.Value {
	column := r.columns[col]
	if *at >= len(column) {
		return nil
	}
	from := *at
	*at++
	if column[from].DefinitionLevel() == 0 {
		return nil
	}
	for *at < len(column) && column[*at].RepetitionLevel() > 0 {
		*at++
	}
	return column[from:*at]
}

// message reads a row that is a message of the entry.
func (r *rows) message(addr codec.EntryID, index int, keys, values []parquet.Value) error {
	for _, col := range []int{colType, colKey, colFormat, colData} {
		if r.row >= len(r.columns[col]) {
			return errRows
		}
	}
	if len(keys) != len(values) {
		return errRows
	}
	s := &r.stored
	s.records = append(s.records, codec.Record{Position: codec.Position{Entry: s.id, Index: index}, Addr: addr})
	record := &s.records[len(s.records)-1]
	var ok bool
	if s.identity.Exclusive {
		record.ID, ok = codec.HostID(s.identity.Brand, addr)
	} else {
		record.ID, ok = codec.ServerID(s.identity.Brand, s.identity.Node, addr)
	}
	if !ok {
		return fmt.Errorf("entry %s: no message of %s has that place", s.id, s.identity.Brand)
	}
	record.Type, record.Key = stringOf(r.columns[colType][r.row].ByteArray()), stringOf(r.columns[colKey][r.row].ByteArray())
	record.Data = r.columns[colData][r.row].ByteArray()
	switch format := stringOf(r.columns[colFormat][r.row].ByteArray()); format {
	case formats[codec.FormatBytes]:
	case formats[codec.FormatMsgpack]:
		record.Format = codec.FormatMsgpack
	default:
		return fmt.Errorf("entry %s: data of format %.20q", s.id, format)
	}
	if len(keys) > 0 {
		record.Headers = make(codec.Headers, len(keys))
		for i := range keys {
			record.Headers[i] = codec.Header{Key: stringOf(keys[i].ByteArray()), Value: stringOf(values[i].ByteArray())}
		}
	}
	return nil
}
