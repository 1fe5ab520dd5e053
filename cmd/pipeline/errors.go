package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/echomq/pipeline/cmd/pipeline/internal/input"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/queue/schedule"
	"github.com/echomq/pipeline/tier/stream"
)

// The exit codes, which scripts count on.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitNothing     = 4 // timed out with nothing
	exitDiffers     = 2 // of a plan and a drift: there is something; no usage error of theirs is 2
	exitInterrupted = 130
)

// usageError is a command line that was refused before anything was sent.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// notFound is an absence that has no error of its own in the packages below.
type notFound string

func (e notFound) Error() string { return string(e) }

var (
	// errTimedOut is the cause of a context that --timeout has ended.
	errTimedOut = errors.New("timed out")
	// errNothing: a wait has ended and nothing came.
	errNothing = errors.New("nothing came")
)

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var usage *usageError
	var field *input.FieldError
	var missing notFound
	var cron *schedule.SyntaxError
	var zone *schedule.ZoneError
	switch {
	case err == nil, errors.Is(err, errOutputClosed):
		return exitDone
	case errors.Is(err, errDiffers):
		return exitDiffers
	case errors.As(err, &usage), errors.As(err, &field),
		errors.Is(err, tier.ErrName), errors.Is(err, tier.ErrURL),
		errors.Is(err, codec.ErrID), errors.Is(err, codec.ErrEntryID), errors.Is(err, stream.ErrBadCall),
		errors.Is(err, queue.ErrBadCall), errors.As(err, &cron), errors.As(err, &zone), errors.Is(err, schedule.ErrInterval),
		errors.Is(err, input.ErrNoIDs), errors.Is(err, replay.ErrConfig):
		return exitUsage
	case errors.As(err, &missing), errors.Is(err, stream.ErrNoStream), errors.Is(err, stream.ErrNotFound),
		errors.Is(err, stream.ErrStreamRemoved), errors.Is(err, stream.ErrGroupDeleted),
		errors.Is(err, queue.ErrNoSchedule), errors.Is(err, queue.ErrNoJob):
		return exitNotFound
	case errors.Is(err, errNothing):
		return exitNothing
	}
	return exitFailed
}

// exit says what there is to say about how a command ended, and returns its code.
func (a *app) exit(ctx context.Context, err error) int {
	code := codeOf(err)
	stop := signalled(ctx)
	if code != exitDone && !errors.Is(err, errDiffers) && (stop == nil || !stoppedWaiting(err)) {
		a.fail(err)
	}
	if stop != nil && !a.service {
		return stop.code()
	}
	return code
}

// stoppedWaiting reports whether an error only says that our own context ended.
func stoppedWaiting(err error) bool {
	var stop *interrupted
	return errors.As(err, &stop) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTimedOut) ||
		errors.Is(err, tier.ErrCancelled) || errors.Is(err, errNothing)
}

var prefixes = regexp.MustCompile(`(^|: |\n|\()(tier|stream|queue|schedule|codec|embedded|consumer|retention|archive|replay|input|topology|bench): `)

// flags are what the words of the packages below are called here.
var flags = strings.NewReplacer("write with Exclusive", "give --exclusive", "write without Exclusive", "leave --exclusive out",
	"choose another name, or delete the cursor first", "choose another name, give --exclusive, or delete the cursor ('pipeline group delete') first",
	"write to it with NewPartitionedWriter, read one of them as", "name one of them, as in",
	"write with Keyed", "give --keyed", "write without Keyed", "leave --keyed out")

// oneLine is an error without line ends and in the words of the program: the names of
// our packages say nothing to whoever runs a command.
func oneLine(err error) string {
	text := err.Error()
	for prefixes.MatchString(text) {
		text = prefixes.ReplaceAllString(text, "$1")
	}
	return flags.Replace(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
}

// fileError names a file and what is wrong with it, once.
func fileError(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return notFound(fmt.Sprintf("%s: %v", name, err))
	}
	return fmt.Errorf("%s: %w", name, err)
}
