package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Process is what one owner at a time does with the messages of a log, in their order: what they emit, what it writes and the
// checkpoint are one commit. A Table is one, in effect, whose state has a shape of its own.
type Process interface {
	// Begin is called with each new ownership, before anything is handled: what was known of the state may be wrong. A zero
	// checkpoint is that of a process that has committed nothing: what stands there is of another one.
	Begin(ctx context.Context, checkpoint codec.EntryID) error
	// Handle handles messages, in the order of the log, and says what is written with them. A *MessageError is the failure of
	// one of them, which is tried again, with all of its batch, or given up; another error that of a call. The batch before may be
	// on its way to the server meanwhile: what is handled comes after it, and is committed only if it is.
	Handle(ctx context.Context, batch []consumer.Delivery) (Effects, error)
	// Committed follows when a batch that was handled is committed, of two the first. Forget follows when what was handled and is
	// not committed will not be, one batch or two, and may be handled again, and when Handle has failed. Then no commit is under way.
	Committed()
	Forget()
}

// Effects of a batch beside what its messages emit.
type Effects struct {
	// Before and After are written before all that messages emit, and after it.
	Before, After []tier.Output
	// Dead are messages that go to the dead letters. They emit nothing, and the state is as if they were not.
	Dead []MessageError
}

// MessageError is the failure of a message of a batch.
type MessageError struct {
	Index int // in the batch
	Err   error
}

func (e *MessageError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *MessageError) Unwrap() error { return e.Err }

// ProcessConfig of a process. Address and Name are needed; the rest is as in Config.
type ProcessConfig struct {
	Address string
	// Name of the cursor.
	Name     string
	Lease    time.Duration
	Batch    int
	Attempts int
	Backoff  time.Duration
	Logger   *slog.Logger
}

// NewProcess makes the projection that a process is. It has no versions: its cursor has its name, and no view knows it. It
// sends nothing.
func NewProcess(client *tier.Client, cfg ProcessConfig, process Process) (*Projection, error) {
	if process == nil {
		return nil, fmt.Errorf("%w: a process is needed", consumer.ErrConfig)
	}
	c := Config{
		Address: cfg.Address, Name: cfg.Name, Lease: cfg.Lease, Batch: cfg.Batch, Attempts: cfg.Attempts, Backoff: cfg.Backoff, Logger: cfg.Logger,
	}
	c.setDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	cursor, err := stream.NewCursor(client, stream.CursorConfig{Address: cfg.Address, Name: cfg.Name, Start: stream.Head(), Lease: cfg.Lease})
	if err != nil {
		return nil, err
	}
	return &Projection{cfg: c, client: client, cursor: cursor, sink: processSink{process}, unnamed: true, ready: make(chan struct{})}, nil
}

type processSink struct{ Process }

func (s processSink) begin(ctx context.Context, _ uint64, checkpoint codec.EntryID) error {
	return s.Begin(ctx, checkpoint)
}

func (s processSink) fold(ctx context.Context, b *batch) (writes, error) {
	e, err := s.handle(ctx, b)
	if failed, ok := errors.AsType[*MessageError](err); ok {
		return writes{}, &foldError{failed.Index, failed.Err}
	}
	return writes{before: e.Before, after: e.After, dead: e.Dead}, err
}

func (s processSink) handle(ctx context.Context, b *batch) (e Effects, err error) {
	defer caught(&err)
	return s.Handle(ctx, b.deliveries)
}

func (s processSink) committed()                 { s.Committed() }
func (s processSink) forget()                    { s.Forget() }
func (s processSink) look(context.Context) error { return nil } // it expects nothing
