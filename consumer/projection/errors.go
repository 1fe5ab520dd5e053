package projection

import (
	"errors"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ErrRemove is returned by a fold, with any state, for a key that leaves the table. The message is settled.
var ErrRemove = errors.New("projection: the key leaves the table")

// ErrNoProjection says that there is no projection, or no version, of that name.
var ErrNoProjection = errors.New("projection: there is none of this name")

// NameTakenError says that the scope has a projection of that name, of another stream.
type NameTakenError struct{ Name, Stream string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("projection: %s is one of %s: take another name", e.Name, e.Stream)
}

// StateLostError says that the state is not there, though messages were folded into it: it was deleted, or flushed.
type StateLostError struct{ Stream, State string }

func (e *StateLostError) Error() string {
	return fmt.Sprintf("projection: the state %s was deleted by somebody, and what is folded from now on would lack all before: make it again from the head with Reset ('pipeline projections reset %s'), if the log still has it", e.State, e.Stream)
}

// SchemaError says that the state was made by another schema.
type SchemaError struct {
	State string
	Have  string
	Want  int
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("projection: the state %s has schema %.32s, this program makes %d: raise Version, so that it is made anew beside it", e.State, e.Have, e.Want)
}

// GapError says that a Memory cannot go on, or not from its snapshot: messages were lost that it had not folded, or the log is
// another one. It wraps a *stream.TrimmedError, which tells the two apart.
type GapError struct {
	Name, Stream string
	At           codec.EntryID // of the last message that is folded; zero: none is
	Err          error
}

func (e *GapError) Error() string {
	return fmt.Sprintf("projection %s of %s: all up to %s is folded, and what comes next is gone: to begin again with what the log still has, raise Version, or delete the snapshot (projection.DropSnapshot): %v",
		e.Name, e.Stream, e.At, e.Err)
}

func (e *GapError) Unwrap() error { return e.Err }

// LiveError says that the version is the live one, which readers use.
type LiveError struct {
	Name    string
	Version int
}

func (e *LiveError) Error() string {
	return fmt.Sprintf("projection: version %d of %s is live: switch to another one first", e.Version, e.Name)
}

// foldError is the failure of one message of a batch.
type foldError struct {
	index int
	err   error
}

func (e *foldError) Error() string { return e.err.Error() }

// reaction is what is done about an error of a step.
type reaction uint8

const (
	again  reaction = iota // after a pause
	ask                    // what this owner still holds, then again
	giveUp                 // waiting does not help
)

func reactionTo(err error) reaction {
	if errors.Is(err, tier.ErrFenced) {
		return ask
	}
	switch class := tier.Classify(err); {
	case errors.As(err, new(*storeError)):
		return again
	case class == nil || class.Reaction == tier.Surface:
		return giveUp
	}
	return again
}
