package consumer

import (
	"context"
	"errors"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ErrNoNotes says that a message is no job: only of jobs is noted how they get on.
var ErrNoNotes = errors.New("consumer: progress and logs are of jobs, and this is a message of a stream")

// annotator is what a Member is, too, whose entries are jobs, of which can be noted how they get on. The error is
// tier.ErrFenced when the member does not hold the entry any more.
type annotator interface {
	Progress(ctx context.Context, entry codec.EntryID, progress []byte) error
	Log(ctx context.Context, entry codec.EntryID, lines ...string) error
}

// Progress notes at once how far the job is, up to queue.MaxProgress bytes, in place of what was noted before; whoever has the
// job's id can read it, queue.Client.Notes, until the job has ended. A job that fails keeps what was noted.
//
// Errors: ErrLeaseLost; ErrNoNotes; queue.ErrBadCall; those of the server, as tier.ErrStoreFull: a handler may go on.
func (d *Delivery) Progress(ctx context.Context, progress []byte) error {
	return d.annotate(func(a annotator, e codec.EntryID) error { return a.Progress(ctx, e, progress) })
}

// Log adds lines at once, up to queue.MaxLine bytes each, to the log of the job, which keeps the newest queue.DefaultLines, and
// queue.MaxLogBytes, for as long as its progress. The errors are those of Progress.
func (d *Delivery) Log(ctx context.Context, lines ...string) error {
	return d.annotate(func(a annotator, e codec.EntryID) error { return a.Log(ctx, e, lines...) })
}

func (d *Delivery) annotate(do func(annotator, codec.EntryID) error) error {
	if d.notes == nil {
		return ErrNoNotes
	}
	err := do(d.notes, d.Position.Entry)
	if errors.Is(err, tier.ErrFenced) {
		return ErrLeaseLost
	}
	return err
}
