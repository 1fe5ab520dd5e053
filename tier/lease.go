package tier

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/echomq/pipeline/codec"
)

var (
	//go:embed lua/lease_node.lua
	leaseNodeSource string
	leaseNode       = NewScript("lease_node", leaseNodeSource)

	//go:embed lua/release_node.lua
	releaseNodeSource string
	releaseNode       = NewScript("release_node", releaseNodeSource)
)

const (
	leaseGrant   = 10 * time.Minute // how far ahead of the server's clock a process may mint
	maxClockLead = time.Minute      // a host's clock further ahead than this is refused
	minHostNode  = 512
)

// Errors of node leases.
var (
	ErrNodesExhausted = errors.New("tier: all 512 node numbers for minting processes are leased: stop processes, or wait ten minutes for the numbers of those that died")
	ErrNodeLost       = errors.New("tier: the node number was lost: the server forgot the lease; take a new one")
	ErrClockAhead     = errors.New("tier: this host's clock is more than a minute ahead of the server's: set it right")
)

// NodeLease is a node number with a granted range of mint time. While it is extended, its mint makes ids that no other
// process can make, whatever freezes and whatever a clock says.
type NodeLease struct {
	client *Client
	now    func() time.Time // the host's clock
	holder string
	number int
	mint   *codec.Mint
	stop   func() int64 // ends the mint; again, it answers the same, so that Release can be repeated
}

// LeaseNode takes a node number for a process that mints ids by its own clock. Run extends it; Release gives it back.
//
// Errors: ErrNodesExhausted, ErrClockAhead.
func (c *Client) LeaseNode(ctx context.Context) (*NodeLease, error) {
	return c.leaseNode(ctx, time.Now)
}

func (c *Client) leaseNode(ctx context.Context, now func() time.Time) (*NodeLease, error) {
	l := &NodeLease{client: c, now: now, holder: rand.Text(), number: -1}
	from, limit, err := l.grant(ctx)
	if err != nil {
		return nil, err
	}
	if l.mint, err = codec.NewMint(l.number, from, limit, now); err != nil {
		return nil, err
	}
	l.stop = sync.OnceValue(l.mint.Stop)
	return l, nil
}

// Mint makes ids inside the granted range.
func (l *NodeLease) Mint() *codec.Mint { return l.mint }

// Number is the node number, 512 to 1023.
func (l *NodeLease) Number() int { return l.number }

// Extend moves the limit to ten minutes from now. ErrNodeLost: the mint keeps to its old limit; take a new lease.
func (l *NodeLease) Extend(ctx context.Context) error {
	_, limit, err := l.grant(ctx)
	if err != nil {
		return err
	}
	l.mint.SetLimit(limit)
	return nil
}

// Run extends the lease until ctx ends. A failure is tried again while the granted range lasts.
func (l *NodeLease) Run(ctx context.Context) error {
	tick := time.NewTicker(leaseGrant / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := l.Extend(ctx)
		switch {
		case errors.Is(err, ErrNodeLost), errors.Is(err, ErrClockAhead):
			return err
		case err != nil && ctx.Err() == nil:
			l.client.Logger().Warn("node lease not extended", "node", l.number, "err", err)
		}
	}
}

// Release ends the range where the mint stands. The mint makes no id after it. After a failure it can be repeated.
func (l *NodeLease) Release(ctx context.Context) error {
	limit := l.stop()
	_, err := l.client.Run(ctx, Call{
		Script: releaseNode,
		Keys:   []string{NodesKey},
		Args:   []string{l.holder, strconv.Itoa(l.number), strconv.FormatInt(limit, 10)},
	})
	return err
}

// grant asks for ten minutes from the server's now: unix milliseconds, from included, limit excluded.
func (l *NodeLease) grant(ctx context.Context) (from, limit int64, err error) {
	hint := minHostNode + int(crc16(l.holder))%512
	host := l.now()
	m, err := l.client.Run(ctx, Call{
		Script: leaseNode,
		Keys:   []string{NodesKey},
		Args: []string{
			l.holder, strconv.Itoa(l.number), strconv.FormatInt(leaseGrant.Milliseconds(), 10), strconv.Itoa(hint),
			strconv.FormatInt(host.Add(-maxClockLead).UnixMilli(), 10),
		},
	})
	if err != nil {
		return 0, 0, err
	}
	reply, err := Parts("lease_node", m, 5)
	if err != nil {
		return 0, 0, err
	}
	code, _ := reply[0].ToString()
	var n [4]int64
	for i := range n {
		if n[i], err = reply[i+1].AsInt64(); err != nil {
			return 0, 0, fmt.Errorf("tier: lease_node: unexpected reply: %w", err)
		}
	}
	switch code {
	case "full":
		return 0, 0, ErrNodesExhausted
	case "lost":
		return 0, 0, ErrNodeLost
	case "ahead":
		return 0, 0, fmt.Errorf("%w: by %s", ErrClockAhead, host.Sub(time.UnixMilli(n[3])).Round(time.Second))
	}
	l.number = int(n[0])
	return n[1], n[2], nil
}
