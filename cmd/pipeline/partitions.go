package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// appender is a writer of a stream, with partitions or without.
type appender interface {
	AppendBatch(ctx context.Context, ms []codec.Message) ([]codec.ID, error)
}

// appender makes the writer that the stream's scope wants.
func (p *produce) appender(ctx context.Context, client *tier.Client, cfg stream.WriterConfig) (appender, error) {
	layout, err := stream.Partitions(ctx, client, p.addr.Scope)
	if err != nil {
		return nil, err
	}
	if layout.Count == 0 {
		return stream.NewWriter(client, cfg)
	}
	if p.cfg.Dedup != "" || p.exclusive {
		return nil, usagef("scope %s has %s partitions: neither --dedup nor --exclusive goes with them", p.addr.Scope, layout)
	}
	return stream.NewPartitionedWriter(client, cfg)
}

// parts are the scopes that hold the streams of one: its partitions, or itself.
func parts(ctx context.Context, client *tier.Client, scope string) ([]string, error) {
	layout, err := stream.Partitions(ctx, client, scope)
	if err != nil || layout.Count == 0 {
		return []string{scope}, err
	}
	scopes := make([]string, layout.Span())
	for k := range scopes {
		scopes[k] = tier.PartitionScope(scope, k)
	}
	return scopes, nil
}

// addresses are those of a stream in each of its partitions, or its own.
func addresses(ctx context.Context, client *tier.Client, addr tier.Address) ([]tier.Address, error) {
	if addr.Key != "" {
		return []tier.Address{addr}, nil
	}
	scopes, err := parts(ctx, client, addr.Scope)
	all := make([]tier.Address, len(scopes))
	for i, scope := range scopes {
		all[i] = tier.Address{Scope: scope, Stream: addr.Stream}
	}
	return all, err
}

// partsGroups lists the groups of a stream, partition by partition when it has some. In JSON each says which then.
func (a *app) partsGroups(ctx context.Context, client *tier.Client, addr tier.Address, consumers bool) error {
	all, err := addresses(ctx, client, addr)
	if err != nil || len(all) == 1 && all[0] == addr {
		return errors.Join(err, a.groups(ctx, client, addr, consumers, ""))
	}
	for k, one := range all {
		name := fmt.Sprintf("%s@%d", addr, k)
		if !a.json() {
			err = a.print(name + "\n")
		}
		if err = errors.Join(err, a.groups(ctx, client, one, consumers, name)); err != nil {
			return err
		}
	}
	return nil
}
