package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// Live is what goes on at the things of a picture, in a few words each.
type Live map[string]string

// liveKey names a node in a Live: a stage and a sink by the cursor that they read by.
func liveKey(n *node) string {
	switch n.kind {
	case streamNode, groupNode, queueNode, stageNode, foldNode, sinkNode:
		return nodeKey(n.kind, n.name)
	}
	return ""
}

// Observe looks twice, so long apart, and tells how fast streams grow, and how far behind them stages, sinks and groups are.
// What is not there yet is told so.
func Observe(ctx context.Context, client *tier.Client, d *Document, apart time.Duration) (Live, error) {
	f, live := d.flow(), Live{}
	o := &observer{client: client, document: d}
	first, err := o.added(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if !tier.Pause(ctx, apart) {
		return nil, context.Cause(ctx)
	}
	second, err := o.added(ctx)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	for _, n := range f.nodes {
		var text string
		switch n.kind {
		case streamNode:
			if now, there := second[n.name]; there {
				text = fmt.Sprintf("%.3g/s, %d entries", float64(now.added-first[n.name].added)/seconds, now.length)
			} else {
				text = "not there"
			}
		case queueNode:
			text, err = o.jobs(ctx, n.name)
		case stageNode:
			text, err = o.lag(ctx, d.Stages[n.name].From, n.name)
		case foldNode:
			c := d.Projections[n.name]
			text, err = o.lag(ctx, c.From, c.Cursor(n.name))
		case sinkNode:
			text, err = o.lag(ctx, d.Sinks[n.name].From, n.name)
		case groupNode:
			e := n.in[0]
			text, err = o.lag(ctx, e.from.name, n.name[len(e.from.name)+1:])
		}
		if err != nil {
			return nil, err
		}
		if text != "" {
			live[liveKey(n)] = text
		}
	}
	return live, nil
}

// observer asks for what goes on.
type observer struct {
	client   *tier.Client
	document *Document
	lags     map[string]map[string]int64 // by stream, then by group or cursor
}

type growth struct{ added, length int64 }

// added is how much each stream was ever given, in all its partitions.
func (o *observer) added(ctx context.Context) (map[string]growth, error) {
	all := map[string]growth{}
	scopes := sorted(o.document.Scopes)
	for _, name := range sorted(o.document.Queues) {
		if o.document.Queues[name].Events > 0 {
			scopes = append(scopes, name)
		}
	}
	for _, scope := range scopes {
		for _, part := range partsOf(scope, o.document.Scopes[scope].Partitions) {
			for info, err := range stream.Streams(ctx, o.client, part) {
				if err != nil {
					return nil, err
				}
				address := scope + "/" + info.Address.Stream
				g := all[address]
				all[address] = growth{g.added + info.Added, g.length + info.Length}
			}
		}
	}
	return all, nil
}

// lag is how far a group or a cursor is behind.
func (o *observer) lag(ctx context.Context, address, own string) (string, error) {
	a, err := tier.ParseAddress(address)
	if err != nil {
		return "", err
	}
	lags, asked := o.lags[address]
	if !asked {
		lags = map[string]int64{}
		for _, part := range partsOf(a.Scope, o.document.Scopes[a.Scope].Partitions) {
			if err := o.readers(ctx, tier.Address{Scope: part, Stream: a.Stream}.String(), lags); err != nil {
				return "", err
			}
		}
		if o.lags == nil {
			o.lags = map[string]map[string]int64{}
		}
		o.lags[address] = lags
	}
	if lag, there := lags[own]; there {
		return fmt.Sprintf("lag %d", lag), nil
	}
	return "not begun", nil
}

func (o *observer) readers(ctx context.Context, address string, lags map[string]int64) error {
	groups, err := stream.Groups(ctx, o.client, address)
	if err != nil {
		return err
	}
	for _, g := range groups {
		lags[g.Name] += g.Lag + g.Pending + g.Parked
	}
	cursors, err := stream.Cursors(ctx, o.client, address)
	if errors.Is(err, stream.ErrNoStream) || errors.Is(err, stream.ErrStreamRemoved) {
		return nil
	}
	for _, c := range cursors {
		lags[c.Name] += c.Lag
	}
	return err
}

func (o *observer) jobs(ctx context.Context, own string) (text string, err error) {
	err = withQueue(own, func(ctx context.Context, jobs *queue.Client) error {
		c, err := jobs.Counts(ctx)
		text = fmt.Sprintf("%d ready, %d active, %d dead", c.Ready, c.Active, c.Dead)
		return err
	})(ctx, o.client)
	return text, err
}
