package stream

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/echomq/pipeline/tier"
)

// DefaultSweepLease is for how long the right to trim is taken.
const DefaultSweepLease = 15 * time.Second

// Sweep is the right to trim the streams of a scope, which one at a time holds, by the server's clock. Take takes it and keeps
// it; Trim and Drop are refused, by the server and in the same step, as soon as the lease has ended or is another's: so one
// that was frozen meanwhile changes nothing. Safe for concurrent use.
type Sweep struct {
	client *tier.Client
	scope  string
	owner  string
	lease  time.Duration

	mu    sync.Mutex
	epoch string              // of the last Take that held; empty: none did
	known map[string][]string // groups and cursors, by stream, as the last call that knew too few of them was told
}

// NewSweep asks the server nothing. The lease is DefaultSweepLease when it is 0, and a second at least.
func NewSweep(client *tier.Client, scope string, lease time.Duration) (*Sweep, error) {
	if err := tier.CheckName("scope", scope); err != nil {
		return nil, err
	}
	if lease == 0 {
		lease = DefaultSweepLease
	}
	if lease < time.Second {
		return nil, fmt.Errorf("%w: a lease of %s to sweep: a second at least", ErrBadCall, lease)
	}
	return &Sweep{client: client, scope: scope, owner: rand.Text(), lease: lease}, nil
}

// Take takes the right, or keeps it for another lease. When another holds it, wait is until that lease ends.
func (s *Sweep) Take(ctx context.Context) (held bool, wait time.Duration, err error) {
	m, err := s.client.Run(ctx, tier.Call{
		Script: takeSweepScript, Keys: []string{tier.SweeperKey(s.scope)}, Args: []string{s.owner, millis(s.lease)},
	})
	if err != nil {
		return false, 0, err
	}
	reply, err := tier.Parts("take_sweep", m, 3)
	if err != nil {
		return false, 0, err
	}
	code, _ := reply[0].ToString()
	epoch, _ := reply[1].ToString()
	ms, err := reply[2].AsInt64()
	s.mu.Lock()
	s.epoch = epoch
	s.mu.Unlock()
	return code == "held", time.Duration(ms) * time.Millisecond, err
}

// Release gives the right back, so that another need not wait for the lease to end. When it is not held, it does nothing.
func (s *Sweep) Release(ctx context.Context) error {
	_, err := s.client.Run(ctx, tier.Call{Script: releaseSweepScript, Keys: []string{tier.SweeperKey(s.scope)}, Args: []string{s.owner, s.held()}})
	return err
}

func (s *Sweep) held() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

func (s *Sweep) holders(stream string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[stream]
}

func (s *Sweep) learn(stream string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string][]string{}
	}
	s.known[stream] = names
}
