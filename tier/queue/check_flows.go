package queue

import (
	"context"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// flows audits who waits for children, and with a walk over the keys of the server what is kept of children.
func (c *check) flows(ctx context.Context) error {
	stuck, err := Stuck(ctx, c.client, string(c.queue))
	if err != nil {
		return err
	}
	for _, p := range stuck {
		if p.Why != "" {
			c.broken(c.queue.JobsKey(), "%s %s", p.ID, p.Why)
		}
		for _, child := range p.Children {
			if child.Lost {
				c.broken(c.queue.ChildrenKey(p.ID.String()), "waits for %s of %s: %s", child.ID, child.Queue, child.Why)
			}
		}
	}
	above := strings.TrimSuffix(c.queue.ChildrenKey(""), ":")
	keys, err := c.client.KeysBelow(ctx, above)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := c.childrenOf(ctx, key, strings.TrimPrefix(key, above+":")); err != nil {
			return err
		}
	}
	return nil
}

// childrenOf audits that what is kept of children has a parent, or that the outbox tells to delete it.
func (c *check) childrenOf(ctx context.Context, key, parent string) error {
	rows, err := rowsOf(ctx, c.client, c.queue, []string{parent})
	if err != nil || rows[0] != "" {
		return err
	}
	mails, err := readOutbox(ctx, c.client, c.queue)
	if err != nil {
		return err
	}
	if _, told := mails[parent]; told {
		return nil
	}
	m, err := c.client.Do(ctx, key, c.client.B().Exists().Key(key).Build())
	if err != nil {
		return err
	}
	if n, err := m.AsInt64(); err != nil || n == 0 {
		return tier.Wrap("EXISTS", key, err)
	}
	c.broken(key, "is kept of the children of a job that is no more")
	return nil
}
