package bench

import (
	"context"
	"errors"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

var projectionWork = Work{
	Name: "projection", What: "a table that counts by 1,000 keys, exactly once, from its start to its last commit",
	ceiling: ceilingRange, contestant: func(a *arena) contestant { return &folds{arena: a} },
	latency: foldLatency,
}

// folds makes a projection of a whole log.
type folds struct {
	*arena
	of      string // the address of the log
	log     string
	seen    *counter
	table   *projection.Table[int]
	running *background
}

func (f *folds) prepare(ctx context.Context, n int) (err error) {
	address := f.address()
	f.of, f.log, f.seen = address.String(), address.LogKey(), count(f.size, n)
	if err := f.fillStream(ctx, address.String(), 1, n); err != nil {
		return err
	}
	f.table, err = f.counts(address, func(d *consumer.Delivery) error { return f.seen.saw(len(d.Data)) })
	return err
}

// counts is a projection that counts what it has seen of each key.
func (a *arena) counts(address tier.Address, saw func(d *consumer.Delivery) error) (*projection.Table[int], error) {
	return projection.NewTable(a.client, projection.TableConfig[int]{
		Config: projection.Config{Address: address.String(), Name: address.Stream},
		Fold:   func(sum int, d *consumer.Delivery) (int, error) { return sum + 1, saw(d) },
	})
}

func (f *folds) run(ctx context.Context) error {
	f.running = inBackground(ctx, f.table.Run)
	if err := f.seen.wait(ctx, f.running); err != nil {
		return err
	}
	return settled(ctx, f.uncommitted)
}

// uncommitted is how much of the log the projection has not passed.
func (f *folds) uncommitted(ctx context.Context) (left int64, err error) {
	list, err := projection.List(ctx, f.client, f.of)
	for i := range list {
		left += list[i].Lag
	}
	return left, err
}

func (f *folds) keys() []string { return []string{f.log} }

func (f *folds) clean(ctx context.Context) error {
	return errors.Join(f.running.end(), f.delete(ctx, f.log))
}

// foldLatency is the time from Publish to the fold, which is before the commit.
func foldLatency(ctx context.Context, a *arena, l *openLoop) (err error) {
	address := a.address()
	defer func() { err = errors.Join(err, a.delete(context.WithoutCancel(ctx), address.LogKey())) }()
	to, err := a.publisher(ctx, stream.WriterConfig{Address: address.String()})
	defer func() { err = errors.Join(err, to.end()) }()
	if err != nil {
		return err
	}
	table, err := a.counts(address, func(d *consumer.Delivery) error {
		l.arrivedWith(d.Data)
		return nil
	})
	if err != nil {
		return err
	}
	running := inBackground(ctx, table.Run)
	defer func() { err = errors.Join(err, running.end()) }()
	if err := running.ready(table.Ready()); err != nil {
		return err
	}
	return a.loopInto(ctx, l, to)
}
