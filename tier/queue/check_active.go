package queue

import (
	"context"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// active checks what is counted of active jobs where the queue has a ceiling; lanes that are gone, too.
func (c *check) active(ctx context.Context) error {
	key := c.queue.ActiveKey()
	m, err := c.client.Do(ctx, key, c.client.B().Hgetall().Key(key).Build())
	if err != nil {
		return err
	}
	fields, err := m.AsStrMap()
	if err != nil {
		return tier.Wrap("HGETALL", key, err)
	}
	total, _, capped := strings.Cut(fields[""], " ")
	delete(fields, "")
	sum := 0
	for lane, text := range fields {
		n, err := strconv.Atoi(text)
		if sum += n; err != nil || tier.CheckName("lane", lane) != nil {
			c.broken(key, "%.128s holds %.32q, not how many jobs of a lane are active", lane, text)
		} else if err := c.lane(ctx, lane); err != nil {
			return err
		}
	}
	if have, err := strconv.Atoi(total); capped && (err != nil || have != sum) || !capped && len(fields) > 0 {
		c.broken(key, "counts %.32q active jobs, and those of the lanes are %d", total, sum)
	}
	return nil
}
