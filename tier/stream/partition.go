package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

var (
	// ErrScopeUsed: the scope cannot have partitions, or be one, since it is used otherwise.
	ErrScopeUsed = errors.New("stream: the scope is used otherwise: take another name, or remove its streams first ('pipeline stream rm')")
	// errChanged: two calls change the partitions of a scope at the same time.
	errChanged = errors.New("somebody else changes the partitions at the same time: look at 'pipeline scope show', and try again")
)

// Partition gives a scope its number of partitions, 1 to 256: "shop" is "shop.0" to "shop.<count-1>" from then on. Each takes
// one of the deployment's 512 node numbers, and so does the scope; none of them may hold anything else. It goes scope by scope,
// each on a slot of its own: one that ended half way goes on when it is called again, and until then no writer starts. It
// changes nothing when all is as it should be.
//
// Errors: ErrBadCall, ErrScopeUsed, tier.ErrScopesExhausted; ErrPartitioned when it has another number, which Repartition
// changes.
func Partition(ctx context.Context, client *tier.Client, scope string, count int) error {
	if err := checkCount(scope, count); err != nil {
		return err
	}
	p := &partitions{client, scope}
	have, err := p.layout(ctx)
	switch {
	case err != nil:
		return err
	case have.Next != 0 || have.Count != 0 && have.Count != count:
		return fmt.Errorf("%w: scope %s has %s partitions: Repartition changes that", ErrPartitioned, scope, have)
	case have.Count == 0:
		if err := p.free(ctx, count); err != nil {
			return err
		}
	}
	// The scope first: from here on nobody puts a stream into it, and a writer finds out which partitions are missing.
	if err := p.mark(ctx, have, tier.Layout{Count: count}); err != nil {
		return err
	}
	return p.open(ctx, tier.Layout{Count: count}, count)
}

// Partitions is how many partitions a scope has; the zero Layout: it is not partitioned.
func Partitions(ctx context.Context, client *tier.Client, scope string) (tier.Layout, error) {
	if err := tier.CheckName("scope", scope); err != nil {
		return tier.Layout{}, err
	}
	return (&partitions{client, scope}).layout(ctx)
}

func checkCount(scope string, count int) error {
	if count < 1 || count > codec.MaxPartitions {
		return fmt.Errorf("%w: %d partitions: 1 to %d, since each takes one of the deployment's %d node numbers for scopes", ErrBadCall, count, codec.MaxPartitions, tier.MaxScopes)
	}
	if err := tier.CheckName("scope", scope); err != nil {
		return err
	}
	return tier.CheckName("scope", tier.PartitionScope(scope, codec.MaxPartitions-1))
}

// partitions are those of a scope.
type partitions struct {
	client *tier.Client
	scope  string
}

func (p *partitions) layout(ctx context.Context) (tier.Layout, error) {
	text, err := hashField(ctx, p.client, tier.ScopeKey(p.scope), tier.PartitionsField)
	if err != nil || text == "" {
		return tier.Layout{}, err
	}
	return tier.ParseLayout(text)
}

// part is the mark of one partition; the zero one: it has none.
func (p *partitions) part(ctx context.Context, k int) (tier.Partition, error) {
	text, err := hashField(ctx, p.client, tier.ScopeKey(tier.PartitionScope(p.scope, k)), tier.PartitionField)
	if err != nil || text == "" {
		return tier.Partition{}, err
	}
	return tier.ParsePartition(text)
}

// hashField is empty when there is none.
func hashField(ctx context.Context, client *tier.Client, key, field string) (string, error) {
	m, err := client.Do(ctx, key, client.B().Hget().Key(key).Field(field).Build())
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return m.ToString()
}

// free refuses scopes that are used otherwise before any is marked. Who uses one in between is found by its script.
func (p *partitions) free(ctx context.Context, count int) error {
	if err := p.empty(ctx, p.scope); err != nil {
		return err
	}
	for k := range count {
		mark, err := p.part(ctx, k)
		if err == nil && mark.Of == "" {
			err = p.empty(ctx, tier.PartitionScope(p.scope, k))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *partitions) empty(ctx context.Context, scope string) error {
	rows, err := streamRows(ctx, p.client, scope)
	for _, row := range rows {
		if d, _ := parseDeclaration(row.declaration); !d.removed {
			return fmt.Errorf("%w (scope %s has stream %s)", ErrScopeUsed, scope, row.stream)
		}
	}
	return err
}

// mark gives the scope a layout.
func (p *partitions) mark(ctx context.Context, before, want tier.Layout) error {
	if _, err := p.client.ScopeNode(ctx, p.scope); err != nil {
		return err
	}
	return p.run(ctx, partitionsScript, p.scope, want.String(), textOf(before))
}

// set gives a partition a layout.
func (p *partitions) set(ctx context.Context, k int, before, want tier.Layout) error {
	scope := tier.PartitionScope(p.scope, k)
	if _, err := p.client.ScopeNode(ctx, scope); err != nil {
		return err
	}
	return p.run(ctx, partitionScript, scope, p.scope, strconv.Itoa(k), want.String(), textOf(before))
}

func textOf(l tier.Layout) string {
	if l.Count == 0 {
		return ""
	}
	return l.String()
}

func (p *partitions) run(ctx context.Context, script *tier.Script, scope string, args ...string) error {
	m, err := p.client.Run(ctx, tier.Call{Script: script, Keys: []string{tier.ScopeKey(scope)}, Args: args})
	if err != nil {
		return err
	}
	reply, err := tier.Texts(script.Name, m, 2)
	if err != nil {
		return err
	}
	switch reply[0] {
	case "used":
		return fmt.Errorf("%w (scope %s has stream %s)", ErrScopeUsed, scope, reply[1])
	case "partition":
		return fmt.Errorf("%w (scope %s is a partition: %s)", ErrScopeUsed, scope, reply[1])
	case "partitioned":
		return fmt.Errorf("%w (scope %s has %s partitions itself)", ErrScopeUsed, scope, reply[1])
	case "layout":
		return fmt.Errorf("stream: partition %s: it has %q: %w", scope, reply[1], errChanged)
	}
	return nil
}

// open lets writers append by a layout, in each of the scopes that it takes or took.
func (p *partitions) open(ctx context.Context, want tier.Layout, span int) error {
	for k := range span {
		have, err := p.part(ctx, k)
		if err != nil {
			return err
		}
		if have.Next != 0 { // somebody may be closing it just now
			if now, err := p.layout(ctx); err != nil || now != want {
				return errors.Join(err, fmt.Errorf("stream: partition %s: %w", p.scope, errChanged))
			}
		}
		if !opens(have, want) {
			return fmt.Errorf("stream: partition %s: it is marked as %q: run 'pipeline check %s'", tier.PartitionScope(p.scope, k), have, p.scope)
		}
		if err := p.set(ctx, k, have.Layout, want); err != nil {
			return err
		}
	}
	return nil
}

// close refuses writers from here on, in each of the scopes that the change takes.
func (p *partitions) close(ctx context.Context, change tier.Layout) error {
	for k := range change.Span() {
		have, err := p.part(ctx, k)
		if err != nil {
			return err
		}
		if !closes(have, change) {
			return fmt.Errorf("stream: partition %s: it is marked as %q: %w", tier.PartitionScope(p.scope, k), have, errChanged)
		}
		if err := p.set(ctx, k, have.Layout, change); err != nil {
			return err
		}
	}
	return nil
}

// closes reports whether a partition may be closed for a change: it is new, was left behind by an earlier one, is open by the
// layout before, or was never opened by it, or is closed already.
func closes(have tier.Partition, change tier.Layout) bool {
	before := tier.Layout{Count: change.Count}
	return have.Count == 0 || leftBehind(have) || have.Layout == before || have.Layout == change || have.Next == change.Count
}

// opens reports whether a partition may be opened for a layout: it is new, was left behind by an earlier change, is closed for
// the change to this layout or for one from it that was called off, or is open already.
func opens(have tier.Partition, want tier.Layout) bool {
	return have.Count == 0 || leftBehind(have) || have.Layout == want || have.Next == want.Count || have.Next != 0 && have.Count == want.Count
}

// leftBehind: the last change took the partition out.
func leftBehind(p tier.Partition) bool { return p.Count != 0 && p.Next == 0 && p.Index >= p.Count }
