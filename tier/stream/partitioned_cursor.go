package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/tier"
)

// PartitionedCursor is a cursor of one name in each partition of a stream, and who takes part in owning them. That a member is
// there is only said, by beats in partition 0: who owns a partition is what its cursor says.
type PartitionedCursor struct {
	client *tier.Client
	addr   tier.Address // of the whole
	cfg    CursorConfig
}

// NewPartitionedCursor checks the configuration, whose Address names the whole, "shop/orders". It sends nothing.
func NewPartitionedCursor(client *tier.Client, cfg CursorConfig) (*PartitionedCursor, error) {
	if _, err := NewCursor(client, cfg); err != nil {
		return nil, err
	}
	addr, err := tier.ParseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	return &PartitionedCursor{client, addr, cfg}, nil
}

// Name of the cursors.
func (c *PartitionedCursor) Name() string { return c.cfg.Name }

// Address of the whole stream.
func (c *PartitionedCursor) Address() tier.Address { return c.addr }

// Lease of the cursors, and how long a member may be silent.
func (c *PartitionedCursor) Lease() time.Duration { return c.cfg.Lease }

// Partition is the cursor of one partition.
func (c *PartitionedCursor) Partition(k int) (*Cursor, error) {
	cfg := c.cfg
	cfg.Address = tier.Address{Scope: tier.PartitionScope(c.addr.Scope, k), Stream: c.addr.Stream}.String()
	return NewCursor(c.client, cfg)
}

// Join makes the name of a member that no other has. It sends nothing.
func (c *PartitionedCursor) Join(prefix string) (string, error) {
	return memberName(prefix)
}

// Attend says that a member is there, and answers who is, itself too, and how many partitions there are to own: while their number
// is changed, those that go and those that come.
//
// Errors: ErrNotPartitioned.
func (c *PartitionedCursor) Attend(ctx context.Context, member string) (there []string, partitions int, err error) {
	layout, err := Partitions(ctx, c.client, c.addr.Scope)
	if err == nil && layout.Count == 0 {
		err = fmt.Errorf("%w (scope %s)", ErrNotPartitioned, c.addr.Scope)
	}
	if err != nil {
		return nil, 0, err
	}
	there, err = c.attend(ctx, member, "0")
	return there, layout.Span(), err
}

// Leave says that a member is no longer there.
func (c *PartitionedCursor) Leave(ctx context.Context, member string) error {
	_, err := c.attend(ctx, member, "1")
	return err
}

func (c *PartitionedCursor) attend(ctx context.Context, member, leaves string) ([]string, error) {
	first := tier.Address{Scope: tier.PartitionScope(c.addr.Scope, 0), Stream: c.addr.Stream}
	m, err := c.client.Run(ctx, tier.Call{
		Script: attendScript, Keys: []string{first.MembersKey(c.cfg.Name)},
		Args: []string{member, strconv.FormatInt(c.cfg.Lease.Milliseconds(), 10), leaves},
	})
	if err != nil {
		return nil, err
	}
	return m.AsStrSlice()
}

// cursorsLeft finds the cursors that have something left to handle: whose checkpoint is not at the end of a log as it was before, or
// that have parked entries. One that is in some partition counts in all: where it is not yet, all is left to it.
type cursorsLeft struct {
	names map[string]map[string]bool // by stream
	logs  []Info
	has   map[tier.Address]map[string]bool
}

func (l *cursorsLeft) add(ctx context.Context, client *tier.Client, was *Info) (left []Undrained, err error) {
	list, err := Cursors(ctx, client, was.Address.String())
	if errors.Is(err, ErrNoStream) || errors.Is(err, ErrStreamRemoved) {
		return nil, nil
	}
	name := was.Address.Stream
	if l.names[name] == nil {
		l.names[name] = map[string]bool{}
	}
	l.logs, l.has[was.Address] = append(l.logs, *was), map[string]bool{}
	for _, c := range list {
		l.names[name][c.Name], l.has[was.Address][c.Name] = true, true
		if was.Length > 0 && c.Checkpoint.Compare(was.Last) < 0 || c.Parked > 0 {
			left = append(left, Undrained{Stream: was.Address, Name: c.Name, Lag: max(c.Lag, 1), Parked: c.Parked})
		}
	}
	return left, err
}

// missing are those of cursors that a partition with entries does not have yet.
func (l *cursorsLeft) missing() (left []Undrained) {
	for _, log := range l.logs {
		for name := range l.names[log.Address.Stream] {
			if log.Length > 0 && !l.has[log.Address][name] {
				left = append(left, Undrained{Stream: log.Address, Name: name, Lag: log.Length})
			}
		}
	}
	return left
}
