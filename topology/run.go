package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/topology/stage"
)

// RunOptions say what of a document is run. The zero value runs all.
type RunOptions struct {
	// Only are the names of the sources, stages, projections and sinks to run. Default all. Others may run in other processes: of the processes
	// that run a stage one is at work, the others stand by.
	Only []string
	stage.Options
}

// Run is the running of a document, or a part of it, in this process.
type Run struct {
	client *tier.Client
	parts  []*part
	ready  chan struct{}

	mu  sync.Mutex
	ran bool
}

// part is a source, a stage, a projection or a sink.
type part struct {
	stage.Runner
	name, kind string
	from       string // the stream whose cursor it owns; empty of a source
	cursor     string
	ended      chan struct{}
	err        error // once it has ended
}

// PartState is what a source, stage, projection or sink is at.
type PartState struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`  // source, stage, projection or sink
	State string `json:"state"` // starting, ready, ended or failed
	Error string `json:"error,omitempty"`
}

// NewRun makes what is to run. It sends nothing; the streams are those of the document, which was applied.
//
// Errors: *UnknownPartError, and those of stage.New.
func NewRun(client *tier.Client, doc *Document, opts RunOptions) (*Run, error) {
	r := &Run{client: client, ready: make(chan struct{})}
	known := map[string]bool{}
	add := func(kind, name, from, cursor string, newRunner func() (stage.Runner, error)) error {
		known[name] = true
		if len(opts.Only) > 0 && !slices.Contains(opts.Only, name) {
			return nil
		}
		runner, err := newRunner()
		if err != nil {
			return fmt.Errorf("topology: %s %s: %w", kind, name, err)
		}
		r.parts = append(r.parts, &part{Runner: runner, name: name, kind: kind, from: from, cursor: cursor, ended: make(chan struct{})})
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(doc.Sources)) {
		errs = append(errs, add("source", name, "", "", func() (stage.Runner, error) { return stage.NewSource(client, name, doc.Sources[name], opts.Options) }))
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Stages)) {
		errs = append(errs, add("stage", name, doc.Stages[name].From, name, func() (stage.Runner, error) { return stage.New(client, name, doc.Stages[name], opts.Options) }))
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Projections)) {
		c := doc.Projections[name]
		errs = append(errs, add("projection", name, c.From, c.Cursor(name), func() (stage.Runner, error) { return stage.NewProjection(client, name, c, opts.Options) }))
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Sinks)) {
		errs = append(errs, add("sink", name, doc.Sinks[name].From, name, func() (stage.Runner, error) { return stage.NewSink(client, name, doc.Sinks[name], opts.Options) }))
	}
	for _, name := range opts.Only {
		if !known[name] {
			errs = append(errs, &UnknownPartError{name, slices.Sorted(maps.Keys(known))})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// UnknownPartError says that a document has no source, stage, projection or sink of a name.
type UnknownPartError struct {
	Name  string
	Names []string
}

func (e *UnknownPartError) Error() string {
	return fmt.Sprintf("topology: there is no source, stage, projection or sink %.64q: the document has %v", e.Name, e.Names)
}

// Ready is closed when all parts take part.
func (r *Run) Ready() <-chan struct{} { return r.ready }

// Run runs all parts until ctx ends. Each hands over what it owns. When one ends with an error, which is one that waiting does not
// help, the others are stopped, and the errors are those of all.
func (r *Run) Run(ctx context.Context) error {
	r.mu.Lock()
	ran := r.ran
	r.ran = true
	r.mu.Unlock()
	if ran {
		return consumer.ErrRan
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running conc.WaitGroup
	for _, p := range r.parts {
		running.Go(func() {
			err := p.Run(ctx)
			if err != nil {
				err = fmt.Errorf("%s %s: %w", p.kind, p.name, err)
				stop()
			}
			r.mu.Lock()
			p.err = err
			r.mu.Unlock()
			close(p.ended)
		})
	}
	running.Go(func() {
		for _, p := range r.parts {
			select {
			case <-p.Ready():
			case <-ctx.Done():
				return
			}
		}
		close(r.ready)
	})
	running.Wait()
	var errs []error
	for _, p := range r.parts {
		errs = append(errs, p.err)
	}
	return errors.Join(errs...)
}

// States are what the parts are at, sources first.
func (r *Run) States() []PartState {
	states := make([]PartState, len(r.parts))
	for i, p := range r.parts {
		s := PartState{Name: p.name, Kind: p.kind, State: "starting"}
		select {
		case <-p.Ready():
			s.State = "ready"
		default:
		}
		select {
		case <-p.ended:
			s.State = "ended"
			r.mu.Lock()
			if p.err != nil {
				s.State, s.Error = "failed", p.err.Error()
			}
			r.mu.Unlock()
		default:
		}
		states[i] = s
	}
	return states
}

// Drained waits until the sources have ended, and what they brought is through all stages and sinks of this run: nothing is
// unread or parked, and nothing has moved between two looks. What other programs append meanwhile is waited for as well.
func (r *Run) Drained(ctx context.Context) error {
	for _, p := range r.parts {
		if p.kind != "source" {
			continue
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for before := ""; ; {
		now, open, err := r.look(ctx)
		switch {
		case err != nil:
			return err
		case !open && now == before:
			return nil
		}
		before = now
		if !tier.Pause(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// look is where each cursor is, and whether there is something left for one.
func (r *Run) look(ctx context.Context) (at string, open bool, err error) {
	for _, p := range r.parts {
		if p.from == "" {
			continue
		}
		cursors, err := stream.Cursors(ctx, r.client, p.from)
		if err != nil && !errors.Is(err, stream.ErrNoStream) {
			return "", false, err
		}
		i := slices.IndexFunc(cursors, func(c stream.CursorInfo) bool { return c.Name == p.cursor })
		if i < 0 {
			open = open || err == nil
			continue
		}
		c := cursors[i]
		open = open || c.Lag != 0 || c.Parked != 0
		at += fmt.Sprint(p.name, " ", c.Checkpoint, "\n")
	}
	return at, open, nil
}
