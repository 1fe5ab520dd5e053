package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Undrained is what a group or cursor has not handled yet of a stream in one partition.
type Undrained struct {
	Stream  tier.Address
	Name    string
	Lag     int64 // entries that it has not read
	Pending int64 // that it has read and not settled
	Parked  int64
}

// Change is a change of the number of partitions, as it is planned.
type Change struct {
	Scope    string
	From, To int
	// Begun: a call before has closed partitions already. Back: that one was to another number, and this one calls it off.
	Begun, Back bool
	// Undrained is what there is to handle before the new partitions are opened; nothing when it goes back.
	Undrained []Undrained
}

// Repartition changes the number of partitions of a scope. Almost every key moves to another partition, and its order is kept:
//
//  1. All partitions are closed. From then on every append by the old number is refused, and none by the new one is possible: writers
//     wait, at most their RetryFor.
//  2. Groups and cursors handle what is left, in all streams of all partitions. Owners of partitions stay at work.
//  3. The partitions are opened by the new number. What a smaller number leaves behind is empty for them; it can be read, and is
//     used again when the number grows.
//
// Each step is told as it is waited for, with what is not drained yet. When ctx ends, or the caller does, the partitions stay closed: call it
// again with the same number to go on, or with the number from before to go back, which waits for nothing. A group or cursor that nobody
// runs any more keeps it waiting: run it, or delete it.
//
// Errors: ErrBadCall, ErrNotPartitioned, ErrPartitioned when it is being changed to a third number, tier.ErrScopesExhausted.
func Repartition(ctx context.Context, client *tier.Client, scope string, count int, waiting func([]Undrained)) error {
	change, err := PlanRepartition(ctx, client, scope, count)
	if err != nil {
		return err
	}
	p := &partitions{client, scope}
	want, span := tier.Layout{Count: count}, max(change.From, change.To)
	have := tier.Layout{Count: change.From}
	switch {
	case change.Back:
		have.Count, have.Next = change.To, change.From
	case change.From != change.To:
		closed := tier.Layout{Count: change.From, Next: count}
		if change.Begun {
			have = closed
		}
		if err := p.mark(ctx, have, closed); err != nil {
			return err
		}
		if err := p.close(ctx, closed); err != nil {
			return err
		}
		if err := p.drain(ctx, span, waiting); err != nil {
			return fmt.Errorf("stream: repartition %s: its partitions are closed: %s: %w", scope, endChange(scope, closed), err)
		}
		have = closed
	}
	if err := p.mark(ctx, have, want); err != nil {
		return err
	}
	return p.open(ctx, want, span)
}

// PlanRepartition says what Repartition would do, and changes nothing.
func PlanRepartition(ctx context.Context, client *tier.Client, scope string, count int) (Change, error) {
	if err := checkCount(scope, count); err != nil {
		return Change{}, err
	}
	p := &partitions{client, scope}
	have, err := p.layout(ctx)
	if err != nil {
		return Change{}, err
	}
	c := Change{Scope: scope, From: have.Count, To: count, Begun: have.Next != 0}
	switch {
	case have.Count == 0:
		return c, fmt.Errorf("%w (scope %s)", ErrNotPartitioned, scope)
	case have.Next == 0 || have.Next == count:
	case have.Count == count:
		c.From, c.Back = have.Next, true
		return c, nil
	default:
		return c, fmt.Errorf("%w: scope %s is being changed from %d to %d partitions: wait for that, or %s", ErrPartitioned, scope, have.Count, have.Next, endChange(scope, have))
	}
	if c.From == c.To {
		return c, nil
	}
	c.Undrained, _, err = p.undrained(ctx, have.Span())
	return c, err
}

// drainTick is how often it is looked whether partitions are drained.
const drainTick = 250 * time.Millisecond

// drain waits until nothing is left to handle, twice with nothing appended in between: what one group handles may be appended for
// another.
func (p *partitions) drain(ctx context.Context, span int, waiting func([]Undrained)) error {
	for before := int64(-1); ; {
		left, added, err := p.undrained(ctx, span)
		if err != nil {
			return err
		}
		if len(left) == 0 && added == before {
			return nil
		}
		before = added
		if len(left) == 0 {
			continue
		}
		if waiting != nil {
			waiting(left)
		}
		if !tier.Pause(ctx, drainTick) {
			return context.Cause(ctx)
		}
	}
}

// undrained lists what is left, and counts what was ever appended.
func (p *partitions) undrained(ctx context.Context, span int) (left []Undrained, added int64, err error) {
	all := cursorsLeft{map[string]map[string]bool{}, nil, map[tier.Address]map[string]bool{}}
	for k := range span {
		for info, err := range Streams(ctx, p.client, tier.PartitionScope(p.scope, k)) {
			if err != nil {
				return nil, 0, err
			}
			added += info.Added
			if info.Removed {
				continue
			}
			groups, err := Groups(ctx, p.client, info.Address.String())
			if err != nil {
				return nil, 0, err
			}
			for _, g := range groups {
				if !g.OldestUnread.IsZero() || g.Pending > 0 || g.Parked > 0 {
					left = append(left, Undrained{info.Address, g.Name, g.Lag, g.Pending, g.Parked})
				}
			}
			cursors, err := all.add(ctx, p.client, &info)
			if err != nil {
				return nil, 0, err
			}
			left = append(left, cursors...)
		}
	}
	return append(left, all.missing()...), added, nil
}
