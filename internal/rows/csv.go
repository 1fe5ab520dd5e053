package rows

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/echomq/pipeline/internal/jsontext"
)

// Row is a row of CSV, or why it is none. Its values are good until the next one is read.
type Row struct {
	Values []string
	Number int   // of its first line
	Offset int64 // behind it
	Err    error
}

// Table reads CSV: rows as wide as the header line, whose columns have names that differ.
type Table struct {
	Columns []string
	Line    int // of the header line

	rows  *records
	names [][]byte // {"column":  ,"column":
}

// HeaderError says why a file has no header line that names the columns.
type HeaderError struct {
	Line int
	Err  error
}

func (e *HeaderError) Error() string { return "header line" + e.Err.Error() }

func (e *HeaderError) Unwrap() error { return e.Err }

// NewTable reads the header line. Errors: io.EOF, when there is none; *HeaderError; the file's.
func NewTable(lines *Lines) (*Table, error) {
	table := &records{lines: lines}
	header, err := table.next()
	if err != nil {
		return nil, err
	}
	if header.Err != nil {
		return nil, &HeaderError{header.Number, fmt.Errorf(": %w", header.Err)}
	}
	t := &Table{Columns: slices.Clone(header.Values), Line: header.Number, rows: table}
	for i, name := range t.Columns {
		if !utf8.ValidString(name) {
			return nil, &HeaderError{header.Number, fmt.Errorf(", column %d: %w", i+1, jsontext.ErrUTF8)}
		}
		if slices.Contains(t.Columns[:i], name) {
			return nil, &HeaderError{header.Number, fmt.Errorf(": column %.64q stands there twice", name)}
		}
		b := []byte{','}
		if i == 0 {
			b = []byte{'{'}
		}
		t.names = append(t.names, append(jsontext.AppendString(b, name), ':'))
	}
	return t, nil
}

// Next skips blank lines; the error is io.EOF or the file's.
func (t *Table) Next() (Row, error) {
	row, err := t.rows.next()
	if err != nil || row.Err != nil {
		return row, err
	}
	if len(row.Values) != len(t.Columns) {
		row.Err = fmt.Errorf("%s, the header line has %s", count(len(row.Values), "value"), count(len(t.Columns), "column"))
	}
	return row, nil
}

// Object is a row as a JSON object, with the columns as fields, in their order, and values as value appends them.
func (t *Table) Object(values []string, value func(dst []byte, s string) []byte) ([]byte, error) {
	size := 2
	for i, v := range values {
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("column %q: %w", t.Columns[i], jsontext.ErrUTF8)
		}
		size += len(t.names[i]) + len(v) + 2
	}
	data := make([]byte, 0, size)
	for i, v := range values {
		data = value(append(data, t.names[i]...), v)
	}
	return append(data, '}'), nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// records puts the lines of a row together: a quoted value may hold line ends.
// A quote that is never closed would swallow the file; so a row that does not
// parse costs its first line only, and its other lines are read again.
type records struct {
	lines *Lines
	again []Line // lines to be read again
	feed  bytes.Reader
	parse *csv.Reader
}

// next skips blank lines; the error is io.EOF or the file's.
func (r *records) next() (Row, error) {
	first, err := r.line()
	for err == nil && first.Err == nil && len(first.Text) == 0 {
		first, err = r.line()
	}
	if err != nil {
		return Row{}, err
	}
	row := Row{Number: first.Number, Offset: first.Offset, Err: first.Err}
	if first.Err != nil {
		return row, nil
	}
	text := first.WithoutMark()
	if bytes.Count(text, quote)%2 == 0 {
		row.Values, row.Err = r.values(text)
		return row, nil
	}
	return r.long(row, text)
}

var (
	quote = []byte{'"'}

	errQuote      = errors.New(`a " is not closed before the end of the file, or within 1 MiB`)
	errBareQuote  = errors.New(`a " in a value without quotes: put the value into quotes, and write the " twice`)
	errInnerQuote = errors.New(`a " inside quotes: write it twice`)
)

func (r *records) line() (Line, error) {
	if len(r.again) > 0 {
		l := r.again[0]
		r.again = r.again[1:]
		return l, nil
	}
	return r.lines.Next()
}

// long adds lines until the quotes are even.
func (r *records) long(row Row, first []byte) (Row, error) {
	text := bytes.Clone(first)
	var more []Line
	for open := true; open; {
		l, err := r.line()
		if err != nil && !errors.Is(err, io.EOF) {
			return row, err
		}
		if err == nil {
			l.Text = bytes.Clone(l.Text) // it may be read again
			more = append(more, l)
		}
		if err != nil || l.Err != nil || len(text)+len(l.Text) >= r.lines.most {
			row.Err = errQuote
			break
		}
		text = append(append(text, '\n'), l.Text...)
		row.Offset = l.Offset
		open = bytes.Count(l.Text, quote)%2 == 0
	}
	if row.Err == nil {
		row.Values, row.Err = r.values(text)
	}
	if row.Err != nil {
		r.again = append(more, r.again...)
	}
	return row, nil
}

// values parses the text of one row.
func (r *records) values(text []byte) ([]string, error) {
	r.feed.Reset(text)
	if r.parse == nil {
		r.parse = csv.NewReader(&r.feed)
		r.parse.FieldsPerRecord, r.parse.ReuseRecord = -1, true // Table compares widths, and names both
	}
	values, err := r.parse.Read()
	if err == nil {
		return values, nil
	}
	r.parse = nil // it may hold a rest of the text
	switch {
	case errors.Is(err, csv.ErrBareQuote):
		err = errBareQuote
	case errors.Is(err, csv.ErrQuote):
		err = errInnerQuote
	}
	return nil, err
}
