package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/internal/throttle"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Partitioned gives the messages of all partitions of a stream to a handler, together with the others of its cursor's name: each partition
// is one member's at a time, an exclusive consumer of its cursor. It is used once.
//
// Members say that they are there three times a lease, and each works out alone which partitions should be its own. It stands by for those
// that it does not own yet, and ends the consumer of one that should be another's: handlers finish, what they did is committed, the rest is
// handed back, and whoever stands by goes on within a second. A partition whose owner dies is idle for a lease and a beat at most. While
// partition 0, which holds the beats, is away, everybody keeps what it has.
type Partitioned struct {
	cursor  *stream.PartitionedCursor
	handler Handler
	cfg     Config
	ran     atomic.Bool
	ready   chan struct{}
}

// NewPartitioned checks the configuration, which is that of the consumer of each partition: Concurrency is for each, for instance. It sends
// nothing and starts nothing. The error is ErrConfig.
func NewPartitioned(cursor *stream.PartitionedCursor, handler Handler, cfg Config) (*Partitioned, error) {
	if cursor == nil || handler == nil {
		return nil, fmt.Errorf("%w: a consumer needs a cursor and a handler", ErrConfig)
	}
	if err := cfg.unbatched(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Partitioned{cursor: cursor, handler: handler, cfg: cfg, ready: make(chan struct{})}, nil
}

// Ready is closed when the member is known to the others, and stands by for its partitions.
func (p *Partitioned) Ready() <-chan struct{} { return p.ready }

// Run takes part until ctx ends, then ends the consumers of all its partitions as Consumer.Run does, and leaves. It returns nil
// after a clean stop. What ends the consumer of one partition for good ends all.
//
// Errors, possibly joined: those of Consumer.Run; stream.ErrNotPartitioned; ErrRan.
func (p *Partitioned) Run(ctx context.Context) error {
	if !p.ran.CompareAndSwap(false, true) {
		return ErrRan
	}
	member, err := p.cursor.Join(p.cfg.Name)
	if err != nil {
		return fmt.Errorf("consumer: join: %w", err)
	}
	addr := p.cursor.Address()
	c := &coordinator{
		Partitioned: p, member: member, owned: map[int]*owned{}, ended: make(chan *owned),
		log: throttle.New(p.cfg.Logger.With(Origin{Scope: addr.Scope, Stream: addr.Stream, Cursor: p.cursor.Name()}.attributes(member)...)),
	}
	return c.run(ctx)
}

// coordinator is one run of a Partitioned. Its fields belong to the loop of run.
type coordinator struct {
	*Partitioned
	member string
	log    *throttle.Logger
	owned  map[int]*owned
	ended  chan *owned
	all    conc.WaitGroup
}

// owned is a partition that is this member's, or that it stands by for.
type owned struct {
	partition int
	stop      context.CancelFunc
	err       error // once it has ended
}

func (c *coordinator) run(ctx context.Context) error {
	var failed error
	every := time.NewTicker(c.cursor.Lease() / beatsPerLease)
	defer every.Stop()
	share := []int(nil)
	for failed == nil && ctx.Err() == nil {
		if now, err := c.attend(ctx); err == nil {
			share = now
		} else if ctx.Err() == nil && reactionTo(err) == giveUp {
			failed = err
			break
		}
		for failed == nil {
			failed = c.follow(ctx, share)
			select {
			case o := <-c.ended:
				delete(c.owned, o.partition)
				failed = errors.Join(failed, o.err)
				continue
			case <-every.C:
			case <-ctx.Done():
			}
			break
		}
	}
	return errors.Join(failed, c.end(ctx))
}

// attend answers which partitions should be this member's. While that is not to be known, they are those that it has.
func (c *coordinator) attend(ctx context.Context) ([]int, error) {
	there, n, err := c.cursor.Attend(ctx, c.member)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("partitions cannot be shared out, everybody keeps what it has", slog.Any("err", err))
		}
		return nil, err
	}
	select {
	case <-c.ready:
	default:
		close(c.ready)
	}
	return shareOf(c.member, there, n), nil
}

// follow begins what should be this member's and ends what should not.
func (c *coordinator) follow(ctx context.Context, share []int) error {
	for k, o := range c.owned {
		if !slices.Contains(share, k) {
			o.stop() // it leaves c.owned when it has ended, and may begin anew then
		}
	}
	for _, k := range share {
		if c.owned[k] == nil {
			if err := c.begin(ctx, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin runs the consumer of one partition.
func (c *coordinator) begin(ctx context.Context, k int) error {
	cursor, err := c.cursor.Partition(k)
	if err != nil {
		return err
	}
	one, err := New(Exclusive(cursor), c.handler, c.cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	o := &owned{partition: k, stop: stop}
	c.owned[k] = o
	c.all.Go(func() {
		defer stop()
		o.err = one.Run(ctx)
		if ctx.Err() != nil && errors.Is(o.err, tier.ErrCancelled) {
			o.err = nil // it was ended before it had joined
		}
		c.ended <- o
	})
	return nil
}

// end ends all consumers, and leaves.
func (c *coordinator) end(ctx context.Context) (failed error) {
	for _, o := range c.owned {
		o.stop()
	}
	for range c.owned {
		o := <-c.ended
		failed = errors.Join(failed, o.err)
	}
	c.all.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	if err := c.cursor.Leave(ctx, c.member); err != nil && tier.Classify(err) == nil {
		failed = errors.Join(failed, err)
	}
	return failed
}
