package input

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// line is a line without its end. Its text is good until the next one is read.
type line struct {
	text   []byte
	number int
	offset int64 // behind it
	err    error // ErrTooLong: the line was skipped
}

// lineReader reads lines of a bounded length.
type lineReader struct {
	in     *bufio.Reader
	buf    []byte // of a line that does not fit into in's own buffer
	number int
	offset int64
}

// next returns the next line; the error is io.EOF or the file's.
func (r *lineReader) next() (line, error) {
	chunk, err := r.chunk()
	if errors.Is(err, bufio.ErrBufferFull) {
		return r.long(chunk)
	}
	return r.finish(chunk, nil, err)
}

func (r *lineReader) chunk() ([]byte, error) {
	chunk, err := r.in.ReadSlice('\n')
	r.offset += int64(len(chunk))
	return chunk, err
}

// long collects a line of several chunks, as far as the bound allows.
func (r *lineReader) long(chunk []byte) (line, error) {
	r.buf = append(r.buf[:0], chunk...)
	var tooLong, err error
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		chunk, err = r.chunk()
		if len(r.buf)+len(chunk) > MaxLine+2 { // with its end
			tooLong = ErrTooLong
			continue
		}
		r.buf = append(r.buf, chunk...)
	}
	return r.finish(r.buf, tooLong, err)
}

func (r *lineReader) finish(text []byte, tooLong, err error) (line, error) {
	if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
		return line{}, err
	}
	r.number++
	text = bytes.TrimSuffix(text, []byte{'\n'})
	if err == nil {
		text = bytes.TrimSuffix(text, []byte{'\r'})
	}
	if len(text) > MaxLine {
		tooLong = ErrTooLong
	}
	return line{text: text, number: r.number, offset: r.offset, err: tooLong}, nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// withoutMark is the text without the mark that some programs put in front of a
// file.
func (l line) withoutMark() []byte {
	if l.number == 1 {
		return bytes.TrimPrefix(l.text, byteOrderMark)
	}
	return l.text
}
