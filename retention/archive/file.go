package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// FileWriter writes messages of a stream to a file that is read as a segment is: Parquet, with the same columns. Each message is an entry of
// its own there, also one of a pack. It has a row group in memory, a few MiB.
type FileWriter struct {
	out     *bufio.Writer
	segment *segmentWriter
}

// NewFileWriter writes to out. Address and identity are those of the stream that the messages are of.
func NewFileWriter(out io.Writer, address tier.Address, identity codec.Identity) *FileWriter {
	w := &FileWriter{out: bufio.NewWriterSize(out, 256<<10)}
	w.segment = newSegmentWriter(w.out, origin{address, identity})
	return w
}

// Put writes a message, above the one before.
func (w *FileWriter) Put(r *codec.Record) error {
	e := codec.Entry{ID: r.Addr, Fields: r.Fields}
	if r.Fields == nil {
		var ok bool
		if e.Fields, ok = (&rebuilder{}).fields(nil, w.segment.origin.identity, []codec.Record{*r}); !ok { // columns keep its bytes
			return fmt.Errorf("archive: message at %s: no writer would write it", r.Addr)
		}
	}
	return w.segment.add(e)
}

// Close writes what is left. Without it, the file cannot be read.
func (w *FileWriter) Close() error {
	_, err := w.segment.close()
	return errors.Join(err, w.out.Flush())
}

// Messages yields the messages of a segment, or of what a FileWriter has written, and how many rows there are. It has a row group in memory.
//
// An error ends it: what is wrong with the file, or what reading it fails with.
func Messages(in io.ReaderAt, size int64) (messages iter.Seq2[codec.Record, error], rows int64, err error) {
	s, err := openSegment(in, size)
	if err != nil {
		return nil, 0, fmt.Errorf("archive: %w", err)
	}
	return func(yield func(codec.Record, error) bool) {
		for e, err := range s.entries(codec.EntryID{}, codec.MaxEntryID) {
			if err != nil {
				yield(codec.Record{}, fmt.Errorf("archive: %w", err))
				return
			}
			for i := range e.records {
				if !yield(e.records[i], nil) {
					return
				}
			}
		}
	}, s.file.NumRows(), nil
}
