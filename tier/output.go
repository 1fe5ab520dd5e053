package tier

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/echomq/pipeline/codec"
)

// Output is an effect that happens together with the settling of a message, or not at all. Its target lies in the scope of
// the message: a stream, or a state, which is a hash, a sorted set or a set at StateKey. The zero value is none.
type Output struct {
	Kind   OutputKind
	Target string // the address of a stream, or the name of a state
	// Member is a field of a hash, or a member of a set.
	Member string
	// Value is that of a field, an integer or a score in decimal digits.
	Value   string
	Message codec.Message // of AppendTo
}

// OutputKind says what an output does. The values are those of commit.lua; a result is of a job.
type OutputKind string

// The kinds of outputs.
const (
	OutputAppend        OutputKind = "append"
	OutputHashSet       OutputKind = "hash_set"
	OutputHashIncrement OutputKind = "hash_increment"
	OutputSortedAdd     OutputKind = "sorted_add"
	OutputSetAdd        OutputKind = "set_add"
	OutputRemove        OutputKind = "remove"
	OutputDelete        OutputKind = "delete"
	OutputResult        OutputKind = "result"
)

// AppendTo appends a message to a stream of the same scope. The stream is declared if nobody has; its writers and this share it.
func AppendTo(address string, m codec.Message) Output {
	return Output{Kind: OutputAppend, Target: address, Message: m}
}

// HashSet sets a field of a state.
func HashSet(state, field, value string) Output {
	return Output{Kind: OutputHashSet, Target: state, Member: field, Value: value}
}

// HashIncrement adds to a field of a state, which is a decimal integer of 64 bits; one that is absent is 0.
func HashIncrement(state, field string, by int64) Output {
	return Output{Kind: OutputHashIncrement, Target: state, Member: field, Value: strconv.FormatInt(by, 10)}
}

// SortedAdd puts a member into a state with a score, or gives it another one.
func SortedAdd(state, member string, score float64) Output {
	return Output{Kind: OutputSortedAdd, Target: state, Member: member, Value: formatScore(score)}
}

// SetAdd puts a member into a state.
func SetAdd(state, member string) Output {
	return Output{Kind: OutputSetAdd, Target: state, Member: member}
}

// Remove takes a field or a member out of a state, whichever it has.
func Remove(state, member string) Output {
	return Output{Kind: OutputRemove, Target: state, Member: member}
}

// Delete deletes a state whole.
func Delete(state string) Output { return Output{Kind: OutputDelete, Target: state} }

// Outcome is what a job came to, which is kept for whoever waits for it, if the job says so. Messages of streams have none.
func Outcome(value string) Output { return Output{Kind: OutputResult, Value: value} }

// Key is the one that an output writes to, in the scope of the message that it belongs to. The error says why it cannot be
// written.
func (o *Output) Key(scope string) (string, error) {
	if o.Kind == OutputResult {
		return "", errors.New("tier: a message of a stream has no result: only a job has")
	}
	if o.Kind != OutputAppend {
		if err := CheckName("state", o.Target); err != nil {
			return "", err
		}
		if err := o.check(); err != nil {
			return "", err
		}
		return StateKey(scope, o.Target), nil
	}
	addr, err := ParseAddress(o.Target)
	if err != nil {
		return "", err
	}
	if addr.Scope != scope || addr.Key != "" {
		return "", fmt.Errorf("tier: %s is not in scope %s, and no script can write to both in one step: append to an outbox, a stream of %s, and run a forwarder from there", addr, scope, scope)
	}
	return addr.LogKey(), nil
}

// check refuses what is not as the functions of this file make it: the server would find out only after it had written others.
func (o *Output) check() error {
	switch o.Kind {
	case OutputHashSet, OutputSetAdd, OutputRemove, OutputDelete:
	case OutputHashIncrement:
		if n, err := strconv.ParseInt(o.Value, 10, 64); err != nil || strconv.FormatInt(n, 10) != o.Value {
			return fmt.Errorf("tier: %.32q is no integer of 64 bits: make the output with HashIncrement", o.Value)
		}
	case OutputSortedAdd:
		if score, err := strconv.ParseFloat(o.Value, 64); err != nil || math.IsNaN(score) || formatScore(score) != o.Value {
			return fmt.Errorf("tier: %.32q is no score: make the output with SortedAdd", o.Value)
		}
	default:
		return fmt.Errorf("tier: there is no output of kind %.32q", o.Kind)
	}
	return nil
}

func formatScore(score float64) string { return strconv.FormatFloat(score, 'g', -1, 64) }

// OutputError says which output of which entry cannot be written. Nothing of its call was.
type OutputError struct {
	Entry  codec.EntryID
	Output int // its place among those of the entry, from 0
	Err    error
}

func (e *OutputError) Error() string {
	return fmt.Sprintf("tier: output %d of %s: %v", e.Output, e.Entry, e.Err)
}

// Unwrap is the reason.
func (e *OutputError) Unwrap() error { return e.Err }
