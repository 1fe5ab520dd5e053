package input

import (
	"bytes"

	"github.com/echomq/pipeline/codec"
)

// textReader makes one message of each line, an empty one too. A mark in front of the
// file is no text.
type textReader struct {
	cfg   Config
	lines *lineReader
}

func (r *textReader) Next() (Row, error) {
	l, err := r.lines.next()
	if err != nil {
		return Row{}, err
	}
	row := Row{Line: l.number, Offset: l.offset}
	if l.err != nil {
		return row, r.cfg.lineError(l.number, l.err)
	}
	row.Message = codec.Message{Type: r.cfg.Type, Headers: contentText, Data: bytes.Clone(l.withoutMark())}
	return row, nil
}
