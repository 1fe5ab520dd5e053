package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ChildOutcome is what a child of a flow has come to. The first one counts: a dead job that is tried again tells its parent nothing
// more.
type ChildOutcome string

// The outcomes of a child.
const (
	ChildOpen      ChildOutcome = "open" // it has not ended
	ChildCompleted ChildOutcome = "completed"
	ChildDead      ChildOutcome = "dead"
	ChildCancelled ChildOutcome = "cancelled"
	ChildExpired   ChildOutcome = "expired"
	ChildRemoved   ChildOutcome = "removed"
)

// Child is what a job knows of one of its children.
type Child struct {
	ID      codec.ID
	Queue   string
	Policy  Policy
	Outcome ChildOutcome
	Result  []byte // of a completed one, nil when it had none
	Reason  string // of one that ended otherwise
}

// openField counts the open children, in the hash of them.
const openField = "open"

// Children tells what has become of a job's children, in no order; there are none of a job that had none. They are known until
// the job is done or removed: to its handler, too, and for as long as it is dead.
//
// Errors: ErrNoJob, when the job is done, or never was.
func (c *Client) Children(ctx context.Context, parent codec.ID) ([]Child, error) {
	fields, err := children(ctx, c.client, c.queue, parent.String())
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, c.exists(ctx, parent)
	}
	list := make([]Child, 0, len(fields)-1)
	for field, text := range fields {
		if field == openField {
			continue
		}
		child, err := parseChild(field, text)
		if err != nil {
			return nil, fmt.Errorf("queue: %s: %w", c.queue.ChildrenKey(parent.String()), err)
		}
		list = append(list, child)
	}
	return list, nil
}

// ChildrenValues are the results of those children of a job that have completed. Errors are those of Children.
func (c *Client) ChildrenValues(ctx context.Context, parent codec.ID) (map[codec.ID][]byte, error) {
	list, err := c.Children(ctx, parent)
	if err != nil {
		return nil, err
	}
	values := map[codec.ID][]byte{}
	for i := range list {
		if list[i].Outcome == ChildCompleted {
			values[list[i].ID] = list[i].Result
		}
	}
	return values, nil
}

// OpenChildren is how many children of a job have not ended. Errors are those of Children.
func (c *Client) OpenChildren(ctx context.Context, parent codec.ID) (int, error) {
	key := c.queue.ChildrenKey(parent.String())
	m, err := c.client.Do(ctx, key, c.client.B().Hget().Key(key).Field(openField).Build())
	if rueidis.IsRedisNil(err) {
		return 0, c.exists(ctx, parent)
	}
	if err != nil {
		return 0, err
	}
	n, err := m.AsInt64()
	return int(n), err
}

func (c *Client) exists(ctx context.Context, id codec.ID) error {
	rows, err := rowsOf(ctx, c.client, c.queue, []string{id.String()})
	if err == nil && rows[0] == "" {
		err = fmt.Errorf("%w (%s in %s)", ErrNoJob, id, c.queue)
	}
	return err
}

func children(ctx context.Context, client *tier.Client, q tier.Queue, parent string) (map[string]string, error) {
	key := q.ChildrenKey(parent)
	m, err := client.Do(ctx, key, client.B().Hgetall().Key(key).Build())
	if err != nil {
		return nil, err
	}
	return m.AsStrMap()
}

// parseChild reads '<queue> <policy> <outcome> <text>'.
func parseChild(id, text string) (c Child, err error) {
	if c.ID, err = codec.Parse(id); err != nil {
		return c, err
	}
	words := strings.SplitN(text, " ", 4)
	if len(words) != 4 || len(words[1]) != 4 {
		return c, fmt.Errorf("%s is %.64q, which is no child", id, text)
	}
	e := func(i int) Effect { return Effect(words[1][i : i+1]) }
	c.Queue, c.Policy, c.Outcome = words[0], Policy{Dead: e(0), Cancelled: e(1), Expired: e(2), Removed: e(3)}, ChildOutcome(words[2])
	switch {
	case c.Outcome != ChildCompleted:
		c.Reason = words[3]
	case words[3] != "":
		c.Result = []byte(words[3])
	}
	return c, nil
}
