package input

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
)

// csvReader makes one message of each row: an object with the columns of the
// header line as fields, in their order, and the values as text. Blank lines are
// skipped.
type csvReader struct {
	cfg     Config
	rows    rowReader
	columns []string
	names   [][]byte // `"column":`, `,"column":`
}

func newCSV(cfg Config, lines *lineReader) (Reader, error) {
	r := &csvReader{cfg: cfg, rows: rowReader{lines: lines}}
	header, err := r.rows.next()
	switch {
	case errors.Is(err, io.EOF):
		return emptyReader{}, nil
	case err != nil:
		return nil, err
	case header.err != nil:
		return nil, cfg.lineError(header.number, fmt.Errorf("header line: %w", header.err))
	}
	r.columns = slices.Clone(header.values)
	if err := r.nameColumns(); err != nil {
		return nil, cfg.lineError(header.number, err)
	}
	return r, errors.Join(r.checkField("key", cfg.Key), r.checkField("time", cfg.Time), r.checkField("dedup", cfg.Dedup))
}

// Columns are those of the header line.
func (r *csvReader) Columns() []string { return r.columns }

// emptyReader is of a file without even a header line.
type emptyReader struct{}

func (emptyReader) Next() (Row, error) { return Row{}, io.EOF }

func (r *csvReader) checkField(flag, field string) error {
	if field == "" || slices.Contains(r.columns, field) {
		return nil
	}
	return &FieldError{Flag: flag, Field: field, Columns: r.columns}
}

func (r *csvReader) nameColumns() error {
	seen := map[string]bool{}
	for i, name := range r.columns {
		if !utf8.ValidString(name) {
			return fmt.Errorf("header line, column %d: %w", i+1, ErrUTF8)
		}
		if seen[name] {
			return fmt.Errorf("header line: column %.64q stands there twice", name)
		}
		seen[name] = true
		var b []byte
		if i > 0 {
			b = append(b, ',')
		}
		r.names = append(r.names, append(appendString(b, name), ':'))
	}
	return nil
}

func (r *csvReader) Next() (Row, error) {
	in, err := r.rows.next()
	if err != nil {
		return Row{}, err
	}
	row := Row{Line: in.number, Offset: in.offset}
	if err = in.err; err == nil {
		err = r.fill(&row, in.values)
	}
	if err != nil {
		return row, r.cfg.lineError(in.number, err)
	}
	return row, nil
}

func (r *csvReader) fill(row *Row, values []string) error {
	if len(values) != len(r.columns) {
		return fmt.Errorf("%s, the header line has %s", show.Count(len(values), "value"), show.Count(len(r.columns), "column"))
	}
	size := 2
	for i, v := range values {
		if !utf8.ValidString(v) {
			return fmt.Errorf("column %q: %w", r.columns[i], ErrUTF8)
		}
		size += len(r.names[i]) + len(v) + 2
	}
	data := append(make([]byte, 0, size), '{')
	for i, v := range values {
		data = appendString(append(data, r.names[i]...), v)
	}
	return r.cfg.fill(row, append(data, '}'), func(name string) (string, error) {
		return values[slices.Index(r.columns, name)], nil
	})
}

// appendString appends s, which is valid UTF-8, as a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			return show.AppendEscaped(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// newParser returns a CSV parser that takes rows of any width: widths are
// compared here, where the message can name both.
func newParser(r io.Reader) *csv.Reader {
	p := csv.NewReader(r)
	p.FieldsPerRecord = -1
	p.ReuseRecord = true
	return p
}
