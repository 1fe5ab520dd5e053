package stream

import (
	"cmp"
	"context"

	"github.com/echomq/pipeline/tier"
)

// partitions checks that a partitioned scope and its partitions say the same of each other, and of the streams in them.
func (c *check) partitions(ctx context.Context) error {
	key := tier.ScopeKey(c.scope)
	p := &partitions{c.client, c.scope}
	if text, ok := c.row[tier.PartitionsField]; ok {
		layout, err := tier.ParseLayout(text)
		if err != nil {
			c.broken(key, "%v", err)
			return nil
		}
		for k := range layout.Span() {
			have, err := p.part(ctx, k)
			switch {
			case tier.Classify(err) != nil:
				return err
			case err != nil:
				c.broken(tier.ScopeKey(tier.PartitionScope(c.scope, k)), "%v", err)
			case have.Layout != layout:
				c.broken(tier.ScopeKey(tier.PartitionScope(c.scope, k)), "is marked as %q, and its scope has %s partitions: end the change with 'pipeline scope partition %s --count %d'",
					have, layout, c.scope, cmp.Or(layout.Next, layout.Count))
			}
		}
	}
	text, ok := c.row[tier.PartitionField]
	if !ok {
		return nil
	}
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
	p.scope = mark.Of
	layout, err := p.layout(ctx)
	switch {
	case tier.Classify(err) != nil:
		return err
	case err != nil || layout.Count == 0:
		c.broken(key, "is marked as a partition of %s, which has none", mark.Of)
	}
	return nil
}
