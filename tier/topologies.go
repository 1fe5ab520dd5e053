package tier

import (
	"context"
	"strings"
)

// Declared is what a topology has declared of a thing: "stream:shop/orders".
type Declared struct {
	Topology string // whose it is
	Text     string // how it was declared the last time, in words of the topology's
}

func (d Declared) value() string { return d.Topology + " " + d.Text }

// Declarations are all that topologies have declared on the deployment, by name.
func (c *Client) Declarations(ctx context.Context) (map[string]Declared, error) {
	all := map[string]Declared{}
	err := c.ScanHash(ctx, TopologiesKey, func(field, value string) {
		topology, text, _ := strings.Cut(value, " ")
		all[field] = Declared{topology, text}
	})
	return all, err
}

// Declare notes what a topology declares of a thing, unless that is another one's. It returns whose it is.
func (c *Client) Declare(ctx context.Context, name string, d Declared) (holder string, err error) {
	m, err := c.Do(ctx, TopologiesKey, c.B().Hsetnx().Key(TopologiesKey).Field(name).Value(d.value()).Build())
	if err != nil {
		return "", err
	}
	if n, err := m.AsInt64(); err != nil || n == 1 {
		return d.Topology, err
	}
	if m, err = c.Do(ctx, TopologiesKey, c.B().Hget().Key(TopologiesKey).Field(name).Build()); err != nil {
		return "", err
	}
	value, _ := m.ToString() // nil: it was given up since, and is not ours
	if holder, _, _ = strings.Cut(value, " "); holder != d.Topology || value == d.value() {
		return holder, nil
	}
	_, err = c.Do(ctx, TopologiesKey, c.B().Hset().Key(TopologiesKey).FieldValue().FieldValue(name, d.value()).Build())
	return holder, err
}

// Disown forgets what topologies have declared of a thing, which is nobody's then.
func (c *Client) Disown(ctx context.Context, name string) error {
	_, err := c.Do(ctx, TopologiesKey, c.B().Hdel().Key(TopologiesKey).Field(name).Build())
	return err
}
