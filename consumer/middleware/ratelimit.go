package middleware

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// RateLimit lets as many messages of this process through as the limiter does, which may be shared with whatever else uses
// the same. A message waits for its turn, and its worker with it: while all wait for one limit, there is nothing else that
// workers could do, and what waits at the server costs nothing there. A snooze would read and park the whole backlog
// instead, again and again.
//
// A message does not wait longer than its context: when its turn would come after the context's deadline, or never since the
// limiter's burst is 0, it is snoozed until then; when the stop's time is over, it is handed back. A stop takes as long as
// the turn of those that wait, up to Config.DrainTimeout. Put [Timeout] inside, so that it measures the handler.
func RateLimit(l *rate.Limiter) (Middleware, error) {
	if l == nil {
		return nil, fmt.Errorf("%w: RateLimit needs a limiter", ErrConfig)
	}
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			if err := turn(ctx, l); err != nil {
				return WithoutEffect(err)
			}
			return next(ctx, m)
		}
	}, nil
}

// never is the pause for a turn that does not come: somebody may set the limit anew.
const never = time.Minute

// turn waits for a token.
func turn(ctx context.Context, l *rate.Limiter) error {
	r := l.Reserve()
	if !r.OK() {
		return consumer.Snooze(never)
	}
	d := r.Delay()
	if d == 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d || d > maxTurn {
		r.Cancel()
		return consumer.Snooze(min(d, maxTurn))
	}
	if !tier.Pause(ctx, d) {
		r.Cancel()
		return context.Cause(ctx)
	}
	return nil
}

// maxTurn bounds what is waited, and snoozed: a limit of 0 lets the burst through, and then nothing.
const maxTurn = time.Hour

// KeyedLimitConfig is a limit for each of many keys. Limit, Burst and Key are needed.
type KeyedLimitConfig struct {
	Limit rate.Limit // messages a second
	Burst int        // that may come at once, after a pause
	// Key is what the limit is for: a customer, a host. A message of which it is empty is not limited.
	Key func(*consumer.Delivery) string
	// MaxKeys is for how many keys a limit is kept, about 200 bytes each. Default 10,000. Those that have not used their burst are
	// forgotten, which changes nothing. While there are more, all others share one limit: never more than the limit, but
	// less.
	MaxKeys int
}

// RateLimitByKey limits the messages of each key, in this process. One that is over its limit is snoozed until its turn, behind
// those that were before: other keys go on, no worker waits, and no attempt is spent. Each is read once more, and parked
// meanwhile: with a limit far below what comes, all of a key's backlog is parked, at about 200 bytes each in the server's
// memory. The messages of a key lose their order, except with a consumer that orders by key.
func RateLimitByKey(cfg KeyedLimitConfig) (Middleware, error) {
	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = 10_000
	}
	if cfg.Limit <= 0 || cfg.Burst < 1 || cfg.Key == nil || cfg.MaxKeys < 1 {
		return nil, fmt.Errorf("%w: RateLimitByKey needs a Limit above 0, a Burst and MaxKeys of at least 1, and a Key", ErrConfig)
	}
	b := &buckets{cfg: cfg, of: map[string]*bucket{}, others: cfg.bucket(), every: seconds(1 / float64(cfg.Limit))}
	return func(next consumer.Handler) consumer.Handler {
		return func(ctx context.Context, m *consumer.Delivery) error {
			if key := cfg.Key(m); key != "" {
				if pause := b.take(key, time.Now()); pause > 0 {
					return WithoutEffect(consumer.Snooze(pause))
				}
			}
			return next(ctx, m)
		}
	}, nil
}

// bucket is the limit of one key.
type bucket struct {
	limiter *rate.Limiter
	next    time.Time // the turn of the next that is refused, behind those that were
}

func (c *KeyedLimitConfig) bucket() *bucket {
	return &bucket{limiter: rate.NewLimiter(c.Limit, c.Burst)}
}

// buckets are those of the keys that have used of their burst of late.
type buckets struct {
	cfg    KeyedLimitConfig
	mu     sync.Mutex
	of     map[string]*bucket
	others *bucket // of all that are too many
	swept  time.Time
	every  time.Duration // the pause between two of one key
}

// take takes a token, or says when there may be one.
func (b *buckets) take(key string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.find(key, now)
	r := k.limiter.ReserveN(now, 1)
	pause := r.DelayFrom(now)
	if pause <= 0 {
		return 0
	}
	r.CancelAt(now)
	if turn := now.Add(pause); k.next.Before(turn) {
		k.next = turn
	}
	pause = k.next.Sub(now)
	if pause < maxTurn {
		k.next = k.next.Add(b.every)
	}
	return min(pause, maxTurn)
}

func (b *buckets) find(key string, now time.Time) *bucket {
	if k := b.of[key]; k != nil {
		return k
	}
	if len(b.of) >= b.cfg.MaxKeys {
		b.sweep(now)
	}
	if len(b.of) >= b.cfg.MaxKeys {
		return b.others
	}
	k := b.cfg.bucket()
	b.of[key] = k
	return k
}

// sweep forgets the keys whose bucket is full, and is so seldom that its cost does not show.
func (b *buckets) sweep(now time.Time) {
	if now.Sub(b.swept) < min(b.every*time.Duration(b.cfg.Burst), time.Second) {
		return
	}
	b.swept = now
	for key, k := range b.of {
		if k.limiter.TokensAt(now) >= float64(b.cfg.Burst) && k.next.Before(now) {
			delete(b.of, key)
		}
	}
}

// seconds is a duration of at most maxTurn.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, maxTurn.Seconds()) * float64(time.Second))
}
