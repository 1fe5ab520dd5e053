package stream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ErrNotPartitioned: a partitioned writer needs a scope that has partitions.
var ErrNotPartitioned = errors.New("stream: the scope has no partitions: give it some ('pipeline scope partition SCOPE --count N'), or write with NewWriter")

// PartitionedWriter appends to the partitions of a stream, each message to the one of its key, and is safe for concurrent use. What
// one goroutine appends stands in its order within each partition, so also for each key. Messages without a key go round: those of
// one call stay together.
//
// When the number of partitions is changed, Append and AppendBatch wait for it, at most RetryFor, and go on by the new one.
type PartitionedWriter struct {
	client *tier.Client
	addr   tier.Address
	cfg    WriterConfig

	turn    atomic.Uint64 // of messages without a key
	room    *semaphore.Weighted
	opening chan struct{}          // held by the one who opens
	now     atomic.Pointer[routes] // nil: to be opened

	begun atomic.Bool
	hand  chan *routes // to Run
	ready chan struct{}
	ended chan struct{}
}

// routes are the writers of all partitions.
type routes struct {
	writers []*Writer
	running chan struct{} // closed: Publish is served
}

// NewPartitionedWriter checks the configuration and sends nothing. Address names the whole, "shop/orders". Neither Exclusive nor
// Producer go with partitions.
func NewPartitionedWriter(client *tier.Client, cfg WriterConfig) (*PartitionedWriter, error) {
	cfg.setDefaults()
	err := cfg.validate()
	if cfg.Exclusive || cfg.Producer != "" {
		err = errors.Join(err, fmt.Errorf("%w: Exclusive and Producer: neither goes with partitions, whose ids and positions would not be of one order", ErrBadCall))
	}
	addr, addrErr := tier.ParseAddress(cfg.Address)
	if err := errors.Join(err, addrErr); err != nil {
		return nil, err
	}
	return &PartitionedWriter{
		client: client, addr: addr, cfg: cfg,
		room:    semaphore.NewWeighted(int64(cfg.MaxQueued)),
		opening: make(chan struct{}, 1),
		hand:    make(chan *routes), ready: make(chan struct{}), ended: make(chan struct{}),
	}, nil
}

// Declare makes the stream known in all partitions, with one brand, as the first append does, and answers how many there are.
//
// Errors: those of Writer.Declare, ErrNotPartitioned, ErrRepartitioned.
func (w *PartitionedWriter) Declare(ctx context.Context) (partitions int, err error) {
	r, err := w.routes(ctx)
	if err != nil {
		return 0, err
	}
	return len(r.writers), nil
}

// Append appends one message to the partition of its key and waits for its receipt. Errors: those of Writer.Append, of Declare,
// and ErrRepartitioned.
func (w *PartitionedWriter) Append(ctx context.Context, m codec.Message) (codec.ID, error) {
	ids, err := w.AppendBatch(ctx, []codec.Message{m})
	if err != nil {
		return codec.ID{}, err
	}
	return ids[0], nil
}

// AppendBatch appends messages, those of one partition one after another and all or none; it is not atomic beyond that. The ids
// are in the order of ms. With an error, those with a zero id are not known to be in the log, and the others are.
func (w *PartitionedWriter) AppendBatch(ctx context.Context, ms []codec.Message) ([]codec.ID, error) {
	turn := w.turn.Add(1)
	ids := make([]codec.ID, len(ms))
	left := make([]int, len(ms)) // indexes
	for i := range left {
		left[i] = i
	}
	var failed, refused error
	for start, tries := time.Now(), 0; len(left) > 0; tries++ {
		if tries > 0 && (time.Since(start) > w.cfg.RetryFor || !tier.Pause(ctx, tier.CallDelay(tries))) {
			return ids, errors.Join(failed, refused)
		}
		var r *routes
		r, refused = w.routes(ctx)
		if refused == nil {
			var err error
			left, refused, err = w.appendTo(ctx, r, turn, ms, left, ids)
			failed = errors.Join(failed, err)
		} else if !errors.Is(refused, ErrRepartitioned) {
			return ids, errors.Join(failed, refused)
		}
	}
	return ids, failed
}

// appendTo appends messages to their partitions, side by side. Those that are left were refused, since there are other
// partitions now.
func (w *PartitionedWriter) appendTo(ctx context.Context, r *routes, turn uint64, ms []codec.Message, indexes []int, ids []codec.ID) (left []int, refused, failed error) {
	parts := make(map[int][]int)
	for _, i := range indexes {
		k := r.partition(ms[i].Key, turn)
		parts[k] = append(parts[k], i)
	}
	errs := make([]error, len(r.writers))
	send := func(k int) {
		part := make([]codec.Message, len(parts[k]))
		for n, i := range parts[k] {
			part[n] = ms[i]
		}
		var got []codec.ID
		got, errs[k] = r.writers[k].AppendBatch(ctx, part)
		for n := range got {
			ids[parts[k][n]] = got[n]
		}
	}
	var side conc.WaitGroup
	for k := range parts {
		if len(parts) == 1 {
			send(k)
		} else {
			side.Go(func() { send(k) })
		}
	}
	side.Wait()
	for k, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, ErrRepartitioned) && !tier.OutcomeUnknown(err):
			w.now.CompareAndSwap(r, nil)
			left, refused = append(left, parts[k]...), err
		default:
			failed = errors.Join(failed, err)
		}
	}
	return left, refused, failed
}

// partition is that of a key, or whose turn it is.
func (r *routes) partition(key string, turn uint64) int {
	if key == "" {
		return int(turn % uint64(len(r.writers)))
	}
	return codec.Partition(key, len(r.writers))
}

// routes are the writers of all partitions, opened when that is needed.
func (w *PartitionedWriter) routes(ctx context.Context) (*routes, error) {
	if r := w.now.Load(); r != nil {
		return r, nil
	}
	select {
	case w.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("stream: append to %s: not sent: %w", w.addr, context.Cause(ctx))
	}
	defer func() { <-w.opening }()
	if r := w.now.Load(); r != nil {
		return r, nil
	}
	r, err := w.open(ctx)
	if err == nil {
		w.now.Store(r)
	}
	return r, err
}

// openers is how many partitions are declared side by side.
const openers = 16

// open declares the stream in all partitions: nobody appends to one before all agree.
func (w *PartitionedWriter) open(ctx context.Context) (*routes, error) {
	layout, err := Partitions(ctx, w.client, w.addr.Scope)
	switch {
	case err != nil:
		return nil, notDeclared(err)
	case layout.Count == 0:
		return nil, fmt.Errorf("%w (scope %s)", ErrNotPartitioned, w.addr.Scope)
	case layout.Next != 0:
		return nil, &PartitionError{Stream: w.addr, Have: layout.String(), Ask: "partition"}
	}
	r := &routes{writers: make([]*Writer, layout.Count), running: make(chan struct{})}
	for k := range r.writers {
		if r.writers[k], err = w.writer(tier.Partition{Of: w.addr.Scope, Index: k, Layout: layout}); err != nil {
			return nil, err
		}
	}
	first, err := r.writers[0].Declare(ctx) // who is first there gives the brand
	if err != nil {
		return nil, notDeclared(err)
	}
	var all errgroup.Group
	all.SetLimit(openers)
	for _, one := range r.writers[1:] {
		one.cfg.Brand = first.Brand
		all.Go(func() error {
			_, err := one.Declare(ctx)
			return err
		})
	}
	return r, notDeclared(all.Wait())
}

func (w *PartitionedWriter) writer(part tier.Partition) (*Writer, error) {
	cfg := w.cfg
	cfg.Address = tier.Address{Scope: part.Scope(), Stream: w.addr.Stream}.String()
	one, err := NewWriter(w.client, cfg)
	if err == nil {
		one.place.mark, one.room = part.Declaration(), w.room
	}
	return one, err
}
