package codec

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrNodeLease: the next id would lie at or past the end of the range of time
// that the registry granted to this node number. No id was given.
var ErrNodeLease = errors.New("codec: mint is past the time its node number is leased for: extend the lease in the registry, then raise the limit")

// Mint gives ids under host order for one node number. It never blocks, never
// repeats and never falls back: an id is max(now, last + 1), so that it runs
// ahead of a clock that stands still or steps back. Every id lies in the granted
// range of time, from <= ms < limit, so that two holders of one node number
// cannot give the same id as long as their ranges do not overlap. It is safe for
// concurrent use; ids are unique, and ascend per caller.
type Mint struct {
	node  uint64
	now   func() time.Time
	last  atomic.Int64 // ms since Epoch << seqBits | seq of the last id given
	limit atomic.Int64 // unix ms, exclusive
}

// NewMint returns a mint for node (0..MaxNode) and the range [from, limit) in
// unix milliseconds; a from before Epoch means Epoch. A nil now is time.Now. An
// empty range is no error: the mint refuses until [Mint.SetLimit].
func NewMint(node int, from, limit int64, now func() time.Time) (*Mint, error) {
	if uint(node) > MaxNode {
		return nil, fmt.Errorf("codec: mint for node %d: want 0 to %d", node, MaxNode)
	}
	if now == nil {
		now = time.Now
	}
	m := &Mint{node: uint64(node), now: now}
	start := min(max(from, Epoch)-Epoch, maxMs+1)
	m.last.Store(start<<seqBits - 1)
	m.limit.Store(limit)
	return m, nil
}

// SetLimit raises the end of the range, in unix milliseconds. It never lowers
// it: a late answer of the registry must not take back what a newer one gave.
func (m *Mint) SetLimit(unixMs int64) {
	for {
		old := m.limit.Load()
		if unixMs <= old || m.limit.CompareAndSwap(old, unixMs) {
			return
		}
	}
}

// Limit returns the end of the range, in unix milliseconds, exclusive.
func (m *Mint) Limit() int64 { return m.limit.Load() }

// Next gives the next id, or ErrNodeLease, or an *IDError for a bad brand. A
// refused call spends nothing.
func (m *Mint) Next(b Brand) (ID, error) {
	if !b.Valid() {
		return ID{}, newIDError(string(b), ReasonBrand)
	}
	now := (min(max(m.now().UnixMilli(), Epoch), Epoch+maxMs+1) - Epoch) << seqBits
	for {
		last := m.last.Load()
		next := max(now, last+1)
		ms := next >> seqBits
		if ms > maxMs || ms+Epoch >= m.limit.Load() {
			return ID{}, ErrNodeLease
		}
		if m.last.CompareAndSwap(last, next) {
			return makeID(b, uint64(ms)<<lowBits|m.node<<seqBits|uint64(next&MaxSeq)), nil
		}
	}
}

// Stop ends the mint: Next refuses from now on. It returns the first unix
// millisecond at and above which no id was given, so that the rest of the range
// can be handed on from there. A second Stop returns the limit.
func (m *Mint) Stop() int64 {
	last := m.last.Swap((maxMs + 1) << seqBits)
	return min(last>>seqBits+Epoch+1, m.limit.Load())
}
