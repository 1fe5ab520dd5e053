package input

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/echomq/pipeline/internal/jsontext"
	"github.com/echomq/pipeline/internal/rows"
)

// jsonReader makes one message of each JSON value; one stands on each line. The
// text of the value is kept as it is. Blank lines are skipped.
type jsonReader struct {
	cfg   Config
	lines *rows.Lines
}

func (r *jsonReader) Next() (Row, error) {
	for {
		l, err := r.lines.Next()
		if err != nil {
			return Row{}, err
		}
		row := Row{Line: l.Number, Offset: l.Offset}
		if l.Err != nil {
			return row, r.cfg.lineError(l.Number, l.Err)
		}
		text := bytes.TrimSpace(l.WithoutMark())
		if len(text) == 0 {
			continue
		}
		if err = jsontext.Check(text); err == nil {
			err = r.cfg.fill(&row, bytes.Clone(text), fieldOf(text))
		}
		if err != nil {
			return row, r.cfg.lineError(l.Number, err)
		}
		return row, nil
	}
}

// fieldOf returns a function that gives the text of a field of text, which is
// JSON and should be an object: a string's characters, a number or a boolean as it is written.
func fieldOf(text []byte) func(string) (string, error) {
	var fields map[string]json.RawMessage
	return func(name string) (string, error) {
		if fields == nil {
			if text[0] != '{' {
				return "", fmt.Errorf("field %q is asked for, and this is not an object", name)
			}
			if err := json.Unmarshal(text, &fields); err != nil {
				return "", jsontext.Invalid(err)
			}
		}
		return scalar(name, fields[name])
	}
}

func scalar(name string, value json.RawMessage) (string, error) {
	if len(value) == 0 {
		return "", fmt.Errorf("no field %q", name)
	}
	switch value[0] {
	case '"':
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	case '{', '[', 'n':
		return "", fmt.Errorf("field %q is %.32s: want a string, a number or a boolean", name, value)
	}
	return string(value), nil
}
