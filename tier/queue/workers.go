package queue

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Bounds of a queue's lease. The shortest leaves room for three renewals and a pause of the process between them.
const (
	DefaultLease = 30 * time.Second
	MinLease     = 500 * time.Millisecond
)

// WorkersConfig names the queue whose jobs are shared. Queue is needed.
type WorkersConfig struct {
	Queue string
	// Lease is how long a member may be silent before others take over what it holds. Default 30 s; of a queue that had
	// workers, its own, and another is refused. At least 500 ms. Short, a pause of the process costs repeats; long, what a
	// crashed process held waits.
	Lease time.Duration
	// Lanes are the only ones that are served, at most [MaxServedLanes]; none: all are. What is scheduled, and whatever else is to be
	// done for a queue, its members do for all lanes. They do not hear that there is something to do: they look every 1.5 s, so a
	// job may wait that long for those that are idle.
	Lanes []string
}

// MaxServedLanes is how many lanes workers that do not serve all can have.
const MaxServedLanes = maxHeads

// Workers share the jobs of a queue: each job goes to one of them, and to another when it is not settled.
type Workers struct {
	client *tier.Client
	queue  tier.Queue
	cfg    WorkersConfig
}

// NewWorkers checks the configuration. It sends nothing.
func NewWorkers(client *tier.Client, cfg WorkersConfig) (*Workers, error) {
	if err := tier.CheckName("scope", cfg.Queue); err != nil {
		return nil, err
	}
	if cfg.Lease != 0 && cfg.Lease < MinLease {
		return nil, fmt.Errorf("%w: workers of %s: a lease of %s is below %s", ErrBadCall, cfg.Queue, cfg.Lease, MinLease)
	}
	if len(cfg.Lanes) > MaxServedLanes {
		return nil, fmt.Errorf("%w: workers of %s: %d lanes, at most %d: leave them out to serve all", ErrBadCall, cfg.Queue, len(cfg.Lanes), MaxServedLanes)
	}
	for i, lane := range cfg.Lanes {
		if err := tier.CheckName("lane", lane); err != nil {
			return nil, err
		}
		if slices.Contains(cfg.Lanes[:i], lane) {
			return nil, fmt.Errorf("%w: workers of %s: lane %s is there twice", ErrBadCall, cfg.Queue, lane)
		}
	}
	cfg.Lanes = slices.Clone(cfg.Lanes)
	cfg.Lease = cfg.Lease.Truncate(time.Millisecond)
	return &Workers{client: client, queue: tier.Queue(cfg.Queue), cfg: cfg}, nil
}

// Queue is its name.
func (w *Workers) Queue() string { return string(w.queue) }

// Join makes a member, under a name that no other has.
//
// Errors: *LeaseDiffersError.
func (w *Workers) Join(ctx context.Context, prefix string) (*Member, error) {
	name := prefix + "-" + strings.ToLower(rand.Text()[:8])
	if err := tier.CheckName("worker", name); err != nil {
		return nil, err
	}
	m := &Member{workers: w, name: name, held: holdings{}, ring: w.cfg.Lanes, claims: newDirect(w.client), settles: newDirect(w.client)}
	s, err := m.syncLanes(ctx, nil) // of a new name there is nothing to be found
	if err != nil {
		return nil, err
	}
	if m.number, m.lease, m.clock = s.number, s.lease, s.clock; m.lease < MinLease {
		return nil, fmt.Errorf("queue: %s: its lease of %s is below %s: set another one", w.queue, m.lease, MinLease)
	}
	if w.cfg.Lease != 0 && m.lease != w.cfg.Lease {
		return nil, &LeaseDiffersError{Queue: string(w.queue), Have: m.lease, Ask: w.cfg.Lease}
	}
	return m, nil
}
