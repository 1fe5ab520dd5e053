package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/echomq/pipeline/consumer"
)

// Exit codes of a command with a meaning of their own: those of sysexits.h.
const (
	exitData  = 65 // EX_DATAERR: the job is at fault
	exitLater = 75 // EX_TEMPFAIL
)

const (
	// maxResult is how many bytes a command may write to standard output.
	maxResult = 1 << 20
	// maxLastLine is how much of the last line on standard error is kept.
	maxLastLine = 256
)

// work runs the command for a job. The error is its verdict: what a handler returns.
func (c *command) work(ctx context.Context, a *app, j *jobJSON, snooze time.Duration) (result []byte, err error) {
	line, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := c.process(ctx, line, "PIPELINE_JOB_ID="+j.Job.String(), "PIPELINE_JOB_ATTEMPT="+strconv.Itoa(j.Attempts))
	var out output
	var last lastLine
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(a.err, &last)
	err = cmd.Run()
	if out.full { // whatever it died of then
		return nil, consumer.Permanent(fmt.Errorf("%s: %w", filepath.Base(c.path), errTooMuch))
	}
	if err == nil {
		return bytes.TrimRight(out.text, "\r\n"), nil
	}
	code := -1
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	err = fmt.Errorf("%s: %w", filepath.Base(c.path), err)
	if text := last.String(); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch code {
	case exitData:
		return nil, consumer.Permanent(err)
	case exitLater:
		return nil, later{consumer.Snooze(snooze), err}
	}
	return nil, err
}

// later is a snooze with its reason.
type later struct{ snooze, reason error }

func (l later) Error() string { return l.reason.Error() }
func (l later) Unwrap() error { return l.snooze }

var errTooMuch = fmt.Errorf("more than %d bytes on standard output are no result", maxResult)

// output is what a command writes to standard output.
type output struct {
	text []byte
	full bool
}

func (o *output) Write(p []byte) (int, error) {
	if len(o.text)+len(p) > maxResult {
		o.full = true
		return 0, errTooMuch
	}
	o.text = append(o.text, p...)
	return len(p), nil
}

// lastLine is the last line of what is written that is not empty.
type lastLine struct{ line, next []byte }

func (l *lastLine) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b != '\n' && b != '\r':
			if len(l.next) < maxLastLine {
				l.next = append(l.next, b)
			}
		case len(l.next) > 0:
			l.line, l.next = l.next, nil
		}
	}
	return len(p), nil
}

func (l *lastLine) String() string {
	if len(l.next) > 0 {
		return string(l.next)
	}
	return string(l.line)
}
