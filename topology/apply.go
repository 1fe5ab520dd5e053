package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/topology/stage"
)

var (
	// ErrRefused: the plan has changes that cannot be made, so none was.
	ErrRefused = errors.New("topology: the plan refuses changes, so nothing was applied")
	// ErrMigrates: the plan has changes that wait for others, and ApplyOptions do not allow it.
	ErrMigrates = errors.New("topology: the plan has a migration, so nothing was applied: allow it by its name")
	// ErrDestroys: the plan destroys something, and ApplyOptions do not allow it.
	ErrDestroys = errors.New("topology: the plan destroys something, so nothing was applied: allow it by its name")
)

// ApplyOptions say what may be done. The zero value makes and changes, and neither migrates nor destroys.
type ApplyOptions struct {
	Migrate bool
	Destroy bool
	// Before is told each change before it is made, and what it waits for, from the caller's goroutine.
	Before func(c *Change, waitsFor string)
}

// PartlyError says where an apply stands that has ended half way. It goes on when it is applied again.
type PartlyError struct {
	Done   []Change
	Failed Change
	Left   []Change // behind it
	Err    error
}

func (e *PartlyError) Error() string {
	return fmt.Sprintf("topology: %s %s: %v (%d of %d changes are done: apply again to go on)", e.Failed.Verb, e.Failed.Thing(), e.Err, len(e.Done), len(e.Done)+1+len(e.Left))
}

func (e *PartlyError) Unwrap() error { return e.Err }

// Apply makes the changes of the plan, each in its turn. What is made is noted as the topology's before, and what is destroyed
// is forgotten after, so that nothing is left behind that nobody knows of.
//
// Errors: ErrRefused, ErrMigrates, ErrDestroys, with nothing done; *PartlyError.
func (p *Plan) Apply(ctx context.Context, client *tier.Client, opts ApplyOptions) error {
	switch {
	case p.Has(Refuse):
		return ErrRefused
	case p.Has(Migrate) && !opts.Migrate:
		return ErrMigrates
	case p.Has(Destroy) && !opts.Destroy:
		return ErrDestroys
	}
	tell := opts.Before
	if tell == nil {
		tell = func(*Change, string) {}
	}
	now := p.snapshot
	for i := range p.Changes {
		c := &p.Changes[i]
		tell(c, "")
		var err error
		if c.Verb == Destroy && now == p.snapshot {
			now, err = p.look(ctx, client, p.Changes[i:])
		}
		if err == nil {
			err = p.do(ctx, client, c, now, func(waits string) { tell(c, waits) })
		}
		if err != nil {
			return &PartlyError{slices.Clone(p.Changes[:i]), *c, slices.Clone(p.Changes[i+1:]), err}
		}
	}
	return nil
}

// look looks again before anything is destroyed: a plan may be as old as the thought that somebody gave it.
func (p *Plan) look(ctx context.Context, client *tier.Client, left []Change) (*snapshot, error) {
	s, err := snapshotOf(ctx, client, p.Topology, p.wanted)
	if err != nil {
		return nil, err
	}
	goes := map[name]bool{}
	for i := range left {
		goes[left[i].noun] = true
	}
	for i := range left {
		if c := removal(left[i].noun, s, func(n name) bool { return goes[n] }); c.Verb == Refuse {
			return nil, fmt.Errorf("%s, since the plan was made: %s", c.Thing(), c.Why)
		}
	}
	return s, nil
}

func (p *Plan) do(ctx context.Context, client *tier.Client, c *Change, now *snapshot, waits func(string)) error {
	if c.Verb == Destroy {
		if err := destroy(ctx, client, c.noun, now); err != nil {
			return err
		}
		return client.Disown(ctx, c.noun.String())
	}
	holder, err := client.Declare(ctx, c.noun.String(), tier.Declared{Topology: p.Topology, Text: c.what.attributes.text()})
	switch {
	case err != nil:
		return err
	case holder != p.Topology:
		return fmt.Errorf("topology %q has declared it meanwhile: look at the plan again", holder)
	case c.Verb == Migrate:
		return c.what.migrate(ctx, client, waits)
	case c.what.put == nil || c.Verb == Adopt:
		return nil
	}
	return c.what.put(ctx, client)
}

// Destruction is the plan that destroys what a topology has declared: all of it, or the things that are named as Change.Thing
// names them.
//
// Errors: of a name that it has not declared.
func Destruction(ctx context.Context, client *tier.Client, topology string, things ...string) (*Plan, error) {
	s, err := snapshotOf(ctx, client, topology, nil)
	if err != nil {
		return nil, err
	}
	goes := map[name]bool{}
	for n, d := range s.declared {
		goes[n] = d.Topology == topology && (len(things) == 0 || slices.Contains(things, n.text()))
	}
	for _, thing := range things {
		if !anyOf(goes, func(n name) bool { return n.text() == thing }) {
			return nil, fmt.Errorf("topology: %s has not declared %q: name what it has, as in \"stream shop/orders\" (the plan shows them)", topology, thing)
		}
	}
	var refused, gone []Change
	for n, is := range goes {
		if !is {
			continue
		}
		if c := removal(n, s, func(n name) bool { return goes[n] }); c.Verb == Refuse {
			refused = append(refused, c)
		} else {
			gone = append(gone, c)
		}
	}
	order := func(a, b Change) int { return compareNames(b.noun, a.noun) }
	slices.SortFunc(refused, order)
	slices.SortFunc(gone, order)
	return &Plan{topology, append(refused, gone...), nil, s}, nil
}

func anyOf(set map[name]bool, is func(name) bool) bool {
	for n, in := range set {
		if in && is(n) {
			return true
		}
	}
	return false
}

// Drift is what the server has otherwise than a topology has declared it the last time: changed (Modify), or gone (Destroy).
// From is as it was declared, To as it is.
func Drift(ctx context.Context, client *tier.Client, topology string) ([]Change, error) {
	s, err := snapshotOf(ctx, client, topology, nil)
	if err != nil {
		return nil, err
	}
	var drifted []Change
	for n, d := range s.declared {
		if d.Topology != topology {
			continue
		}
		have, there := s.found[n]
		switch {
		case n.kind == kindCursor || n.kind == kindProjection: // made, and made anew, by what reads
		case !there:
			drifted = append(drifted, newChange(Destroy, n, nil, ""))
		default:
			c := newChange(Modify, n, nil, "")
			for _, x := range differences(have.attributes, parseAttributes(d.Text), open[n.kind]) {
				c.Attributes = append(c.Attributes, Difference{x.Attribute, x.To, x.From})
			}
			if len(c.Attributes) > 0 {
				drifted = append(drifted, c)
			}
		}
	}
	slices.SortFunc(drifted, func(a, b Change) int { return compareNames(a.noun, b.noun) })
	return drifted, nil
}

// readerStates are the names of what those who read by a cursor keep beside it.
var readerStates = map[string]func(string) string{stageNode: stage.State, sinkNode: stage.SinkState}

// keptBy tells whether the state of a reader is that of another one by now, which has its name, and reads another stream.
func (s *snapshot) keptBy(reader string, n name) bool {
	for _, d := range s.namesakes(n) {
		if parseAttributes(d.Text).keeps() == reader {
			return true
		}
	}
	return false
}

// namesakes are the other cursors of a name in a scope, with what is declared of them.
func (s *snapshot) namesakes(n name) map[name]tier.Declared {
	found := map[name]tier.Declared{}
	scope, _, _ := strings.Cut(n.of, "/")
	for other, d := range s.declared {
		if at, _, _ := strings.Cut(other.of, "/"); other.kind == kindCursor && other.own == n.own && other.of != n.of && at == scope {
			found[other] = d
		}
	}
	return found
}

// destroy takes away what is declared no longer. What is gone already is gone.
func destroy(ctx context.Context, client *tier.Client, n name, s *snapshot) error {
	if _, there := s.found[n]; !there && n.kind != kindCursor { // beside that, there may be a state
		return nil
	}
	switch n.kind {
	case kindStream, kindGroup, kindCursor:
		a, err := tier.ParseAddress(n.of)
		if err != nil {
			return err
		}
		for _, part := range s.parts(a.Scope) {
			if err := destroyIn(ctx, client, n, tier.Address{Scope: part, Stream: a.Stream}.String()); err != nil {
				return err
			}
			if n.kind != kindCursor {
				continue
			}
			for reader := range parseAttributes(s.declared[n].Text) {
				if state, has := readerStates[reader]; has && !s.keptBy(reader, n) { // it goes with the cursor
					if _, err := client.DeleteStates(ctx, part, state(n.own)); err != nil {
						return err
					}
				}
			}
		}
		return nil
	case kindProjection:
		return destroyProjection(ctx, client, n)
	case kindPartitions:
		return nil
	}
	return withQueue(n.of, func(ctx context.Context, jobs *queue.Client) error { return destroyJobs(ctx, jobs, n) })(ctx, client)
}

// destroyProjection takes all versions away, that which readers use last.
func destroyProjection(ctx context.Context, client *tier.Client, n name) error {
	versions, err := projection.List(ctx, client, n.of)
	if errors.Is(err, stream.ErrNoStream) || errors.Is(err, stream.ErrStreamRemoved) {
		return nil
	}
	slices.SortStableFunc(versions, func(a, b projection.Info) int {
		if a.Live == b.Live {
			return 0
		}
		return map[bool]int{true: 1, false: -1}[a.Live]
	})
	for _, v := range versions {
		if err == nil && v.Projection == n.own && v.Version > 0 {
			err = projection.Drop(ctx, client, n.of, n.own, v.Version)
		}
	}
	return err
}

// destroyIn takes something away in one scope.
func destroyIn(ctx context.Context, client *tier.Client, n name, address string) error {
	var err error
	switch n.kind {
	case kindStream:
		_, err = stream.Remove(ctx, client, address)
	case kindGroup:
		var g *stream.Group
		if g, err = stream.NewGroup(client, stream.GroupConfig{Address: address, Name: n.own, Start: stream.Head()}); err == nil {
			err = g.Delete(ctx)
		}
	case kindCursor:
		var c *stream.Cursor
		if c, err = stream.NewCursor(client, stream.CursorConfig{Address: address, Name: n.own, Start: stream.Head()}); err == nil {
			err = c.Delete(ctx)
		}
	}
	for _, gone := range []error{stream.ErrNoStream, stream.ErrStreamRemoved, stream.ErrGroupDeleted, stream.ErrCursorDeleted, stream.ErrNoCursor, tier.ErrNoGroup} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// destroyJobs takes away a queue without jobs, a lane's settings, or a schedule.
func destroyJobs(ctx context.Context, jobs *queue.Client, n name) error {
	switch n.kind {
	case kindSchedule:
		if err := queue.NewSchedules(jobs).Remove(ctx, n.own); !errors.Is(err, queue.ErrNoSchedule) {
			return err
		}
		return nil
	case kindLane:
		return setLane(ctx, jobs, n.own, Lane{})
	}
	if err := jobs.Pause(ctx); err != nil {
		return err
	}
	_, err := jobs.Obliterate(ctx, n.of)
	return err
}
