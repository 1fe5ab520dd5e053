package input

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
)

// csvRow is a row, or why it is none. Its values are good until the next one.
type csvRow struct {
	values []string
	number int // of its first line
	offset int64
	err    error
}

// rowReader puts the lines of a row together: a quoted value may hold line ends.
// A quote that is never closed would swallow the file; so a row that does not
// parse costs its first line only, and its other lines are read again.
type rowReader struct {
	lines *lineReader
	again []line // lines to be read again
	feed  bytes.Reader
	parse *csv.Reader
}

// next skips blank lines; the error is io.EOF or the file's.
func (r *rowReader) next() (csvRow, error) {
	first, err := r.line()
	for err == nil && first.err == nil && len(first.text) == 0 {
		first, err = r.line()
	}
	if err != nil {
		return csvRow{}, err
	}
	row := csvRow{number: first.number, offset: first.offset, err: first.err}
	if first.err != nil {
		return row, nil
	}
	text := first.withoutMark()
	if bytes.Count(text, quote)%2 == 0 {
		row.values, row.err = r.values(text)
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

func (r *rowReader) line() (line, error) {
	if len(r.again) > 0 {
		l := r.again[0]
		r.again = r.again[1:]
		return l, nil
	}
	return r.lines.next()
}

// long adds lines until the quotes are even.
func (r *rowReader) long(row csvRow, first []byte) (csvRow, error) {
	text := bytes.Clone(first)
	var more []line
	for open := true; open; {
		l, err := r.line()
		if err != nil && !errors.Is(err, io.EOF) {
			return row, err
		}
		if err == nil {
			l.text = bytes.Clone(l.text) // it may be read again
			more = append(more, l)
		}
		if err != nil || l.err != nil || len(text)+len(l.text) >= MaxLine {
			row.err = errQuote
			break
		}
		text = append(append(text, '\n'), l.text...)
		row.offset = l.offset
		open = bytes.Count(l.text, quote)%2 == 0
	}
	if row.err == nil {
		row.values, row.err = r.values(text)
	}
	if row.err != nil {
		r.again = append(more, r.again...)
	}
	return row, nil
}

// values parses the text of one row.
func (r *rowReader) values(text []byte) ([]string, error) {
	r.feed.Reset(text)
	if r.parse == nil {
		r.parse = newParser(&r.feed)
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
