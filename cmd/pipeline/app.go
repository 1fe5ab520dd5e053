package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
)

// app is one run of the program: its global flags, and what it reads and writes.
type app struct {
	url, urlFile string
	output       string
	quiet        bool
	timeout      time.Duration

	in, out, err *os.File
	logs         bool                     // warnings of the packages below go to standard error
	progress     atomic.Pointer[progress] // of long work, on a terminal
	away         chan<- struct{}          // takes the first news of an outage, and says when it is over
	gone         atomic.Bool              // the server, of which that news was
	trouble      atomic.Pointer[error]    // why what is written is sent again
	embedded     bool                     // the server is the embedded one
	service      bool                     // it runs until it is stopped: then it is done
	exec         bool                     // messages go to a command
	results      bool                     // how each ended is shown on standard output
	done         int                      // messages shown or written: whether a time-out ended with nothing
}

func newApp() *app { return &app{in: os.Stdin, out: os.Stdout, err: os.Stderr} }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// json reports whether the output is JSON lines: when asked for, and when nobody
// looks at it.
func (a *app) json() bool {
	if a.output == "" {
		return !isTerminal(a.out)
	}
	return a.output == "json"
}

// width is how wide a line for people may be; 0 is any width.
func (a *app) width() int {
	if !isTerminal(a.out) {
		return 0
	}
	w, _, _ := term.GetSize(int(a.out.Fd()))
	return w
}

// note tells a person what happens; --quiet silences it.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.say("", format, args...)
	}
}

// warn is about what may do harm; --quiet does not silence it.
func (a *app) warn(format string, args ...any) { a.say("warning: ", format, args...) }

// fail says why the command did not do what it should.
func (a *app) fail(err error) { a.say("", "%s", oneLine(err)) }

func (a *app) say(kind, format string, args ...any) {
	a.progress.Load().clear()
	fmt.Fprintln(a.err, "pipeline: "+kind+show.Printable(fmt.Sprintf(format, args...)))
}

// bounded returns a context that --timeout ends, with errTimedOut as its cause.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, a.timeout, errTimedOut)
}

// late makes of an error that --timeout has caused one that says so.
func (a *app) late(ctx context.Context, err error) error {
	switch {
	case err == nil, !errors.Is(context.Cause(ctx), errTimedOut), !stoppedWaiting(err):
		return err
	case a.done > 0:
		return fmt.Errorf("--timeout %s was over before the end: give it longer", a.timeout)
	}
	return fmt.Errorf("%w within --timeout %s: give it longer, or check that the server answers", errNothing, a.timeout)
}

// color reports whether the output may be coloured: on a terminal, unless NO_COLOR
// (no-color.org) says otherwise.
func (a *app) color() bool {
	return isTerminal(a.out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
