package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
)

var (
	// ErrBadCall is matched by refusals of what cannot be asked for: a configuration, or a job, that is none.
	ErrBadCall = errors.New("queue: bad call")
	// ErrDuplicate says that a job of that id is there, and is not done; it stays as it is.
	ErrDuplicate = errors.New("queue: there is a job of this id")
	// ErrNoJob says that there is no job of that id: it was done or removed, or there never was one.
	ErrNoJob = errors.New("queue: no such job")
	// ErrNoSchedule says that there is no schedule of that name.
	ErrNoSchedule = errors.New("queue: no such schedule")
)

// KindError says that an id is not one of a job.
type KindError struct{ ID codec.ID }

func (e *KindError) Error() string {
	return fmt.Sprintf("queue: %s is no id of a job: its brand is %s, not %s", e.ID, e.ID.Brand(), Brand)
}

// TooLargeError says that a job is above what one may weigh.
type TooLargeError struct{ Bytes, Max int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("queue: a job of %d bytes, encoded, is above %d: store what it is about elsewhere, and send the address", e.Bytes, e.Max)
}

// LeaseDiffersError says that the queue has another lease: all workers must agree.
type LeaseDiffersError struct {
	Queue     string
	Have, Ask time.Duration
}

func (e *LeaseDiffersError) Error() string {
	return fmt.Sprintf("queue: %s has a lease of %s, not %s: leave it out", e.Queue, e.Have, e.Ask)
}

// ScheduleTakenError says that a name is that of a schedule of another set.
type ScheduleTakenError struct{ Name, Set string }

func (e *ScheduleTakenError) Error() string {
	if e.Set == "" {
		return fmt.Sprintf("queue: schedule %s was put by itself: remove it, or take another name", e.Name)
	}
	return fmt.Sprintf("queue: schedule %s belongs to the set %s: change it there, or take another name", e.Name, e.Set)
}
