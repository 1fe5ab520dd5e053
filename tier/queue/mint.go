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

// next gives ids.
func (m *mint) next(ctx context.Context, ids []codec.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := 0; i < len(ids); {
		err := error(codec.ErrNodeLease)
		if m.lease != nil {
			ids[i], err = m.lease.Mint().Next(Brand)
		}
		switch {
		case err == nil:
			i++
		case !errors.Is(err, codec.ErrNodeLease):
			return err
		default:
			if err := m.extend(ctx); err != nil {
				return err
			}
		}
	}
	return nil
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
