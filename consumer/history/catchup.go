package history

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// lookEvery is the pause between two looks at how far the projection is.
const lookEvery = 20 * time.Millisecond

// CatchUp folds all that was told when it is called, or waits until whoever owns the projection has. It is for a program that reads
// and ends; who died while folding is waited for as long as their lease.
//
// Errors: stream.ErrNoStream: the queue has no events; those of Run.
func CatchUp(ctx context.Context, client *tier.Client, cfg Config) error {
	p, err := New(client, cfg)
	if err != nil {
		return err
	}
	addr := tier.Queue(cfg.Queue).Events().String()
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: addr})
	if err != nil {
		return err
	}
	last, err := r.Last(ctx, 1)
	if err != nil || len(last) == 0 {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ran error
	ended := make(chan struct{})
	var g conc.WaitGroup
	g.Go(func() {
		defer close(ended)
		ran = p.Run(ctx)
	})
	err = await(ctx, ended, client, addr, p.State(), last[0].Position.Entry)
	cancel()
	g.Wait()
	return errors.Join(ran, err)
}

// await waits until a version of the projection is through an entry, or whoever runs it here has ended.
func await(ctx context.Context, ended <-chan struct{}, client *tier.Client, addr, state string, through codec.EntryID) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return context.Cause(ctx)
		case <-tick.C:
		}
		list, err := projection.List(ctx, client, addr)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(i projection.Info) bool {
			return i.Version > 0 && i.State() == state && i.Checkpoint.Compare(through) >= 0
		}) {
			return nil
		}
	}
}
