package tier

import (
	"context"
	"strings"
)

// dropPage is how many keys one call deletes.
const dropPage = 250

// DropScope deletes all keys of a scope, and gives its number in the registry back. Another scope may get the number, and
// with it ids that were given before: so it is for a scope whose ids nobody keeps, and which nobody reads or writes any
// more, such as that of a measurement. It walks over all keys of the node that serves the scope, as KeysBelow does. It can
// be repeated after a failure.
//
// Errors: ErrName.
func (c *Client) DropScope(ctx context.Context, scope string) error {
	if err := CheckName("scope", scope); err != nil {
		return err
	}
	keys, err := c.KeysBelow(ctx, strings.TrimSuffix(ScopePattern(scope), ":*"))
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		page := keys[:min(len(keys), dropPage)]
		if _, err := c.Do(ctx, page[0], c.B().Del().Key(page...).Build()); err != nil {
			return err
		}
		keys = keys[len(page):]
	}
	number, err := c.RegisteredNode(ctx, scope)
	if err != nil || number < 0 {
		return err
	}
	_, err = c.Do(ctx, NodesKey, c.B().Hdel().Key(NodesKey).Field(ScopeNumberField(scope), NumberField(number)).Build())
	if err == nil {
		c.forget(scope)
	}
	return err
}

func (c *Client) forget(scope string) {
	c.numbersMu.Lock()
	defer c.numbersMu.Unlock()
	delete(c.numbers, scope)
}
