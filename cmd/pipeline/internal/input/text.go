package input

import (
	"bytes"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/internal/rows"
)

// textReader makes one message of each line, an empty one too. A mark in front of the
// file is no text.
type textReader struct {
	cfg   Config
	lines *rows.Lines
}

func (r *textReader) Next() (Row, error) {
	l, err := r.lines.Next()
	if err != nil {
		return Row{}, err
	}
	row := Row{Line: l.Number, Offset: l.Offset}
	if l.Err != nil {
		return row, r.cfg.lineError(l.Number, l.Err)
	}
	row.Message = codec.Message{Type: r.cfg.Type, Headers: contentText, Data: bytes.Clone(l.WithoutMark())}
	return row, nil
}
