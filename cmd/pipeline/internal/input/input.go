// Package input reads the messages of a file: lines, JSON Lines or CSV. What does
// not parse costs its line, not the file.
package input

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/rows"
)

// Formats are the values of Config.Format.
var Formats = []string{"lines", "json", "csv"}

// HeaderEventTime is the header that holds the value of Config.Time, in RFC 3339.
const HeaderEventTime = "event-time"

// Config says how to read.
type Config struct {
	File   string // the name in errors
	Format string // one of Formats
	Type   string // of every message
	Key    string // the field that becomes the key; "" for none
	Keyed  bool   // each message needs a key
	Time   string // the field that becomes the header event-time; "" for none
	Dedup  string // the field that becomes Row.Dedup; "" for none
}

// Row is a message and where it stood.
type Row struct {
	Line    int   // of its first line, from 1
	Offset  int64 // bytes read so far, this row included
	Message codec.Message
	Dedup   string // what tells the message from others
}

// LineError is about one line only: the next call of Next goes on behind it.
type LineError struct {
	File string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// FieldError says that a field was asked for that the header line does not have.
type FieldError struct {
	Flag, Field string
	Columns     []string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("--%s %q: no such column, the header line has %.200q", e.Flag, e.Field, e.Columns)
}

// Reader gives one row after another. The error is io.EOF at the end, a
// *LineError for one line, anything else for the file.
type Reader interface{ Next() (Row, error) }

// New returns a reader of r. For CSV it reads the header line: the error is then
// a *FieldError or a *LineError.
func New(r io.Reader, cfg Config) (Reader, error) {
	lines := rows.NewLines(r, rows.MaxLine)
	switch cfg.Format {
	case "lines":
		return &textReader{cfg: cfg, lines: lines}, nil
	case "json":
		return &jsonReader{cfg: cfg, lines: lines}, nil
	case "csv":
		return newCSV(cfg, lines)
	}
	return nil, fmt.Errorf("input: format %q: want one of %q", cfg.Format, Formats)
}

func (c *Config) lineError(line int, err error) error {
	return &LineError{File: c.File, Line: line, Err: err}
}

var (
	contentText = codec.Headers{{Key: codec.HeaderContentType, Value: "text/plain"}}
	contentJSON = codec.Headers{{Key: codec.HeaderContentType, Value: "application/json"}}
)

// fill gives the row its message of JSON data; field gives the text of a field of it.
func (c *Config) fill(row *Row, data []byte, field func(name string) (string, error)) (err error) {
	if row.Message, err = c.jsonMessage(data, field); err != nil || c.Dedup == "" {
		return err
	}
	if row.Dedup, err = field(c.Dedup); err == nil && row.Dedup == "" {
		err = fmt.Errorf("field %q is empty, and is to tell the message from others", c.Dedup)
	}
	return err
}

func (c *Config) jsonMessage(data []byte, field func(name string) (string, error)) (codec.Message, error) {
	m := codec.Message{Type: c.Type, Headers: contentJSON, Data: data}
	var err error
	if c.Key != "" {
		if m.Key, err = field(c.Key); err != nil {
			return m, err
		}
		if c.Keyed && m.Key == "" {
			return m, fmt.Errorf("field %q is empty, and each message of a keyed stream needs a key", c.Key)
		}
	}
	if c.Time == "" {
		return m, nil
	}
	text, err := field(c.Time)
	if err != nil {
		return m, err
	}
	t, err := when.ParseEvent(text)
	if err != nil {
		return m, fmt.Errorf("field %q is %.64q: %w", c.Time, text, err)
	}
	m.Headers = append(slices.Clip(contentJSON), codec.Header{Key: HeaderEventTime, Value: t.Format(time.RFC3339Nano)})
	return m, nil
}
