package consumer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

var (
	// ErrLeaseLost is the cause with which a handler's context ends when another consumer has taken over its message,
	// since this one was silent for longer than the lease, or when the group was reset, or lost by the server. Nothing that
	// the handler returns has an effect; the message comes again if it still exists.
	ErrLeaseLost = errors.New("consumer: the lease was lost: another consumer has the message now, or it comes again")
	// ErrDrainTimeout is the cause with which a handler's context ends when the consumer is stopping and
	// Config.DrainTimeout is over. The message is handed back, and this attempt is not counted.
	ErrDrainTimeout = errors.New("consumer: stopping: the drain time is over")
	// ErrTimeout is the cause with which a handler's context ends when its attempt takes longer than the terms of its message
	// allow, or past their deadline.
	ErrTimeout = errors.New("consumer: the message's time for an attempt, or its deadline, is over")
	// ErrExpired is why a message is given up that is begun past the deadline of its terms.
	ErrExpired = errors.New("consumer: the message's deadline is over")
	// ErrRan is returned by a second Run.
	ErrRan = errors.New("consumer: Run was called before: make a new Consumer")
	// ErrConfig is matched by every refusal of New.
	ErrConfig = errors.New("consumer: bad config")
)

// CancelledError is the cause with which a handler's context ends when its job was cancelled. When the handler returns an
// error then, the job is dead for this reason; when it returns nil, it is done.
type CancelledError struct{ Reason string }

func (e *CancelledError) Error() string { return "consumer: cancelled: " + e.Reason }

// errGoexit is the failure of a handler that ended its goroutine, as testing.T.FailNow does.
var errGoexit = errors.New("consumer: the handler ended its goroutine (runtime.Goexit)")

// PanicError is the failure of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("consumer: the handler panicked: %v\n%s", e.Value, e.Stack)
}

// Unwrap is the value, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// StuckError says that handlers went on although their contexts had ended, so that Run returned without them. Their
// messages keep their leases and are delivered again when these end.
type StuckError struct {
	Messages []codec.Position
	Waited   time.Duration
}

func (e *StuckError) Error() string {
	const most = 10
	names := make([]string, 0, most+1)
	for _, p := range e.Messages {
		if len(names) == most {
			names = append(names, "...")
			break
		}
		names = append(names, p.String())
	}
	return fmt.Sprintf("consumer: %d handlers do not end after %s: they ignore their context (%s)",
		len(e.Messages), e.Waited, strings.Join(names, ", "))
}

// UnsettledError says that the consumer stopped before the server had acknowledged all that was handled. What it did not
// learn of is delivered again, unless the group or its stream was deleted, and all that it held with it.
type UnsettledError struct {
	Entries int
	Err     error // of the last attempt
}

func (e *UnsettledError) Error() string {
	fate := "come again"
	if e.forgotten() {
		fate = "are forgotten with the group"
	}
	return fmt.Sprintf("consumer: stopped with %d entries unsettled, which %s: %v", e.Entries, fate, e.Err)
}

// forgotten: nobody holds what there was to settle, since there is no group any more.
func (e *UnsettledError) forgotten() bool {
	return errors.Is(e.Err, stream.ErrGroupDeleted) || errors.Is(e.Err, stream.ErrStreamRemoved)
}

// Unwrap is the error of the last attempt.
func (e *UnsettledError) Unwrap() error { return e.Err }
