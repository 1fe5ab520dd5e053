package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// partition gives the scope of the fixture a number of partitions.
func (f *fixture) partition(count int) {
	f.t.Helper()
	require.NoError(f.t, stream.Partition(f.ctx, f.client, f.addr().Scope, count))
}

// in is the fixture for the stream in one partition.
func (f *fixture) in(k int) *fixture {
	one := *f
	one.address = fmt.Sprintf("%s@%d", f.address, k)
	return &one
}

func (f *fixture) partitioned(cfg stream.WriterConfig) *stream.PartitionedWriter {
	f.t.Helper()
	cfg.Address = f.address
	w, err := stream.NewPartitionedWriter(f.client, cfg)
	require.NoError(f.t, err)
	return w
}

// keyed are n messages of so many keys, whose data count from 0.
func keyed(n, keys int) []codec.Message {
	ms := messages(n)
	for i := range ms {
		ms[i].Key = fmt.Sprintf("customer-%d", i%keys)
	}
	return ms
}

// mark is what the hash of a scope says of partitions: how many it has, and which it is.
func (f *fixture) mark(scope string) string {
	return f.text("HGET", tier.ScopeKey(scope), "partitions") + "|" + f.text("HGET", tier.ScopeKey(scope), "partition")
}

// TestPartitionScopes: the scope and its partitions are marked, each with a node number of its own; again nothing changes.
func TestPartitionScopes(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		scope := f.addr().Scope
		layout, err := stream.Partitions(f.ctx, f.client, scope)
		require.NoError(t, err)
		require.Zero(t, layout)
		numbers := map[string]bool{}
		for range 2 {
			f.partition(4)
			require.Equal(t, "4|", f.mark(scope))
			for k := range 4 {
				part := tier.PartitionScope(scope, k)
				require.Equal(t, fmt.Sprintf("|%s %d 4", scope, k), f.mark(part))
				numbers[f.text("HGET", tier.ScopeKey(part), "node")] = true
			}
			require.Len(t, numbers, 4)
		}
		layout, err = stream.Partitions(f.ctx, f.client, scope)
		require.NoError(t, err)
		require.Equal(t, tier.Layout{Count: 4}, layout)
		require.ErrorIs(t, stream.Partition(f.ctx, f.client, scope, 8), stream.ErrPartitioned)
		require.ErrorIs(t, stream.Partition(f.ctx, f.client, tier.PartitionScope(scope, 1), 2), stream.ErrScopeUsed, "a partition has none")
		for _, bad := range []int{0, -1, 257} {
			require.ErrorIs(t, stream.Partition(f.ctx, f.client, tiertest.Scope(t), bad), stream.ErrBadCall)
		}
	})
}

// TestPartitionRefusesUsedScopes: neither the scope nor one that would be a partition may hold streams; nothing is marked then.
func TestPartitionRefusesUsedScopes(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		scope := f.addr().Scope
		f.append(f.in(2).writer(stream.WriterConfig{}), 1)
		require.ErrorIs(t, stream.Partition(f.ctx, f.client, scope, 4), stream.ErrScopeUsed)
		require.Equal(t, "|", f.mark(scope))
		require.NoError(t, stream.Partition(f.ctx, f.client, scope, 2), "it stands beside them")

		g := setUp(t, s)
		f.append(g.writer(stream.WriterConfig{}), 1)
		err := stream.Partition(f.ctx, f.client, g.addr().Scope, 2)
		require.ErrorIs(t, err, stream.ErrScopeUsed)
		require.ErrorContains(t, err, "has stream orders")
		_, err = stream.Remove(f.ctx, f.client, g.address)
		require.NoError(t, err)
		require.NoError(t, stream.Partition(f.ctx, f.client, g.addr().Scope, 2), "a stream that was removed is none")
	})
}

// TestPartitionHalfDone: when it has ended before it had marked all, no writer starts, and the error says what to run; then it
// goes on where it was.
func TestPartitionHalfDone(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(3)
		last := tier.ScopeKey(tier.PartitionScope(f.addr().Scope, 2))
		f.do("HDEL", last, "partition")
		w := f.partitioned(stream.WriterConfig{RetryFor: 100 * time.Millisecond})
		for _, key := range []string{"", "a", "b", "c", "d"} {
			_, err := w.Append(f.ctx, codec.Message{Key: key})
			require.ErrorIs(t, err, stream.ErrRepartitioned)
			require.ErrorContains(t, err, "run 'pipeline scope partition'")
			require.False(t, tier.OutcomeUnknown(err))
		}
		for k := range 3 {
			require.Equal(t, "0", f.in(k).text("EXISTS", f.in(k).log()))
		}
		f.partition(3)
		_, err := w.Append(f.ctx, codec.Message{})
		require.NoError(t, err)
	})
}

// TestPartitionedScopeHasNoPlainStreams: the whole and its partitions refuse plain writers, and readers of the whole; one
// partition can be read.
func TestPartitionedScopeHasNoPlainStreams(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(2)
		_, err := f.writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
		require.ErrorIs(t, err, stream.ErrPartitioned)
		require.ErrorContains(t, err, "NewPartitionedWriter")
		require.NotErrorIs(t, err, stream.ErrRepartitioned)
		_, err = f.in(1).writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
		require.ErrorIs(t, err, stream.ErrPartitioned)
		require.ErrorContains(t, err, fmt.Sprintf("is partition 1 of %s: write to %s with NewPartitionedWriter", f.addr().Scope, f.address))
		for _, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
			require.ErrorIs(t, err, stream.ErrPartitioned)
			require.ErrorContains(t, err, f.address+"@0")
		}
		ids, err := f.partitioned(stream.WriterConfig{}).AppendBatch(f.ctx, keyed(20, 5))
		require.NoError(t, err)
		require.Len(t, append(f.in(0).all(), f.in(1).all()...), len(ids))
		g := setUp(t, s)
		_, err = g.partitioned(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
		require.ErrorIs(t, err, stream.ErrNotPartitioned)
	})
}

// TestPartitionedWriter: each message stands in the partition of its key, once, in the order of the calls; the ids are those of
// the messages as they were given; all partitions have one brand. Messages without a key go round, those of a call together.
func TestPartitionedWriter(t *testing.T) {
	const count, n, keys = 4, 500, 40
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(count)
		for _, pack := range []int{1, 7} {
			w := f.at(fmt.Sprintf("orders-%d", pack)).partitioned(stream.WriterConfig{Pack: pack})
			f := f.at(fmt.Sprintf("orders-%d", pack))
			ms := keyed(n, keys)
			ids, err := w.AppendBatch(f.ctx, ms[:n/2])
			require.NoError(t, err)
			for _, m := range ms[n/2:] {
				id, err := w.Append(f.ctx, m)
				require.NoError(t, err)
				ids = append(ids, id)
			}
			want := make([][]codec.ID, count)
			for i, m := range ms {
				k := codec.Partition(m.Key, count)
				want[k] = append(want[k], ids[i])
			}
			for k := range count {
				got := f.in(k).all()
				require.NotEmpty(t, got)
				requireSame(t, want[k], idsOf(got))
				require.Equal(t, ids[0].Brand(), got[0].ID.Brand())
			}
		}
	})
}

// TestPartitionedWriterWithoutKeys: messages without a key go round, those of one call together.
func TestPartitionedWriterWithoutKeys(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(3)
		w := f.partitioned(stream.WriterConfig{})
		for range 6 {
			_, err := w.AppendBatch(f.ctx, make([]codec.Message, 5))
			require.NoError(t, err)
		}
		for k := range 3 {
			require.Equal(t, "10", f.in(k).length())
		}
		ids, err := w.AppendBatch(f.ctx, nil)
		require.NoError(t, err)
		require.Empty(t, ids)
	})
}

// TestPartitionedKeyed: a keyed stream can have partitions: each key's versions stand where its messages are. What is declared keyed
// is not written as plain, and the error says only that.
func TestPartitionedKeyed(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(3)
		_, err := f.partitioned(stream.WriterConfig{Keyed: true}).AppendBatch(f.ctx, keyed(60, 6))
		require.NoError(t, err)
		for i := range 6 {
			key := fmt.Sprintf("customer-%d", i)
			require.Equal(t, "10", f.text("ZCARD", f.in(codec.Partition(key, 3)).addr().IndexKey(key)))
		}
		_, err = f.partitioned(stream.WriterConfig{}).AppendBatch(f.ctx, keyed(1, 1))
		var differs *stream.KindDiffersError
		require.ErrorAs(t, err, &differs)
		require.Equal(t, "keyed", differs.Have)
		require.NoError(t, stream.Repartition(f.ctx, f.client, f.addr().Scope, 2, nil))
		_, err = f.partitioned(stream.WriterConfig{Keyed: true}).AppendBatch(f.ctx, keyed(60, 6))
		require.NoError(t, err)
	})
}

// TestPartitionedPublish: what is published stands in its partition in the order of the calls for a key, and done has its id.
func TestPartitionedPublish(t *testing.T) {
	const count, n, keys = 3, 2000, 20
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(count)
		w := f.partitioned(stream.WriterConfig{MaxQueued: 1 << 20})
		require.ErrorIs(t, w.Publish(f.ctx, codec.Message{}, nil), stream.ErrNotRunning)
		stop := runPartitioned(f, w)
		require.ErrorIs(t, w.Run(f.ctx), stream.ErrBadCall)
		ids := make([]codec.ID, n)
		var calls sync.WaitGroup
		for i, m := range keyed(n, keys) {
			calls.Add(1)
			require.NoError(t, w.Publish(f.ctx, m, func(id codec.ID, err error) {
				defer calls.Done()
				if err == nil {
					ids[i] = id
				}
			}))
		}
		require.NoError(t, w.Flush(f.ctx))
		calls.Wait()
		want := make([][]codec.ID, count)
		for i, m := range keyed(n, keys) {
			k := codec.Partition(m.Key, count)
			want[k] = append(want[k], ids[i])
		}
		for k := range count {
			requireSame(t, want[k], idsOf(f.in(k).all()))
		}
		stop()
		require.ErrorIs(t, w.Publish(f.ctx, codec.Message{}, nil), stream.ErrNotRunning)
	})
}

func runPartitioned(f *fixture, w *stream.PartitionedWriter) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-w.Ready()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(f.t, <-ended)
	})
	f.t.Cleanup(stop)
	return stop
}

// TestPartitionedWriterConfig: what does not go with partitions is refused before anything is sent.
func TestPartitionedWriterConfig(t *testing.T) {
	for _, cfg := range []stream.WriterConfig{
		{Address: "shop/orders", Producer: "p"}, {Address: "shop/orders", Exclusive: true}, {Address: "shop"}, {Address: "shop/orders", Pack: -1},
	} {
		_, err := stream.NewPartitionedWriter(nil, cfg)
		require.Error(t, err)
	}
}

// TestCheckPartitions: the audit of either side names where it and the other differ.
func TestCheckPartitions(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(f *fixture)
		in    bool // the finding is about partition 1, else about the scope
	}{
		{"how many is no number", func(f *fixture) { f.do("HSET", scopeKey(f), "partitions", "many") }, false},
		{"a partition is missing", func(f *fixture) { f.do("HDEL", scopeKey(f.in(1)), "partition") }, true},
		{"a partition counts otherwise", func(f *fixture) {
			f.do("HSET", scopeKey(f.in(1)), "partition", f.addr().Scope+" 1 4", "stream:orders", "ORD partition 1/4")
		}, true},
		{"a partition has no mark that can be read", func(f *fixture) { f.do("HSET", scopeKey(f.in(1)), "partition", "x") }, true},
		{"a partition of another scope", func(f *fixture) { f.do("HSET", scopeKey(f.in(1)), "partition", "other 1 2") }, true},
		{"a stream counts otherwise", func(f *fixture) { f.do("HSET", scopeKey(f.in(1)), "stream:orders", "ORD partition 1/4") }, true},
		{"a stream without a mark", func(f *fixture) { f.do("HSET", scopeKey(f.in(1)), "stream:orders", "ORD") }, true},
		{"a mark of a stream that is none", func(f *fixture) { f.do("HSET", scopeKey(f.in(1)), "stream:orders", "ORD partition x") }, true},
		{"the scope has none", func(f *fixture) { f.do("HDEL", scopeKey(f), "partitions") }, true},
	}
	s := tiertest.Private(t, tiertest.Valkey)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := setUp(t, s)
			f.partition(2)
			_, err := f.partitioned(stream.WriterConfig{Brand: "ORD"}).Declare(f.ctx)
			require.NoError(t, err)
			check := func() map[string]string {
				return findings(t, errors.Join(stream.Check(f.ctx, f.client, f.addr().Scope), stream.Check(f.ctx, f.client, f.in(1).addr().Scope)))
			}
			require.Empty(t, check())
			tt.spoil(f)
			found := check()
			key := scopeKey(f)
			if tt.in {
				key = scopeKey(f.in(1))
			}
			require.NotEmpty(t, found[key], "%v", found)
			f.do("FLUSHALL") // the audit at the end has nothing to find
		})
	}
}
