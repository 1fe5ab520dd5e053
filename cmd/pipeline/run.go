package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// run runs one command and returns its exit code.
func run(args []string) int {
	ctx, stop := interruptible()
	defer stop()
	a := newApp()
	root := newRoot(a)
	root.SetArgs(args)
	return a.exit(ctx, root.ExecuteContext(ctx))
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal os.Signal }

func (i *interrupted) Error() string { return "interrupted by " + i.signal.String() }

// code is what shells say of a process that a signal ended.
func (i *interrupted) code() int {
	if s, ok := i.signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return exitInterrupted
}

// interruptible returns a context that the first signal ends; the second one ends
// the process, as without us.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Whoever reads our output may go away: writing then fails, and the command stops
	// in order instead of being killed.
	signal.Notify(make(chan os.Signal, 1), sigPipe)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&interrupted{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// signalled returns the signal that ended ctx, or nil.
func signalled(ctx context.Context) *interrupted {
	var i *interrupted
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}
