package bench

import (
	"context"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier/stream"
)

var replayWork = Work{
	Name: "replay", What: "a replay of a whole log into a handler that only counts",
	ceiling: ceilingRange, contestant: func(a *arena) contestant { return &replays{ranges: ranges{arena: a}} },
}

var rangeWork = Work{
	Name: "range", What: "a range over a whole log, decoded, with ids",
	ceiling: ceilingRange, contestant: func(a *arena) contestant { return &ranges{arena: a} },
}

// ranges reads a log.
type ranges struct {
	*arena
	n    int
	log  string
	from *stream.Reader
}

func (r *ranges) prepare(ctx context.Context, n int) (err error) {
	address := r.address()
	r.n, r.log = n, address.LogKey()
	if err := r.fillStream(ctx, address.String(), 1, n); err != nil {
		return err
	}
	r.from, err = stream.NewReader(r.client, stream.ReaderConfig{Address: address.String()})
	return err
}

func (r *ranges) run(ctx context.Context) error {
	n := 0
	for record, err := range r.from.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		if err != nil {
			return err
		}
		if len(record.Data) == r.size {
			n++
		}
	}
	return short("read", int64(n), int64(r.n))
}

func (r *ranges) keys() []string { return []string{r.log} }

func (r *ranges) clean(ctx context.Context) error { return r.delete(ctx, r.log) }

// replays gives a log out again.
type replays struct {
	ranges
	job *replay.Replay
}

func (r *replays) prepare(ctx context.Context, n int) error {
	err := r.ranges.prepare(ctx, n)
	if err != nil {
		return err
	}
	r.job, err = replay.New(r.from, replay.Config{})
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
