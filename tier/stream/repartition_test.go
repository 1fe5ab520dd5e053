package stream_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRepartitionKeepsTheOrderOfKeys: while writers append and a group handles, slower than they, the number of partitions grows and
// shrinks. No append fails, nothing is lost or handled twice, and the messages of each key are handled in the order in which they
// were appended, though they move.
func TestRepartitionKeepsTheOrderOfKeys(t *testing.T) {
	const writers, keys, span = 4, 12, 5
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(3)
		book := &keyBook{last: map[string]uint64{}}
		reading, stopReading := context.WithCancel(f.ctx)
		var work sync.WaitGroup
		defer work.Wait()
		defer stopReading()
		for k := range span {
			work.Go(func() { book.read(reading, f.in(k)) })
		}
		writing, stopWriting := context.WithCancel(f.ctx)
		defer stopWriting()
		var appends errgroup.Group
		for i := range writers {
			w := f.partitioned(stream.WriterConfig{})
			appends.Go(func() error {
				for n := uint64(1); writing.Err() == nil; n++ {
					ms := make([]codec.Message, keys)
					for j := range ms {
						ms[j] = codec.Message{Key: fmt.Sprintf("%d-%d", i, j), Data: binary.BigEndian.AppendUint64(nil, n)}
					}
					if _, err := w.AppendBatch(f.ctx, ms); err != nil {
						return err
					}
					book.appended(keys)
				}
				return nil
			})
		}
		for _, count := range []int{5, 2, 3} {
			start := book.total()
			tiertest.Eventually(t, time.Minute, func() (bool, string) { return book.total() >= start+300, "writers stand still" })
			waited := 0
			require.NoError(t, stream.Repartition(f.ctx, f.client, f.addr().Scope, count, func(left []stream.Undrained) {
				require.NotEmpty(t, left)
				waited++
			}))
			require.Equal(t, fmt.Sprintf("%d|", count), f.mark(f.addr().Scope))
		}
		start := book.total()
		tiertest.Eventually(t, time.Minute, func() (bool, string) { return book.total() >= start+300, "writers stand still" })
		stopWriting()
		require.NoError(t, appends.Wait())
		tiertest.Eventually(t, time.Minute, func() (bool, string) {
			book.mu.Lock()
			defer book.mu.Unlock()
			return book.handled == book.written, fmt.Sprintf("%d of %d", book.handled, book.written)
		})
		require.Empty(t, book.broken[:min(len(book.broken), 5)])
	})
}

// keyBook is what was appended and handled, by key.
type keyBook struct {
	mu               sync.Mutex
	last             map[string]uint64
	written, handled int
	broken           []string
}

func (b *keyBook) appended(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written += n
}

func (b *keyBook) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written
}

func (b *keyBook) handle(r codec.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := binary.BigEndian.Uint64(r.Data)
	if n != b.last[r.Key]+1 {
		b.broken = append(b.broken, fmt.Sprintf("%s: %d after %d", r.Key, n, b.last[r.Key]))
	}
	b.last[r.Key] = n
	b.handled++
}

// read handles what is in one partition, an entry at a time.
func (b *keyBook) read(ctx context.Context, f *fixture) {
	g := f.group("g", stream.Head(), time.Minute)
	m, err := g.Join(ctx, "m")
	for err == nil {
		var leased []tier.Leased
		if leased, err = m.Read(ctx, 1, 20*time.Millisecond); err != nil {
			break
		}
		for _, l := range leased {
			b.handle(l.Records[0])
			_, err = m.Settle(ctx, []codec.EntryID{l.Entry})
		}
	}
	if !errors.Is(err, context.Canceled) {
		f.t.Error(err)
	}
}

// TestRepartitionWaitsForTheGroups: with something left to handle it waits and tells what; writers of either number are refused
// meanwhile. It can be called off, and gone on with.
func TestRepartitionWaitsForTheGroups(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(2)
		scope := f.addr().Scope
		w := f.partitioned(stream.WriterConfig{RetryFor: 100 * time.Millisecond})
		_, err := w.AppendBatch(f.ctx, keyed(30, 10))
		require.NoError(t, err)
		require.NoError(t, f.in(0).group("g", stream.Head(), lease).Create(f.ctx))
		lag := f.in(0).length()

		plan, err := stream.PlanRepartition(f.ctx, f.client, scope, 4)
		require.NoError(t, err)
		require.Equal(t, 2, plan.From)
		require.Equal(t, lag, fmt.Sprint(plan.Undrained[0].Lag))
		require.Equal(t, "2|", f.mark(scope), "a plan changes nothing")

		begin := func() {
			ctx, cancel := context.WithCancel(f.ctx)
			err := stream.Repartition(ctx, f.client, scope, 4, func(left []stream.Undrained) {
				require.Equal(t, plan.Undrained, left)
				cancel()
			})
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "--count 4' (or --count 2, to go back)")
			require.Equal(t, "2>4|", f.mark(scope))
		}
		begin()
		for range 2 { // by writers of the old number, and by those that know of it
			ids, err := w.AppendBatch(f.ctx, keyed(5, 5))
			require.ErrorIs(t, err, stream.ErrRepartitioned)
			require.ErrorContains(t, err, "is being changed from 2 to 4")
			require.False(t, tier.OutcomeUnknown(err))
			require.Equal(t, make([]codec.ID, 5), ids)
		}
		require.Equal(t, lag, f.in(0).length())
		require.ErrorIs(t, stream.Repartition(f.ctx, f.client, scope, 8, nil), stream.ErrPartitioned, "one change at a time")
		require.ErrorIs(t, stream.Partition(f.ctx, f.client, scope, 4), stream.ErrPartitioned)

		require.NoError(t, stream.Repartition(f.ctx, f.client, scope, 2, nil), "back")
		require.Equal(t, "2|", f.mark(scope))
		require.Equal(t, fmt.Sprintf("|%s 3 2", scope), f.mark(tier.PartitionScope(scope, 3)), "left behind")
		_, err = w.AppendBatch(f.ctx, keyed(5, 5))
		require.NoError(t, err)

		plan, err = stream.PlanRepartition(f.ctx, f.client, scope, 4)
		require.NoError(t, err)
		begin()
		require.NoError(t, f.in(0).group("g", stream.Head(), lease).Delete(f.ctx))
		require.NoError(t, stream.Repartition(f.ctx, f.client, scope, 4, nil), "on")
		require.Equal(t, "4|", f.mark(scope))
		_, err = w.AppendBatch(f.ctx, keyed(50, 50))
		require.NoError(t, err)
		for k := range 4 {
			require.NotEmpty(t, f.in(k).all())
		}
	})
}

// TestRepartitionFromAnywhere: a change that ended at any of its calls is ended by another run, or called off by it, and the
// writers go on.
func TestRepartitionFromAnywhere(t *testing.T) {
	const from, to = 2, 3
	s := tiertest.Private(t, tiertest.Valkey)
	for _, end := range []int{from, to} {
		t.Run(fmt.Sprintf("then %d", end), func(t *testing.T) {
			for calls, done := 0, false; !done; calls++ {
				f, proxy := setUpProxied(t, s)
				f.partition(from)
				scope := f.addr().Scope
				w := f.partitioned(stream.WriterConfig{RetryFor: 5 * time.Second})
				_, err := w.Declare(f.ctx)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(f.ctx)
				var armed atomic.Bool
				armed.Store(true)
				n := 0
				proxy.DropRequests(1, func(cmd []string) bool {
					if !armed.Load() || cmd[0] != "EVALSHA" && cmd[0] != "EVAL" {
						return false
					}
					n++
					if n > calls {
						cancel()
					}
					return n > calls
				})
				err = stream.Repartition(ctx, f.client, scope, to, nil)
				armed.Store(false)
				cancel()
				done = err == nil
				if done && end == from {
					break
				}
				tiertest.Eventually(t, 10*time.Second, func() (bool, string) { // the first call finds that the connection is gone
					err := stream.Repartition(f.ctx, f.client, scope, end, nil)
					require.True(t, err == nil || tier.OutcomeUnknown(err), "%v", err)
					return err == nil, fmt.Sprint(err)
				})
				_, err = w.AppendBatch(f.ctx, keyed(30, 30))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("%d|", end), f.mark(scope))
				for k := range end {
					require.Equal(t, fmt.Sprintf("|%s %d %d", scope, k, end), f.mark(tier.PartitionScope(scope, k)))
					require.NotEmpty(t, f.in(k).all())
				}
			}
		})
	}
}
