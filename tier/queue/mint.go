package queue

import (
	"context"
	"errors"
	"sync"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// mint gives ids to jobs, inside the time that the registry grants to this process, which is asked for when it is needed.
type mint struct {
	client *tier.Client
	mu     sync.Mutex
	lease  *tier.NodeLease
}

// next gives n ids.
func (m *mint) next(ctx context.Context, n int) ([]codec.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]codec.ID, 0, n)
	for len(ids) < n {
		var id codec.ID
		err := codec.ErrNodeLease
		if m.lease != nil {
			id, err = m.lease.Mint().Next(Brand)
		}
		if errors.Is(err, codec.ErrNodeLease) {
			if err = m.extend(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (m *mint) extend(ctx context.Context) (err error) {
	if m.lease != nil {
		if err = m.lease.Extend(ctx); !errors.Is(err, tier.ErrNodeLost) {
			return err
		}
	}
	m.lease, err = m.client.LeaseNode(ctx)
	return err
}

// release gives the time back that is not used.
func (m *mint) release(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lease == nil {
		return nil
	}
	err := m.lease.Release(ctx)
	if err == nil {
		m.lease = nil
	}
	return err
}
