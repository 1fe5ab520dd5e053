package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// A call appends so many messages, or bytes, of a replay without a pace.
const (
	batchMessages = 500
	batchBytes    = 1 << 20
)

// stepsPerSecond is how often messages of a replay with a pace are appended: those of a step go together.
const stepsPerSecond = 50

// Writer appends as a named producer: a stream.Writer with one.
type Writer interface {
	Position(ctx context.Context) (uint64, error)
	AppendAfter(ctx context.Context, after, position uint64, ms []codec.Message) ([]codec.ID, error)
}

// Forwarded is how far a Forward has come.
type Forwarded struct {
	Appended int           // messages
	Before   codec.EntryID // where the producer had got before: what is up to there was not appended again; zero: nowhere
	Foreign  int           // entries that hold no message that could be appended: foreign and undecodable ones
	Last     codec.EntryID // address of the last message that was appended
}

// PositionError says that two messages of a source have one position, or stand in the wrong order, so that no producer can tell
// that it has appended both: of an exclusive stream whose writer changed within a millisecond.
type PositionError struct{ At, After codec.EntryID }

func (e *PositionError) Error() string {
	return fmt.Sprintf("replay: the message at %s cannot be appended exactly once behind that at %s: two writers had one millisecond", e.At, e.After)
}

// PositionOf is the place of a message in its source as a number, for a named producer: from 1 on, ascending, below 2^53 until the ids
// of streams end. Two writers of an exclusive stream in one millisecond may have the same.
func PositionOf(addr codec.EntryID) uint64 {
	return (addr.Ms-codec.Epoch)<<12 | addr.Seq&codec.MaxSeq + 1
}

// addressOf is where a position stands, in its millisecond as near as is known for any source.
func addressOf(position uint64, exact bool) codec.EntryID {
	position--
	at := codec.EntryID{Ms: position>>12 + codec.Epoch}
	if exact {
		at.Seq = position & codec.MaxSeq
	}
	return at
}

// Forward appends the messages to another stream, each with the header codec.HeaderReplayOf, exactly once: a Forward of
// the same types and keys goes on where another was interrupted, whatever it knew of its last call. Done, if it is not nil, is told after each call.
//
// Two at a time with one producer, or one and a call of another that is still on its way, are kept apart by the server: one of
// them ends with stream.ErrProducerMoved, stream.ErrAlreadyAppended or stream.ErrPositionReused. Another Forward then goes on.
//
// Errors: those of the source and of stream.Writer.AppendAfter; *PositionError; *codec.LimitError of a message that has no room for
// one more header.
func (r *Replay) Forward(ctx context.Context, w Writer, done func(Forwarded)) (Forwarded, error) {
	f := forward{Replay: r, writer: w, done: done, pace: pace{speed: r.cfg.Speed, rate: r.cfg.Rate}}
	from, err := f.resume(ctx)
	if err != nil {
		return f.Forwarded, err
	}
	for record, err := range r.selected(ctx, from) {
		if err == nil {
			err = f.add(ctx, record)
		}
		if err != nil {
			return f.Forwarded, err
		}
	}
	return f.Forwarded, f.flush(ctx)
}

// forward is one run of Forward. Without a pace, where a batch begins decides where it ends, so that one which a process that is
// gone has sent is mostly sent again as it was, and is no conflict.
type forward struct {
	*Replay
	Forwarded
	writer Writer
	done   func(Forwarded)
	pace   pace
	after  uint64 // position of the last message that is in the target
	last   uint64 // and of the last that was taken
	at     codec.EntryID

	batch []codec.Message
	bytes int
	began codec.EntryID // where the batch begins
}

// resume finds where the producer has got.
func (f *forward) resume(ctx context.Context) (from codec.EntryID, err error) {
	from = f.cfg.From
	f.after, err = f.writer.Position(ctx)
	if f.last = f.after; err != nil || f.last == 0 {
		return from, err
	}
	identity, err := f.source.Identity(ctx)
	if err != nil && !errors.Is(err, stream.ErrNoStream) {
		return from, err
	}
	f.at = addressOf(f.last, !identity.Exclusive)
	f.Before = f.at
	if next := f.at.Next(); identity.Exclusive && f.at.Compare(from) > 0 {
		return f.at, nil
	} else if !identity.Exclusive && next.Compare(from) > 0 {
		return next, nil
	}
	return from, nil
}

func (f *forward) add(ctx context.Context, r *codec.Record) error {
	if r.Foreign() || r.Err != nil {
		f.Foreign++
		return nil
	}
	position := PositionOf(r.Addr)
	switch {
	case len(f.batch) == 0 && f.Appended == 0 && position <= f.last:
		return nil // of the millisecond in which it goes on
	case position <= f.last:
		return &PositionError{At: r.Addr, After: f.at}
	}
	m := r.Message
	m.Headers = append(make(codec.Headers, 0, len(m.Headers)+1), m.Headers...) // the source's stay as they are
	m.Headers.Set(codec.HeaderReplayOf, r.ID.String())
	size := m.Size()
	if len(f.batch) > 0 && (f.step(r.Addr) != f.step(f.began) || len(f.batch) == f.most() || f.bytes+size > batchBytes) {
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	if len(f.batch) == 0 {
		f.began = r.Addr
	}
	f.batch, f.bytes = append(f.batch, m), f.bytes+size
	f.last, f.at = position, r.Addr
	return nil
}

// step is that of the pace in which a message goes; without a speed there is one.
func (f *forward) step(at codec.EntryID) uint64 {
	if f.cfg.Speed == 0 {
		return 0
	}
	return uint64(float64(at.Ms) / max(1, f.cfg.Speed*1000/stepsPerSecond))
}

// most is how many messages a call appends.
func (f *forward) most() int {
	if f.cfg.Rate == 0 {
		return batchMessages
	}
	return max(1, min(batchMessages, int(f.cfg.Rate/stepsPerSecond)))
}

func (f *forward) flush(ctx context.Context) error {
	if len(f.batch) == 0 {
		return nil
	}
	if err := f.wait(ctx, &f.pace, f.began, len(f.batch)); err != nil {
		return err
	}
	if _, err := f.writer.AppendAfter(ctx, f.after, f.last, f.batch); err != nil {
		return fmt.Errorf("replay: messages %s to %s: %w", f.began, f.at, err)
	}
	f.Appended += len(f.batch)
	f.after, f.Last = f.last, f.at
	if f.done != nil {
		f.done(f.Forwarded)
	}
	f.batch, f.bytes = make([]codec.Message, 0, len(f.batch)), 0
	return nil
}
