package tier

import (
	"context"

	"github.com/redis/rueidis"
)

// Field is the value of a field of a state, if it has one.
type Field struct {
	Value string
	OK    bool
}

// StateFields reads fields of a state that is a hash, in their order.
func (c *Client) StateFields(ctx context.Context, scope, state string, fields ...string) ([]Field, error) {
	key := StateKey(scope, state)
	m, err := c.Do(ctx, key, c.B().Hmget().Key(key).Field(fields...).Build())
	if err != nil {
		return nil, err
	}
	replies, err := Parts("HMGET", m, len(fields))
	if err != nil {
		return nil, err
	}
	values := make([]Field, len(replies))
	for i, reply := range replies {
		text, err := reply.ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, Wrap("HMGET", key, err)
		}
		values[i] = Field{text, err == nil}
	}
	return values, nil
}

// StateAll reads all fields of a state that is a hash; the reply is as large as the state.
func (c *Client) StateAll(ctx context.Context, scope, state string) (map[string]string, error) {
	key := StateKey(scope, state)
	m, err := c.Do(ctx, key, c.B().Hgetall().Key(key).Build())
	if err != nil {
		return nil, err
	}
	all, err := m.AsStrMap()
	return all, Wrap("HGETALL", key, err)
}

// DeleteStates deletes states of a scope, and returns how many there were.
func (c *Client) DeleteStates(ctx context.Context, scope string, states ...string) (int64, error) {
	keys := make([]string, len(states))
	for i, state := range states {
		keys[i] = StateKey(scope, state)
	}
	m, err := c.Do(ctx, keys[0], c.B().Unlink().Key(keys...).Build())
	if err != nil {
		return 0, err
	}
	return m.AsInt64()
}
