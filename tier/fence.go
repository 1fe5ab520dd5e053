package tier

import (
	"context"
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

// checkFence claims the version fence or compares it, whenever a connection was made since it was last looked at: behind
// a new connection may stand another server, or an emptied one.
func (c *Client) checkFence(ctx context.Context) error {
	if c.dials.Load() == c.fenced.Load() {
		return nil
	}
	c.fenceMu.Lock()
	defer c.fenceMu.Unlock()
	dials := c.dials.Load()
	if dials == c.fenced.Load() {
		return nil
	}
	found, err := c.fence(ctx)
	if err != nil {
		return err
	}
	if !sameMajor(found, Wire) {
		return &VersionError{Found: found}
	}
	c.fenced.Store(dials)
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
