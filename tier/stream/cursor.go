package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/echomq/pipeline/tier"
)

// CursorConfig names a cursor and says where it begins. Address, Name and Start are needed.
type CursorConfig struct {
	// Address is "scope/stream".
	Address string
	// Name of the cursor. A stream's cursors and groups share their names.
	Name string
	// Start is where the cursor begins when it does not exist yet, as that of a group.
	Start Start
	// Lease is how long its owner may be silent before another takes over. Default 30 s; of a cursor that exists, its own, and
	// another is refused. At least 500 ms. Short, a pause of the process makes it change hands; long, nothing is handled for
	// so long after a crash.
	Lease time.Duration
	// Past has what the log has no more: a cursor that begins below the log's first entry reads it there, and then goes over to
	// the log, without a gap. Nil: it begins with what the log has.
	Past Past
}

// Cursor is a named place in a stream that has at most one owner at a time, who alone moves it: order holds across
// processes, whoever comes and goes. docs/processing.md has its states.
type Cursor struct {
	place *place
	cfg   CursorConfig
}

// NewCursor checks the configuration. It sends nothing.
func NewCursor(client *tier.Client, cfg CursorConfig) (*Cursor, error) {
	place, err := newPlace(client, cfg.Address)
	if err != nil {
		return nil, err
	}
	place.past = cfg.Past
	g, err := newGroup(place, "cursor", cfg.group())
	if err != nil {
		return nil, err
	}
	cfg.Lease = g.cfg.Lease
	return &Cursor{place: place, cfg: cfg}, nil
}

// Name of the cursor.
func (c *Cursor) Name() string { return c.cfg.Name }

// Address of the stream.
func (c *Cursor) Address() tier.Address { return c.place.addr }

// Join makes a member that owns the cursor as soon as nobody else does, under a name that no other has. The cursor is
// made if there is none.
//
// Errors: ErrStreamRemoved, ErrCursorDeleted, *NameTakenError, *LeaseDiffersError, *FutureStartError.
func (c *Cursor) Join(ctx context.Context, prefix string) (*Owner, error) {
	name, err := memberName(prefix)
	if err != nil {
		return nil, err
	}
	if err := c.group().reachable(ctx, c.cfg.Start); err != nil {
		return nil, err
	}
	o := &Owner{cursor: c, name: name, wake: make(chan struct{}, 1), feed: c.place.client.Feed(c.place.addr.LogKey()), direct: directCommit{tx: c.place.client.Transaction()}}
	if _, err := o.Sync(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

// group is one of the same name and start, for what both have alike.
func (c *Cursor) group() *Group {
	return &Group{place: c.place, cfg: c.cfg.group()}
}

func (c *CursorConfig) group() GroupConfig { return GroupConfig{c.Address, c.Name, c.Start, c.Lease} }

// Reset moves the cursor to another start, with all that it had parked forgotten. Its owner is refused once and goes on
// from there. What the log has up to now counts as a replay.
//
// Errors: ErrNoCursor, *FutureStartError.
func (c *Cursor) Reset(ctx context.Context, start Start) error {
	if start.kind == startNone {
		return fmt.Errorf("%w: reset of cursor %s: declare where it starts", ErrBadCall, c.cfg.Name)
	}
	if err := c.group().reachable(ctx, start); err != nil {
		return err
	}
	a := c.place.addr
	keys := []string{a.LogKey(), a.CursorsKey(), a.RetryKey(c.cfg.Name), a.OpenKey(c.cfg.Name)}
	return c.run(ctx, moveCursorScript, keys, start.after(), start.at.String())
}

// Delete deletes the cursor; members at work end with ErrCursorDeleted. Its dead letters stay.
//
// Errors: ErrNoCursor.
func (c *Cursor) Delete(ctx context.Context) error {
	a := c.place.addr
	return c.run(ctx, deleteCursorScript, []string{a.CursorsKey(), a.RetryKey(c.cfg.Name), a.OpenKey(c.cfg.Name)})
}

// Pause lets the owner read nothing more and take nothing up again until Resume, whichever process it is in, and whoever
// owns the cursor later. What it holds it finishes and commits; it stays the owner. It learns of it with its next beat or
// look, within two seconds or a third of the lease. It outlives every process, and a Reset, and ends with the cursor.
//
// Pausing again changes nothing. Errors: ErrNoCursor.
func (c *Cursor) Pause(ctx context.Context) error {
	return c.run(ctx, pauseCursorScript, []string{c.place.addr.CursorsKey()})
}

// Resume ends a pause. A cursor that is not paused stays as it is. Errors: ErrNoCursor.
func (c *Cursor) Resume(ctx context.Context) error {
	return c.run(ctx, resumeCursorScript, []string{c.place.addr.CursorsKey()})
}

// run runs a script that answers below 0 when there is no such cursor.
func (c *Cursor) run(ctx context.Context, script *tier.Script, keys []string, args ...string) error {
	m, err := c.place.client.Run(ctx, tier.Call{Script: script, Keys: keys, Args: append([]string{c.cfg.Name}, args...)})
	if err != nil {
		return err
	}
	n, err := m.AsInt64()
	if err == nil && n < 0 {
		return fmt.Errorf("%w (%s of %s)", ErrNoCursor, c.cfg.Name, c.place.addr)
	}
	return err
}
