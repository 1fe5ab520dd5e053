package bridge

import (
	"context"
	"crypto/rand"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// delivered is the key of a message's context under which its id is.
type delivered struct{}

// KeyRepository is an ExpiringKeyRepository for Watermill's Deduplicator, shared by all processes, whose window is by the
// server's clock. A message that this package's Subscriber gave out is no duplicate of itself: when it was nacked, or its
// process died, it is handled again, whatever was noted the first time.
type KeyRepository struct{ seen *stream.Seen }

// NewKeyRepository checks the configuration. It sends nothing. Handlers that dedup apart have a Name each.
//
// Errors: *tier.NameError, stream.ErrBadCall for a window out of its bounds.
func NewKeyRepository(client *tier.Client, cfg stream.SeenConfig) (*KeyRepository, error) {
	seen, err := stream.NewSeen(client, cfg)
	if err != nil {
		return nil, err
	}
	return &KeyRepository{seen}, nil
}

// IsDuplicate notes the key, and says whether another message had it in the window before. Ctx is the message's, as the
// Deduplicator gives it; with another one, every call is another message's.
func (r *KeyRepository) IsDuplicate(ctx context.Context, key string) (bool, error) {
	who, ok := ctx.Value(delivered{}).(string)
	if !ok {
		who = rand.Text()
	}
	first, err := r.seen.First(ctx, key, who)
	return !first && err == nil, err
}
