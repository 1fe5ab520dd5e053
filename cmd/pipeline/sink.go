package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/codec"
)

// sink writes messages to standard output: JSON lines, or lines for people. It may
// be used from several goroutines.
type sink struct {
	app   *app
	json  bool
	width int

	mu  sync.Mutex
	out *bufio.Writer
	buf []byte
}

func (a *app) sink() *sink {
	return &sink{app: a, json: a.json(), width: a.width(), out: bufio.NewWriterSize(a.out, 64<<10)}
}

// put writes a message, with its version if it is read by key, else 0. It may stay in memory until flush.
func (s *sink) put(r *codec.Record, version uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = s.buf[:0]
	if s.json {
		s.buf = show.AppendJSON(s.buf, r)
		if version > 0 {
			s.buf = slices.Insert(s.buf, 1, fmt.Appendf(nil, `"version":%d,`, version)...)
		}
	} else {
		before := ""
		if version > 0 {
			before = strconv.FormatUint(version, 10) + " "
		}
		s.buf = append(append(s.buf, before...), show.Line(r, s.width-len(before))...)
	}
	if _, err := s.out.Write(append(s.buf, '\n')); err != nil {
		return outputError(err)
	}
	s.app.done++
	return nil
}

// show writes a message at once.
func (s *sink) show(r *codec.Record) error {
	if err := s.put(r, 0); err != nil {
		return err
	}
	return s.flush()
}

func (s *sink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return outputError(s.out.Flush())
}

var (
	// errOutputClosed: whoever reads our output has enough.
	errOutputClosed = errors.New("standard output is closed")
	// errOutput is every other failure to write what was asked for.
	errOutput = errors.New("standard output")
)

// cannotShow reports whether an error is of standard output: going on is pointless.
func cannotShow(err error) bool {
	return errors.Is(err, errOutputClosed) || errors.Is(err, errOutput)
}

func outputError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return errOutputClosed
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%w: %w: nothing more can be shown", errOutput, err)
}

// print writes what is no message to standard output.
func (a *app) print(text string) error {
	_, err := a.out.WriteString(text)
	return outputError(err)
}

// printObject prints one JSON object on a line of its own.
func (a *app) printObject(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return a.print(string(line) + "\n")
}
