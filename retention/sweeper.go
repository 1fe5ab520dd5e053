package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// SweeperConfig of a Sweeper. Scope is needed.
type SweeperConfig struct {
	// Scope whose streams are swept; of a partitioned one, the scope of a partition.
	Scope string
	// Stream to be swept; empty: all of the scope that have a policy.
	Stream string
	// Beat is how often it goes through the streams. Default 5 s. Longer, more lies there in between; shorter, the server is asked more
	// often, a few commands for each stream with a policy.
	Beat time.Duration
	// Lease is how long the right to trim outlives a sweeper that died. Default stream.DefaultSweepLease. Below three beats, it may
	// change hands while its holder is well.
	Lease time.Duration
	// Stores opens the store at the address that a policy has. Default: those that file:// names. A stream whose store it does not open is not
	// archived, and keeps all.
	Stores func(ctx context.Context, address string) (archive.Store, error)
	// Temp is the directory where segments of the archive are written before they go to the store. Default: that of the system.
	Temp string
	// Settle is how old an entry is before it is archived. Default archive.DefaultSettle. Shorter, a failover may leave more in the archive than
	// in the log.
	Settle time.Duration
	// ArchiveTimeout is how long a stream's turn to be archived takes at most, a segment. Default 10 min. Shorter, a slow store never gets a
	// large segment; longer, one that hangs keeps the other streams waiting.
	ArchiveTimeout time.Duration
	// Registerer takes the metrics. Nil: none are shown.
	Registerer prometheus.Registerer
}

func (c *SweeperConfig) setDefaults() {
	if c.Beat == 0 {
		c.Beat = 5 * time.Second
	}
	if c.Lease == 0 {
		c.Lease = stream.DefaultSweepLease
	}
	if c.ArchiveTimeout == 0 {
		c.ArchiveTimeout = 10 * time.Minute
	}
	if c.Stores == nil {
		c.Stores = openDirectory
	}
}

func (c *SweeperConfig) validate() error {
	if c.Settle < 0 {
		return fmt.Errorf("retention: entries that are archived %s after they were appended", c.Settle)
	}
	if c.ArchiveTimeout < 0 {
		return fmt.Errorf("retention: %s to archive a segment", c.ArchiveTimeout)
	}
	if c.Beat < 0 {
		return fmt.Errorf("retention: a beat of %s", c.Beat)
	}
	if c.Stream != "" {
		return tier.CheckName("stream", c.Stream)
	}
	return nil
}

// Sweeper takes away what the policies of a scope's streams let go, and archives those that are to be.
type Sweeper struct {
	client  *tier.Client
	cfg     SweeperConfig
	right   *stream.Sweep
	metrics *metrics
	begun   atomic.Bool
	taken   time.Time // when the right was last taken or kept, by this host's clock
	holds   atomic.Bool
}

// NewSweeper checks the configuration. It asks the server nothing, and starts nothing.
func NewSweeper(client *tier.Client, cfg SweeperConfig) (*Sweeper, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	right, err := stream.NewSweep(client, cfg.Scope, cfg.Lease)
	if err != nil {
		return nil, err
	}
	return &Sweeper{client: client, cfg: cfg, right: right, metrics: newMetrics(cfg.Registerer, cfg.Scope)}, nil
}

// HeldError says that another sweeper holds the right to trim the scope.
type HeldError struct {
	Scope string
	Wait  time.Duration // until its lease ends, unless it keeps it
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("retention: another sweeper is at work on scope %s: let it, or try again in %s when it has died", e.Scope, e.Wait.Round(time.Second))
}

// Run sweeps at each beat until ctx ends, while this sweeper holds the right to; while another does, it waits. What fails is
// logged, counted, and tried again at the next beat, except a right that the user lacks, and what else trying again does not
// mend: then it ends. It can run once.
func (s *Sweeper) Run(ctx context.Context) error {
	if s.begun.Swap(true) {
		return errors.New("retention: Sweeper.Run was called before")
	}
	defer s.release(ctx)
	ctx, stop := context.WithCancel(ctx)
	archiving := pool.New()
	defer archiving.Wait()
	defer stop()
	archiving.Go(func() { newArchiving(s).run(ctx) })
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		began := time.Now()
		wait, more, err := s.beat(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if class := tier.Classify(err); class != nil && class.Reaction == tier.Surface {
			return err
		}
		if err != nil {
			s.metrics.failures.Inc()
			s.client.Logger().Warn("streams not swept", slog.String("scope", s.cfg.Scope), slog.Any("err", err))
		}
		if more { // as long as it has worked: others need the server, too
			wait = min(wait, time.Since(began))
		}
		next.Reset(wait)
	}
}

// beat gives each stream a turn, when this sweeper holds the right. Then it answers when to come again, and whether there is
// more to take.
func (s *Sweeper) beat(ctx context.Context) (wait time.Duration, more bool, err error) {
	free, err := s.take(ctx)
	if err != nil {
		return s.cfg.Beat, false, err
	}
	if free > 0 {
		return min(free, s.cfg.Beat), false, nil
	}
	s.metrics.beats.Inc()
	for swept, err := range s.turns(ctx) {
		if err != nil {
			return s.cfg.Beat, false, err
		}
		more = more || swept.More
	}
	return s.cfg.Beat, more, nil
}

// take takes the right, or keeps it. Above 0: another holds it, for so long.
func (s *Sweeper) take(ctx context.Context) (free time.Duration, err error) {
	began := time.Now()
	held, free, err := s.right.Take(ctx)
	if err != nil {
		return 0, err
	}
	if held {
		s.taken = began
		s.holds.Store(true)
		s.metrics.sweeping.Set(1)
		return 0, nil
	}
	s.holds.Store(false)
	s.metrics.sweeping.Set(0)
	return max(time.Millisecond, free), nil
}

// release gives the right back: the next one need not wait for the lease to end.
func (s *Sweeper) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s.metrics.sweeping.Set(0)
	if err := s.right.Release(ctx); err != nil {
		s.client.Logger().Warn("the right to trim not given back", slog.String("scope", s.cfg.Scope), slog.Any("err", err))
	}
}

// Once sweeps until nothing more goes, gives the right back, and answers what went, of each stream that has a policy.
//
// Errors: *HeldError. What fails of one stream is its Err.
func (s *Sweeper) Once(ctx context.Context) ([]Swept, error) {
	free, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	if free > 0 {
		return nil, &HeldError{s.cfg.Scope, free}
	}
	defer s.release(ctx)
	var list []Swept
	for more := true; more; {
		more = false
		for swept, err := range s.turns(ctx) {
			if err != nil {
				return list, err
			}
			more = more || swept.More
			list = joined(list, swept)
		}
	}
	return list, nil
}
