package main

import (
	"context"
	"time"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// mint makes cfg that of an exclusive writer, if one is asked for: it takes a node number, which is extended until
// release gives it back.
func (p *produce) mint(ctx context.Context, client *tier.Client, cfg *stream.WriterConfig) (release func(), err error) {
	if !p.exclusive {
		return func() {}, nil
	}
	lease, err := client.LeaseNode(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Exclusive, cfg.Mint = true, lease.Mint()
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // the last batch outlives an interrupt
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := lease.Run(running); err != nil {
			p.app.warn("%v", err)
		}
	}()
	return func() {
		stop()
		<-ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := lease.Release(ctx); err != nil {
			p.app.warn("the node number %d was not given back, it ends by itself in ten minutes: %v", lease.Number(), err)
		}
	}, nil
}
