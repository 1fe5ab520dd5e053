package input

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/jsontext"
	"github.com/echomq/pipeline/internal/rows"
)

// MessageFormats are those of files that hold messages with their ids.
var MessageFormats = []string{"jsonl", "csv", "parquet"}

// maxMessageLine is how long a line with a message may be: the largest one, in base64, with its headers.
const maxMessageLine = 16 << 20

// ErrNoIDs says that a file holds something else than messages with their ids.
var ErrNoIDs = errors.New(`no ids: a message has an id and data, as 'pipeline replay --out' writes it; what has none is for 'pipeline produce'`)

// Stored is a message with the id that it has in the stream that it comes from. It is zero where there is only a foreign or an
// undecodable entry.
type Stored struct {
	Row
	ID codec.ID
}

// StoredReader gives one message after another. The error is io.EOF at the end, a *LineError for a line, anything else for the
// file.
type StoredReader interface{ Next() (Stored, error) }

// NewMessages returns a reader of messages with their ids, in one of MessageFormats: JSON as show.AppendExact writes it, or CSV
// with the columns id and data, and perhaps type, key and headers, which is a JSON object; Parquet as the archive writes it, of a regular
// file.
func NewMessages(r io.Reader, file, format string) (StoredReader, error) {
	cfg := Config{File: file}
	lines := rows.NewLines(r, maxMessageLine)
	switch format {
	case "jsonl":
		return &storedJSON{cfg, lines}, nil
	case "csv":
		return newStoredCSV(cfg, lines)
	case "parquet":
		return newStoredParquet(cfg, r)
	}
	return nil, fmt.Errorf("input: format %q: want one of %q", format, MessageFormats)
}

type storedJSON struct {
	cfg   Config
	lines *rows.Lines
}

func (r *storedJSON) Next() (Stored, error) {
	for {
		l, err := r.lines.Next()
		if err != nil {
			return Stored{}, err
		}
		s := Stored{Row: Row{Line: l.Number, Offset: l.Offset}}
		text := bytes.TrimSpace(l.WithoutMark())
		if l.Err == nil && len(text) == 0 {
			continue
		}
		if err = l.Err; err == nil {
			if err = jsontext.Check(text); err == nil {
				err = s.read(text)
			}
		}
		if err != nil {
			return s, r.cfg.lineError(l.Number, err)
		}
		return s, nil
	}
}

// storedLine is a line of messages as JSON.
type storedLine struct {
	ID       *codec.ID       `json:"id"`
	Type     string          `json:"type"`
	Key      string          `json:"key"`
	Headers  json.RawMessage `json:"headers"`
	Data     json.RawMessage `json:"data"`
	Fields   json.RawMessage `json:"fields"`
	Encoding string          `json:"encoding"`
	Format   string          `json:"format"`
}

func (s *Stored) read(text []byte) (err error) {
	var l storedLine
	if text[0] != '{' {
		return ErrNoIDs
	}
	if err := json.Unmarshal(text, &l); err != nil {
		if errors.Is(err, codec.ErrID) {
			return fmt.Errorf("%w (%w)", ErrNoIDs, err)
		}
		return err
	}
	switch {
	case l.ID == nil || l.Data == nil:
		return ErrNoIDs
	case l.Fields != nil:
		return nil // foreign, or not decoded
	case l.ID.IsZero():
		return ErrNoIDs
	}
	s.ID = *l.ID
	s.Message.Type, s.Message.Key = l.Type, l.Key
	if s.Message.Headers, err = headersOf(l.Headers); err == nil {
		err = l.data(&s.Message)
	}
	return err
}

// headersOf reads an object of strings, in its order.
func headersOf(text []byte) (h codec.Headers, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	refused := fmt.Errorf("headers are %.64q: want an object of texts", text)
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, refused
	}
	for dec.More() {
		key, keyErr := dec.Token()
		value, valueErr := dec.Token()
		text, is := value.(string)
		if errors.Join(keyErr, valueErr) != nil || !is {
			return nil, refused
		}
		h = append(h, codec.Header{Key: key.(string), Value: text})
	}
	return h, nil
}

// data is what AppendExact has shown.
func (l *storedLine) data(m *codec.Message) (err error) {
	if l.Format == "msgpack" {
		m.Format = codec.FormatMsgpack
	} else if l.Format != "" {
		return fmt.Errorf("format %.32q: want msgpack, or none", l.Format)
	}
	var text string
	switch {
	case l.Encoding == "base64":
		if err = json.Unmarshal(l.Data, &text); err == nil {
			m.Data, err = base64.StdEncoding.DecodeString(text)
		}
	case l.Encoding != "":
		err = fmt.Errorf("encoding %.32q: want base64, or none", l.Encoding)
	case m.Format == codec.FormatMsgpack:
		m.Data, err = show.MsgpackOf(l.Data)
	case show.IsText(m):
		err = json.Unmarshal(l.Data, &text)
		m.Data = []byte(text)
	default:
		m.Data = bytes.Clone(l.Data)
	}
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

// storedCSV reads the columns id, type, key, headers and data.
type storedCSV struct {
	cfg   Config
	table *rows.Table
}

func newStoredCSV(cfg Config, lines *rows.Lines) (StoredReader, error) {
	table, err := rows.NewTable(lines)
	switch {
	case errors.Is(err, io.EOF):
		return nil, cfg.lineError(1, ErrNoIDs)
	case err != nil:
		return nil, cfg.headerError(err)
	case !slices.Contains(table.Columns, "id") || !slices.Contains(table.Columns, "data"):
		return nil, cfg.lineError(table.Line, ErrNoIDs)
	}
	for _, name := range table.Columns {
		if !slices.Contains([]string{"id", "entry", "time", "type", "key", "headers", "data"}, name) {
			return nil, cfg.lineError(table.Line, fmt.Errorf("header line: no message has a column %.64q", name))
		}
	}
	return &storedCSV{cfg, table}, nil
}

func (r *storedCSV) Next() (Stored, error) {
	in, err := r.table.Next()
	if err != nil {
		return Stored{}, err
	}
	s := Stored{Row: Row{Line: in.Number, Offset: in.Offset}}
	if in.Err != nil {
		return s, r.cfg.lineError(in.Number, in.Err)
	}
	for i, name := range r.table.Columns {
		value := strings.Clone(in.Values[i])
		switch name {
		case "id":
			if s.ID, err = codec.Parse(value); err != nil {
				err = fmt.Errorf("%w (%w)", ErrNoIDs, err)
			}
		case "type":
			s.Message.Type = value
		case "key":
			s.Message.Key = value
		case "headers":
			s.Message.Headers, err = headersOf([]byte(value))
		case "data":
			s.Message.Data = []byte(value)
		}
		if err != nil {
			return s, r.cfg.lineError(in.Number, err)
		}
	}
	return s, nil
}
