package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// inlet appends what comes from one sequence of a source. One call at a time.
type inlet interface {
	// append sees to it that messages stand in the stream, and returns of how many, from the first on, that is known. An error is of the
	// next of them, or of the server.
	append(ctx context.Context, ms []poured) (done int, err error)
}

// windowed is the inlet of a source without positions.
type windowed struct {
	writer *stream.Writer
	window time.Duration
}

func (i *windowed) append(ctx context.Context, ms []poured) (done int, err error) {
	if _, _, err := i.writer.AppendOnce(ctx, ms[0].from.UUID, i.window, ms[0].to); err != nil {
		return 0, err
	}
	return 1, nil
}

// numbered is the inlet of a sequence with positions: a named producer.
type numbered struct {
	writer *stream.Writer
	asked  bool
	last   uint64          // the highest number that was appended, once asked
	floor  uint64          // what is up to here was appended, whoever did it
	ours   map[uint64]bool // above it, what this run has appended
}

// maxOurs are the numbers that are told apart at most. What is below them counts as appended.
const maxOurs = 4096

func (i *numbered) append(ctx context.Context, ms []poured) (done int, err error) {
	if !i.asked {
		if err := i.ask(ctx); err != nil {
			return 0, err
		}
	}
	for done < len(ms) && (ms[done].number <= i.floor || i.ours[ms[done].number]) {
		done++
	}
	if done > 0 || len(ms) == 0 {
		return done, nil
	}
	if ms[0].number < i.last {
		return 0, fmt.Errorf("%w: number %d after %d", ErrDisordered, ms[0].number, i.last)
	}
	return i.extend(ctx, ms)
}

// extend appends as many messages as stand in order and go in one call.
func (i *numbered) extend(ctx context.Context, ms []poured) (done int, err error) {
	n := 1
	for n < len(ms) && ms[n].number > ms[n-1].number {
		n++
	}
	batch := make([]codec.Message, n)
	for k := range batch {
		batch[k] = ms[k].to
	}
	n = atOnce(batch)
	last := ms[n-1].number
	_, err = i.writer.AppendAfter(ctx, i.last, last, batch[:n])
	switch {
	case err == nil:
		i.note(ms[:n])
		return n, nil
	case errors.Is(err, stream.ErrProducerMoved), errors.Is(err, stream.ErrPositionReused), errors.Is(err, stream.ErrAlreadyAppended):
		return 0, i.ask(ctx) // another process went on, or the server has lost what it knew
	case refused(err) && n > 1:
		return i.extend(ctx, ms[:n/2]) // which of them is it?
	}
	return 0, err
}

// ask finds how far the producer has got.
func (i *numbered) ask(ctx context.Context) error {
	last, err := i.writer.Position(ctx)
	if err == nil {
		i.asked, i.last, i.floor, i.ours = true, last, last, map[uint64]bool{}
	}
	return err
}

func (i *numbered) note(ms []poured) {
	for _, p := range ms {
		i.ours[p.number] = true
	}
	i.last = ms[len(ms)-1].number
	if len(i.ours) > maxOurs {
		i.floor, i.ours = i.last, map[uint64]bool{}
	}
}
