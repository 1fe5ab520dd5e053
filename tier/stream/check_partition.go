package stream

import (
	"cmp"
	"context"

	"github.com/echomq/pipeline/tier"
)

// partitions checks that a partitioned scope and its partitions say the same of each other, and of the streams in them.
func (c *check) partitions(ctx context.Context) error {
	if text, ok := c.row[tier.PartitionsField]; ok {
		if err := c.partitioned(ctx, text); err != nil {
			return err
		}
	}
	if text, ok := c.row[tier.PartitionField]; ok {
		return c.partition(ctx, text)
	}
	return nil
}

// partitioned audits the marks of the partitions of the scope.
func (c *check) partitioned(ctx context.Context, text string) error {
	layout, err := tier.ParseLayout(text)
	if err != nil {
		c.broken(tier.ScopeKey(c.scope), "%v", err)
		return nil
	}
	p := &partitions{c.client, c.scope}
	for k := range layout.Span() {
		key := tier.ScopeKey(tier.PartitionScope(c.scope, k))
		have, err := p.part(ctx, k)
		switch {
		case tier.Classify(err) != nil:
			return err
		case err != nil:
			c.broken(key, "%v", err)
		case have.Layout != layout:
			c.broken(key, "is marked as %q, and its scope has %s partitions: end the change with 'pipeline scope partition %s --count %d'",
				have, layout, c.scope, cmp.Or(layout.Next, layout.Count))
		}
	}
	return nil
}

// partition audits the mark of the scope as a partition of another.
func (c *check) partition(ctx context.Context, text string) error {
	key := tier.ScopeKey(c.scope)
	mark, err := tier.ParsePartition(text)
	if err != nil {
		c.broken(key, "%v", err)
		return nil
	}
	if mark.Scope() != c.scope {
		c.broken(key, "is marked as partition %d of %s, which would be %s", mark.Index, mark.Of, mark.Scope())
	}
	for field, value := range c.row {
		if name, ok := tier.StreamOfField(field); ok {
			if d, _ := parseDeclaration(value); !d.removed && d.mark != mark.Declaration() {
				c.broken(key, "stream %s is declared as %q in partition %q", name, value, mark)
			}
		}
	}
	layout, err := (&partitions{c.client, mark.Of}).layout(ctx)
	switch {
	case tier.Classify(err) != nil:
		return err
	case err != nil || layout.Count == 0:
		c.broken(key, "is marked as a partition of %s, which has none", mark.Of)
	}
	return nil
}
