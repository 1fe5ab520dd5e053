package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Bounds of a group's lease. The shortest leaves room for three renewals and a pause of the process between them.
const (
	DefaultLease = 30 * time.Second
	MinLease     = 500 * time.Millisecond
)

// GroupConfig names a group and says where it begins. Address, Name and Start are needed.
type GroupConfig struct {
	// Address is "scope/stream".
	Address string
	// Name of the group.
	Name string
	// Start is where the group begins when it does not exist yet: Head, New, FromEntry, FromID or FromTime. There is no
	// default, since either would surprise somebody. A group that exists keeps its place. An entry or a time that lies more
	// than a minute beyond the server's clock, and beyond the stream's end, is refused.
	Start Start
	// Lease is how long a member may be silent before others take over what it holds. Default 30 s; of a group that exists,
	// its own, and another is refused. At least 500 ms. Short, a pause of the process costs repeats; long, what a crashed
	// process held waits.
	Lease time.Duration
}

// Group shares a stream among consumers: each entry goes to one of them, and to another when it is not settled.
type Group struct {
	place *place
	cfg   GroupConfig
}

// LeaseDiffersError says that the group exists with another lease: all members must agree.
type LeaseDiffersError struct {
	Group     string
	Have, Ask time.Duration
}

func (e *LeaseDiffersError) Error() string {
	return fmt.Sprintf("stream: group %s has a lease of %s, not %s: leave it out, or delete the group first", e.Group, e.Have, e.Ask)
}

// NewGroup checks the configuration. It sends nothing.
func NewGroup(client *tier.Client, cfg GroupConfig) (*Group, error) {
	place, err := newLogPlace(client, cfg.Address)
	if err != nil {
		return nil, err
	}
	return newGroup(place, "group", cfg)
}

// newGroup is NewGroup for a cursor as well, which is configured in the same way: kind is what errors call it.
func newGroup(place *place, kind string, cfg GroupConfig) (*Group, error) {
	if err := tier.CheckName(kind, cfg.Name); err != nil {
		return nil, err
	}
	if cfg.Start.kind == startNone {
		return nil, fmt.Errorf("%w: %s %s: declare where it starts: Head, New, FromEntry, FromID or FromTime", ErrBadCall, kind, cfg.Name)
	}
	if cfg.Lease != 0 && cfg.Lease < MinLease {
		return nil, fmt.Errorf("%w: %s %s: a lease of %s is below %s", ErrBadCall, kind, cfg.Name, cfg.Lease, MinLease)
	}
	cfg.Lease = cfg.Lease.Truncate(time.Millisecond)
	return &Group{place: place, cfg: cfg}, nil
}

// Name of the group.
func (g *Group) Name() string { return g.cfg.Name }

// Address of the stream.
func (g *Group) Address() tier.Address { return g.place.addr }

// Create creates the group at its start, and an empty stream if there is none. A group that exists stays as it is, and
// one that the server has lost is made again where it was.
//
// Errors: ErrStreamRemoved, *NameTakenError, *LeaseDiffersError, *FutureStartError, *ArchivedStartError.
func (g *Group) Create(ctx context.Context) error {
	_, err := g.createNew(ctx)
	return err
}

// made is what create found or did.
type made struct {
	code  string        // of create_group.lua
	lease time.Duration // of the group, which all members agree on
	start codec.EntryID // of the group: messages of a pack below it are not its own
	after codec.EntryID // where a group that was made begins to read
}

// markTTL is how long a deleted group is marked as such: as long as a member may be out of reach and come back.
const markTTL = 24 * time.Hour

// createNew is create for whoever comes to the group.
func (g *Group) createNew(ctx context.Context) (made, error) {
	if err := g.creatable(ctx); err != nil {
		return made{}, err
	}
	return g.create(ctx, false, g.cfg.Lease)
}

// create makes the group unless it is there; lost says that it was, with a lease. docs/architecture.md has the table.
func (g *Group) create(ctx context.Context, lost bool, lease time.Duration) (made, error) {
	wasThere := "0"
	if lease == 0 {
		lease = DefaultLease
	}
	if lost {
		wasThere = "1"
	}
	a := g.place.addr
	m, err := g.place.client.Run(ctx, tier.Call{
		Script: createGroupScript,
		Keys:   []string{a.LogKey(), a.GroupKey(g.cfg.Name), tier.ScopeKey(a.Scope), a.OwnersKey(g.cfg.Name), a.RetryKey(g.cfg.Name), a.OpenKey(g.cfg.Name), a.CursorsKey()},
		Args: []string{
			tier.StreamField(a.Stream), g.cfg.Name, g.cfg.Start.after(), g.cfg.Start.at.String(), millis(lease), wasThere,
		},
	})
	if err != nil {
		return made{}, err
	}
	reply, err := tier.Texts("create_group", m, 4)
	if err != nil {
		return made{}, err
	}
	switch reply[0] {
	case "removed":
		return made{}, fmt.Errorf("%w (%s)", ErrStreamRemoved, a)
	case "cursor":
		return made{}, &NameTakenError{Stream: a.String(), Name: g.cfg.Name, By: "cursor"}
	case "deleted":
		return made{}, fmt.Errorf("%w (%s of %s)", ErrGroupDeleted, g.cfg.Name, a)
	}
	ms, err1 := strconv.ParseInt(reply[1], 10, 64)
	start, err2 := codec.ParseEntryID(reply[2])
	if err := errors.Join(err1, err2); err != nil {
		return made{}, fmt.Errorf("stream: group %s: its hash is damaged: %w", g.cfg.Name, err)
	}
	after, _ := codec.ParseEntryID(reply[3]) // empty when the group was there
	is := made{code: reply[0], lease: time.Duration(ms) * time.Millisecond, start: start, after: after}
	if is.lease < MinLease {
		return made{}, fmt.Errorf("stream: group %s: its lease of %s is below %s: delete the group, and create it with a longer one", g.cfg.Name, is.lease, MinLease)
	}
	if g.cfg.Lease != 0 && is.lease != g.cfg.Lease {
		return made{}, &LeaseDiffersError{Group: g.cfg.Name, Have: is.lease, Ask: g.cfg.Lease}
	}
	return is, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Reset moves the group to another start. What is pending is forgotten, its number is returned; members at work are
// refused once and go on from the new start.
//
// Errors: tier.ErrNoGroup, *FutureStartError, *ArchivedStartError.
func (g *Group) Reset(ctx context.Context, start Start) (forgotten int, err error) {
	if start.kind == startNone {
		return 0, fmt.Errorf("%w: reset of group %s: declare where it starts", ErrBadCall, g.cfg.Name)
	}
	if err := g.startable(ctx, start); err != nil {
		return 0, err
	}
	m, err := g.place.client.Run(ctx, tier.Call{
		Script: resetGroupScript,
		Keys:   g.keys(),
		Args:   []string{g.cfg.Name, start.after(), start.at.String()},
	})
	if err != nil {
		return 0, err
	}
	n, err := m.AsInt64()
	if err == nil && n < 0 {
		return 0, g.absent("reset_group")
	}
	return int(n), err
}

// Delete deletes the group; members at work end with ErrGroupDeleted. Its dead letters stay.
func (g *Group) Delete(ctx context.Context) error {
	_, err := g.place.client.Run(ctx, tier.Call{Script: deleteGroupScript, Keys: g.keys(), Args: []string{g.cfg.Name, millis(markTTL)}})
	return err
}

func (g *Group) absent(op string) error {
	return &tier.Error{Op: op, Key: g.place.addr.GroupKey(g.cfg.Name), Class: tier.ErrNoGroup, Err: errors.New("create the group, or check its name")}
}

func (g *Group) keys() []string {
	a := g.place.addr
	return []string{a.LogKey(), a.GroupKey(g.cfg.Name), a.OwnersKey(g.cfg.Name), a.RetryKey(g.cfg.Name), a.OpenKey(g.cfg.Name)}
}
