package input

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/archive"
)

// storedParquet reads a file that archive.FileWriter has written, or a segment of an archive. Its lines are rows.
type storedParquet struct {
	cfg  Config
	next func() (codec.Record, error, bool)
	stop func()
	row  int
	rows int64
	size int64
}

func newStoredParquet(cfg Config, r io.Reader) (StoredReader, error) {
	in, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return nil, errors.New("input: Parquet is read from a file, not from standard input")
	}
	size, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	messages, rows, err := archive.Messages(in, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	s := &storedParquet{cfg: cfg, rows: rows, size: size}
	s.next, s.stop = iter.Pull2(messages)
	return s, nil
}

func (s *storedParquet) Next() (Stored, error) {
	record, err, more := s.next()
	if !more {
		return Stored{}, io.EOF
	}
	s.row++
	row := Stored{Row: Row{Line: s.row, Offset: int64(float64(s.size) * float64(s.row) / float64(s.rows))}}
	if err != nil {
		s.stop()
		return row, s.cfg.lineError(s.row, err)
	}
	if record.Fields == nil {
		row.ID, row.Message = record.ID, record.Message
	}
	return row, nil
}
