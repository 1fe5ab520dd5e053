package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

// SeenConfig names a set of keys. All of it is needed.
type SeenConfig struct {
	// Scope holds the set.
	Scope string
	// Name of the set: keys of different sets are different keys.
	Name string
	// Window is how long a key counts as seen, by the server's clock, from MinWindow to MaxWindow.
	Window time.Duration
}

// Seen remembers keys for a window, for all who share the scope. It is what AppendOnce does without a message: for who has to know
// what was seen, not to append it. It is safe for concurrent use.
type Seen struct {
	client *tier.Client
	cfg    SeenConfig
}

// NewSeen checks the configuration. It sends nothing.
func NewSeen(client *tier.Client, cfg SeenConfig) (*Seen, error) {
	if err := tier.CheckName("scope", cfg.Scope); err != nil {
		return nil, err
	}
	if err := tier.CheckName("set of keys", cfg.Name); err != nil {
		return nil, err
	}
	if cfg.Window < MinWindow || cfg.Window > MaxWindow {
		return nil, fmt.Errorf("%w: a window of %s: from %s to %s", ErrBadCall, cfg.Window, MinWindow, MaxWindow)
	}
	return &Seen{client, cfg}, nil
}

// First notes a key, and says whether it was not seen in the window before, or only by the same who: so whoever asks again, after a
// lost reply or a failure of the work, is still the first. The window of the first counts, and is not prolonged. The key is any
// text but the empty one; who as well, and at most 1024 bytes.
func (s *Seen) First(ctx context.Context, key, who string) (bool, error) {
	if key == "" || who == "" || len(who) > 1024 {
		return false, fmt.Errorf("%w: First needs a key, and who asks in 1 to 1024 bytes", ErrBadCall)
	}
	at := tier.NotedKey(s.cfg.Scope, s.cfg.Name, key)
	m, err := s.client.Do(ctx, at, s.client.B().Set().Key(at).Value(who).Nx().Get().PxMilliseconds(s.cfg.Window.Milliseconds()).Build())
	if rueidis.IsRedisNil(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	before, err := m.ToString()
	return before == who, err
}
