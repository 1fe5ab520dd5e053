package bench

import (
	"context"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier/stream"
)

var replayWork = Work{
	Name: "replay", What: "a replay of a whole log into a handler that only counts",
	ceiling: ceilingRange, contestant: func(a *arena) contestant { return &replays{arena: a} },
}

// replays reads a log again.
type replays struct {
	*arena
	n   int
	log string
	job *replay.Replay
}

func (r *replays) prepare(ctx context.Context, n int) error {
	address := r.address()
	r.n, r.log = n, address.LogKey()
	if err := r.fillStream(ctx, address.String(), 1, n); err != nil {
		return err
	}
	reader, err := stream.NewReader(r.client, stream.ReaderConfig{Address: address.String()})
	if err != nil {
		return err
	}
	r.job, err = replay.New(reader, replay.Config{})
	return err
}

func (r *replays) run(ctx context.Context) error {
	n := 0
	err := r.job.Run(ctx, func(_ context.Context, d *consumer.Delivery) error {
		if len(d.Data) == r.size {
			n++
		}
		return nil
	})
	if err != nil {
		return err
	}
	return short("replayed", int64(n), int64(r.n))
}

func (r *replays) keys() []string { return []string{r.log} }

func (r *replays) clean(ctx context.Context) error { return r.delete(ctx, r.log) }
