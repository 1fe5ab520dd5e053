package bench

import (
	"context"
	"errors"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// partitions of a stream that each number of nodes up to three can share equally. (The slots of scopes whose names differ in
// their last digit differ in the same bits whatever the scope: of 6 partitions two nodes always have 4 and 2.)
const partitions = 12

// enterCluster starts a cluster of so many nodes, of which each has as many partitions as the others.
func enterCluster(ctx context.Context, nodes int, cfg *GrowthConfig) (a *arena, end func() error, err error) {
	s, err := newServers()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	if err := s.cluster(ctx, nodes); err != nil {
		return nil, nil, err
	}
	client, err := s.dial(ctx, s.list...)
	if err != nil {
		return nil, nil, err
	}
	scope, keys := evenScope(nodes)
	if a, err = enterScope(ctx, client, scope, cfg.Size, 0, keys...); err != nil {
		return nil, nil, err
	}
	s.arenas = append(s.arenas, a)
	if err := stream.Partition(ctx, client, scope, partitions); err != nil {
		return nil, nil, err
	}
	return a, s.end, nil
}

// evenScope is a scope whose partitions lie equally on so many nodes, and a key of each of these.
func evenScope(nodes int) (scope string, keys []string) {
	for {
		scope, keys = newScope(), make([]string, nodes)
		had := make([]int, nodes)
		for k := range partitions {
			key := tier.ScopeKey(tier.PartitionScope(scope, k))
			node := 0
			for slotsOf(node+1, nodes) <= tier.Slot(key) {
				node++
			}
			keys[node] = key
			had[node]++
		}
		even := true
		for _, n := range had {
			even = even && n == partitions/nodes
		}
		if even {
			return scope, keys
		}
	}
}

// nodes is a stream with partitions, and a consumer of all of them.
type nodes struct{ through }

func newNodes(a *arena, _ int, cfg *GrowthConfig) specimen {
	return &nodes{through{arena: a, n: cfg.Count}}
}

func (n *nodes) prepare(ctx context.Context) (float64, error) {
	address := n.address().String()
	w, err := stream.NewPartitionedWriter(n.client, stream.WriterConfig{Address: address})
	if err != nil {
		return 0, err
	}
	if _, err := w.Declare(ctx); err != nil {
		return 0, err
	}
	if n.to, err = running(ctx, w); err != nil {
		return 0, err
	}
	cursor, err := stream.NewPartitionedCursor(n.client, stream.CursorConfig{Address: address, Name: groupName, Start: stream.Head()})
	if err != nil {
		return 0, err
	}
	co, err := consumer.NewPartitioned(cursor, n.handle, consumer.Config{})
	if err != nil {
		return 0, err
	}
	n.running = append(n.running, inBackground(ctx, co.Run))
	return 0, n.running[0].ready(co.Ready())
}
