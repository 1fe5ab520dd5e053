package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
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
}

// Cursor is a named place in a stream that has at most one owner at a time, who alone moves it: order holds across
// processes, whoever comes and goes. docs/processing.md has its states.
type Cursor struct {
	place *place
	cfg   CursorConfig
}

// NewCursor checks the configuration. It sends nothing.
func NewCursor(client *tier.Client, cfg CursorConfig) (*Cursor, error) {
	g, err := newGroup(client, "cursor", GroupConfig(cfg))
	if err != nil {
		return nil, err
	}
	return &Cursor{place: g.place, cfg: CursorConfig(g.cfg)}, nil
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
	o := &Owner{cursor: c, name: name, wake: make(chan struct{}, 1)}
	if _, err := o.Sync(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

// group is one of the same name and start, for what both have alike.
func (c *Cursor) group() *Group {
	return &Group{place: c.place, cfg: GroupConfig(c.cfg)}
}

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
	return c.verb(ctx, moveCursorScript, []string{a.LogKey(), a.CursorsKey(), a.RetryKey(c.cfg.Name), a.OpenKey(c.cfg.Name)},
		c.cfg.Name, start.after(), start.at.String())
}

// Delete deletes the cursor; members at work end with ErrCursorDeleted. Its dead letters stay.
//
// Errors: ErrNoCursor.
func (c *Cursor) Delete(ctx context.Context) error {
	a := c.place.addr
	return c.verb(ctx, deleteCursorScript, []string{a.CursorsKey(), a.RetryKey(c.cfg.Name), a.OpenKey(c.cfg.Name)}, c.cfg.Name)
}

// Pause lets the owner read nothing more and take nothing up again until Resume, whichever process it is in, and whoever
// owns the cursor later. What it holds it finishes and commits; it stays the owner. It learns of it with its next beat or
// look, within two seconds or a third of the lease. It outlives every process, and a Reset, and ends with the cursor.
//
// Pausing again changes nothing. Errors: ErrNoCursor.
func (c *Cursor) Pause(ctx context.Context) error { return c.turn(ctx, pauseCursorScript) }

// Resume ends a pause. A cursor that is not paused stays as it is. Errors: ErrNoCursor.
func (c *Cursor) Resume(ctx context.Context) error { return c.turn(ctx, resumeCursorScript) }

func (c *Cursor) turn(ctx context.Context, s *tier.Script) error {
	m, err := c.place.client.Run(ctx, tier.Call{Script: s, Keys: []string{c.place.addr.CursorsKey()}, Args: []string{c.cfg.Name}})
	if err != nil {
		return err
	}
	n, err := m.AsInt64()
	if err == nil && n < 0 {
		return c.absent()
	}
	return err
}

func (c *Cursor) absent() error {
	return fmt.Errorf("%w (%s of %s)", ErrNoCursor, c.cfg.Name, c.place.addr)
}

// verb runs a script that answers 1, or 0 when there is no such cursor.
func (c *Cursor) verb(ctx context.Context, script *tier.Script, keys []string, args ...string) error {
	m, err := c.place.client.Run(ctx, tier.Call{Script: script, Keys: keys, Args: args})
	if err != nil {
		return err
	}
	if n, err := m.AsInt64(); err != nil || n == 1 {
		return err
	}
	return c.absent()
}

// ownership is what acquire.lua answers.
type ownership struct {
	code        string
	epoch       string
	commit      uint64
	at          codec.EntryID
	above       []codec.EntryID
	crashes     int
	reach       codec.EntryID
	start, live codec.EntryID
	lease       time.Duration
	wait        time.Duration
	passed      int64 // below 0: not known
	paused      bool
}

// acquire asks for the ownership; lost says that the caller knows there was such a cursor.
func (c *Cursor) acquire(ctx context.Context, member string, lost bool) (ownership, error) {
	lease, was := c.cfg.Lease, "0"
	if lease == 0 {
		lease = DefaultLease
	}
	if lost {
		was = "1"
	}
	a := c.place.addr
	m, err := c.place.client.Run(ctx, tier.Call{
		Script: acquireScript,
		Keys:   []string{a.LogKey(), a.CursorsKey(), tier.ScopeKey(a.Scope), a.GroupKey(c.cfg.Name), a.RetryKey(c.cfg.Name), a.OpenKey(c.cfg.Name)},
		Args:   []string{tier.StreamField(a.Stream), c.cfg.Name, member, millis(lease), c.cfg.Start.after(), c.cfg.Start.at.String(), was},
	})
	if err != nil {
		return ownership{}, err
	}
	reply, err := tier.Parts("acquire", m, 14)
	if err != nil {
		return ownership{}, err
	}
	text := make([]string, len(reply))
	for i := range reply {
		if text[i], err = reply[i].ToString(); err != nil {
			n, _ := reply[i].AsInt64()
			text[i] = strconv.FormatInt(n, 10)
		}
	}
	return c.ownershipOf(text)
}

func (c *Cursor) ownershipOf(text []string) (o ownership, err error) {
	o.code, o.epoch, o.paused = text[0], text[1], text[13] != ""
	if o.passed, err = strconv.ParseInt(text[12], 10, 64); err != nil {
		o.passed = -1
	}
	switch o.code {
	case "removed":
		return o, fmt.Errorf("%w (%s)", ErrStreamRemoved, c.place.addr)
	case "deleted":
		return o, fmt.Errorf("%w (%s of %s)", ErrCursorDeleted, c.cfg.Name, c.place.addr)
	case "group":
		return o, &NameTakenError{Stream: c.place.addr.String(), Name: c.cfg.Name, By: "group"}
	}
	var errs [7]error
	o.commit, errs[0] = strconv.ParseUint(text[2], 10, 64)
	o.crashes, errs[1] = strconv.Atoi(text[5])
	for i, id := range map[int]*codec.EntryID{3: &o.at, 6: &o.reach, 7: &o.start, 8: &o.live} {
		if *id, err = codec.ParseEntryID(text[i]); err != nil {
			errs[2] = err
		}
	}
	for _, id := range strings.Fields(text[4]) {
		e, err := codec.ParseEntryID(id)
		errs[3] = errors.Join(errs[3], err)
		o.above = append(o.above, e)
	}
	var lease, wait int64
	lease, errs[4] = strconv.ParseInt(text[9], 10, 64)
	wait, errs[5] = strconv.ParseInt(text[10], 10, 64)
	o.lease, o.wait = time.Duration(lease)*time.Millisecond, time.Duration(wait)*time.Millisecond
	if o.lease < MinLease {
		errs[6] = fmt.Errorf("its lease of %s is below %s", o.lease, MinLease)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return o, fmt.Errorf("stream: cursor %s of %s: its row is damaged, see 'pipeline check %s': %w", c.cfg.Name, c.place.addr, c.place.addr.Scope, err)
	}
	if c.cfg.Lease != 0 && o.lease != c.cfg.Lease {
		return o, &LeaseDiffersError{Group: c.cfg.Name, Have: o.lease, Ask: c.cfg.Lease}
	}
	return o, nil
}
