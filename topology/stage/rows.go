package stage

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/jsontext"
	"github.com/echomq/pipeline/internal/rows"
)

// errRecord is about one record: the next one can be read.
type errRecord struct{ error }

func (e errRecord) Unwrap() error { return e.error }

// records gives one message after another; io.EOF at the end, errRecord for one that is none.
type records interface{ next() (codec.Message, error) }

func newRecords(r io.Reader, format string) (records, error) {
	if file, is := r.(*os.File); is && format == "parquet" {
		return newColumns(file)
	}
	in := rows.NewLines(r, rows.MaxLine)
	if format == "csv" {
		return &table{lines: in}, nil
	}
	return &lines{in, format == "jsonl"}, nil
}

// lines are texts, or values of JSON. Empty ones are passed over.
type lines struct {
	in   *rows.Lines
	json bool
}

func (l *lines) next() (m codec.Message, err error) {
	for {
		line, err := l.in.Next()
		if err != nil {
			return m, err
		}
		if line.Err != nil {
			return m, errRecord{line.Err}
		}
		text := line.WithoutMark()
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		m.Headers, m.Data = contentText, bytes.Clone(text)
		if l.json {
			m.Headers = contentJSON
			if err := jsontext.Check(text); err != nil {
				return m, errRecord{err}
			}
		}
		return m, nil
	}
}

var contentText = codec.Headers{{Key: codec.HeaderContentType, Value: "text/plain"}}

// table reads CSV: each row is an object with the names of the first one. What reads as a number is one, and what is empty is
// null.
type table struct {
	lines *rows.Lines
	rows  *rows.Table
}

func (t *table) next() (m codec.Message, err error) {
	if t.rows == nil {
		if t.rows, err = rows.NewTable(t.lines); err != nil {
			return m, err
		}
	}
	row, err := t.rows.Next()
	if err != nil {
		return m, err
	}
	data, err := []byte(nil), row.Err
	if err == nil {
		data, err = t.rows.Object(row.Values, appendValue)
	}
	if err != nil {
		return m, errRecord{err}
	}
	return codec.Message{Headers: contentJSON, Data: data}, nil
}

// appendValue appends what a text of a table stands for.
func appendValue(dst []byte, s string) []byte {
	switch {
	case s == "":
		return append(dst, "null"...)
	case (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && json.Valid([]byte(s)):
		return append(dst, s...)
	}
	return jsontext.AppendString(dst, s)
}
