// Package rows reads lines, and rows of CSV, from whatever a file holds: what does not parse costs its line, not the file, and a
// line has a bounded length, so that the memory for a file is bounded.
package rows

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is how long a line, or a CSV row of several lines, may be: what a message may have by default.
const MaxLine = 1 << 20

// ErrTooLong is of a line above MaxLine.
var ErrTooLong = errors.New("longer than 1 MiB, which is what a message may have")

// Line is a line without its end. Its text is good until the next one is read.
type Line struct {
	Text   []byte
	Number int   // from 1
	Offset int64 // behind it
	Err    error // too long: the line was skipped
}

// Lines reads lines of a bounded length.
type Lines struct {
	in     *bufio.Reader
	most   int    // bytes of a line
	buf    []byte // of a line that does not fit into in's own buffer
	number int
	offset int64
}

// NewLines reads lines of at most so many bytes.
func NewLines(r io.Reader, most int) *Lines {
	return &Lines{in: bufio.NewReaderSize(r, 64<<10), most: most}
}

// Next returns the next line; the error is io.EOF or the file's.
func (r *Lines) Next() (Line, error) {
	chunk, err := r.chunk()
	if errors.Is(err, bufio.ErrBufferFull) {
		return r.long(chunk)
	}
	return r.finish(chunk, nil, err)
}

func (r *Lines) chunk() ([]byte, error) {
	chunk, err := r.in.ReadSlice('\n')
	r.offset += int64(len(chunk))
	return chunk, err
}

// long collects a line of several chunks, as far as the bound allows.
func (r *Lines) long(chunk []byte) (Line, error) {
	r.buf = append(r.buf[:0], chunk...)
	var tooLong, err error
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		chunk, err = r.chunk()
		if len(r.buf)+len(chunk) > r.most+2 { // with its end
			tooLong = r.tooLong()
			continue
		}
		r.buf = append(r.buf, chunk...)
	}
	return r.finish(r.buf, tooLong, err)
}

func (r *Lines) finish(text []byte, tooLong, err error) (Line, error) {
	if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
		return Line{}, err
	}
	r.number++
	text = bytes.TrimSuffix(text, []byte{'\n'})
	if err == nil {
		text = bytes.TrimSuffix(text, []byte{'\r'})
	}
	if len(text) > r.most {
		tooLong = r.tooLong()
	}
	return Line{Text: text, Number: r.number, Offset: r.offset, Err: tooLong}, nil
}

func (r *Lines) tooLong() error {
	if r.most == MaxLine {
		return ErrTooLong
	}
	return fmt.Errorf("longer than %d MiB", r.most>>20)
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// WithoutMark is the text without the mark that some programs put in front of a file.
func (l Line) WithoutMark() []byte {
	if l.Number == 1 {
		return bytes.TrimPrefix(l.Text, byteOrderMark)
	}
	return l.Text
}
