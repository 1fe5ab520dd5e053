package tier

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Wire is the version of keys and messages that this package speaks. The EchoMQ of other languages with the same wire
// compares it strictly.
const Wire = "echomq:3.0.0"

// VersionError says that the deployment speaks another wire version.
type VersionError struct {
	Found string // what stands at VersionKey
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("tier: the server holds data of %q, this program speaks %q: use a program of that version, or another server", e.Found, Wire)
}

// behindFence makes a call whose connection was made before the fence was last compared. The client library connects
// when a call needs it: the first try is refused a new connection, so that the fence can be compared before the second.
func (c *Client) behindFence(ctx context.Context, call func(context.Context) error) error {
	if err := c.checkFence(ctx); err != nil {
		return err
	}
	err := call(context.WithValue(ctx, noDial{}, true))
	if !errors.Is(err, errUnfenced) {
		return err
	}
	c.fenced.Store(0)
	if err := c.checkFence(ctx); err != nil {
		return err
	}
	return call(ctx)
}

// checkFence claims the version fence or compares it, whenever a connection was made or lost since it was last looked
// at: behind a new connection may stand another server, or an emptied one.
func (c *Client) checkFence(ctx context.Context) error {
	if c.gate.changes.Load() == c.fenced.Load() {
		return nil
	}
	c.fenceMu.Lock()
	defer c.fenceMu.Unlock()
	changes := c.gate.changes.Load()
	if changes == c.fenced.Load() {
		return nil
	}
	found, err := c.fence(ctx)
	if err != nil {
		return err
	}
	if !sameMajor(found, Wire) {
		return &VersionError{Found: found}
	}
	c.fenced.Store(changes)
	return nil
}

func (c *Client) fence(ctx context.Context) (string, error) {
	get := c.pipe.B().Get().Key(VersionKey)
	found, err := c.pipe.Do(ctx, get.Build()).ToString()
	if err == nil {
		return found, nil
	}
	if !isNil(err) {
		return "", Wrap("GET", VersionKey, err)
	}
	claim := c.pipe.B().Set().Key(VersionKey).Value(Wire).Nx().Build()
	if err := c.pipe.Do(ctx, claim).Error(); err != nil && !isNil(err) {
		return "", Wrap("SET", VersionKey, err)
	}
	found, err = c.pipe.Do(ctx, c.pipe.B().Get().Key(VersionKey).Build()).ToString()
	return found, Wrap("GET", VersionKey, err)
}

// sameMajor compares "name:major.minor.patch" up to the major number.
func sameMajor(a, b string) bool {
	majorA, _, _ := strings.Cut(a, ".")
	majorB, _, _ := strings.Cut(b, ".")
	return majorA == majorB
}
