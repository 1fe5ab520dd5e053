package stream_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// slack is for what there is beside messages: buffers of connections, batches, the calls of repeats.
const slack = 12 << 20

// flood publishes messages of about 1 KB without end until ctx ends, and counts what was answered.
func (f *fixture) flood(ctx context.Context, w *stream.Writer, answered *atomic.Int64) (published int) {
	data := make([]byte, 1000)
	for {
		err := w.Publish(ctx, codec.Message{Type: "flood", Data: data}, func(_ codec.ID, err error) {
			if err == nil {
				answered.Add(1)
			}
		})
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				f.t.Errorf("publish: %v", err)
			}
			return published
		}
		published++
	}
}

// TestMemoryOfAWriterWithoutServer: while the server is frozen, or what is between, a publisher waits, with no more in
// memory than MaxQueued; and all of it is in the log once when that is over.
func TestMemoryOfAWriterWithoutServer(t *testing.T) {
	const queued = 16 << 20
	for what, pack := range map[string]int{"server": 100, "network": 1} {
		t.Run(what, func(t *testing.T) {
			server := tiertest.Private(t, tiertest.Valkey)
			f, proxy := setUpProxied(t, server)
			f.client = patient(t, proxy, 300*time.Millisecond)
			reg := prometheus.NewRegistry()
			w := f.writer(stream.WriterConfig{Pack: pack, MaxQueued: queued, RetryFor: time.Minute, Registerer: reg})
			f.client = tiertest.Dial(t, server)
			f.append(w, 1)
			f.run(w)
			freeze, thaw := server.Freeze, server.Thaw
			if what == "network" {
				freeze = func() error { proxy.Freeze(); return nil }
				thaw = func() error { proxy.Thaw(); return nil }
			}
			before := heap()
			require.NoError(t, freeze())
			ctx, cancel := context.WithCancel(f.ctx)
			var answered atomic.Int64
			published := make(chan int)
			go func() { published <- f.flood(ctx, w, &answered) }()
			most := 0
			tiertest.Eventually(t, soon, func() (bool, string) {
				most = max(most, heap()-before)
				n := f.metric("append_repeats_total", reg)
				return n >= 6, fmt.Sprint(n, " repeats")
			})
			cancel()
			n := <-published
			require.Less(t, n, queued/1000, "more than the bound was taken")
			require.Greater(t, n, queued/1000/2)
			require.Less(t, most, queued+slack)
			require.NoError(t, thaw())
			require.NoError(t, w.Flush(f.ctx))
			require.EqualValues(t, n, answered.Load())
			require.Len(t, f.all(), n+1)
		})
	}
}

// TestMemoryOfAFastWriter: a publisher that is faster than its server is held back, within its bound.
func TestMemoryOfAFastWriter(t *testing.T) {
	const queued, n = 4 << 20, 40_000
	f, proxy := setUpProxied(t, tiertest.Private(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{MaxQueued: queued})
	f.append(w, 1)
	f.run(w)
	proxy.Delay(20 * time.Millisecond)
	before, most := heap(), 0
	var answered atomic.Int64
	data := make([]byte, 1000)
	for i := range n {
		require.NoError(t, w.Publish(f.ctx, codec.Message{Data: data}, func(_ codec.ID, err error) {
			if err == nil {
				answered.Add(1)
			}
		}))
		if waiting := int64(i+1) - answered.Load(); waiting > queued/1000 {
			t.Fatalf("%d messages wait", waiting)
		}
		if i%4000 == 3999 {
			most = max(most, heap()-before)
		}
	}
	require.NoError(t, w.Flush(f.ctx))
	require.EqualValues(t, n, answered.Load())
	require.Less(t, most, queued+slack)
}

// TestMemoryIsUsedAgain: what is published as fast as it goes takes hardly any new memory, and what one message was kept in shows in
// no other one, whichever way each goes.
func TestMemoryIsUsedAgain(t *testing.T) {
	const n, size = 1000, 1000
	for _, pack := range []int{1, 100} {
		t.Run(fmt.Sprint(pack), func(t *testing.T) {
			f := setUp(t, tiertest.Private(t, tiertest.Valkey))
			w := f.writer(stream.WriterConfig{Pack: pack})
			f.append(w, 1)
			defer f.run(w)()
			data := make([]byte, size)
			var want []string
			publish := func(round int) (perMessage uint64) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for i := range n {
					binary.BigEndian.PutUint32(data, uint32(round*n+i))
					require.NoError(t, w.Publish(f.ctx, codec.Message{Data: data}, nil))
				}
				require.NoError(t, w.Flush(f.ctx))
				runtime.ReadMemStats(&after)
				for i := range n {
					want = append(want, fmt.Sprint(round*n+i))
				}
				return (after.TotalAlloc - before.TotalAlloc) / n
			}
			round := 0
			for least := uint64(size); least > size/2; round++ { // a pool may lose what it was given
				require.Less(t, round, 300, "%d bytes a message", least)
				least = publish(round)
			}
			f.do("HSET", tier.ScopeKey(f.addr().Scope), "x", "y") // a transaction is void
			for range 3 {
				publish(round)
				round++
			}
			got := f.all()[1:]
			have := make([]string, len(got))
			for i := range got {
				have[i] = fmt.Sprint(binary.BigEndian.Uint32(got[i].Data))
			}
			require.Equal(t, want, have)
		})
	}
}

// TestMemoryOfASlowReader: a loop that is slow, or that has stopped for good, holds its pages and no more, whatever the
// log's length.
func TestMemoryOfASlowReader(t *testing.T) {
	const n, size = 1500, 64 << 10
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	f.appendSized(f.writer(stream.WriterConfig{}), n, size)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	for name, seq := range map[string]iter.Seq2[codec.Record, error]{
		"range": f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID),
		"tail":  f.reader().Tail(ctx, codec.EntryID{}),
	} {
		before, most, i := heap(), 0, 0
		for record, err := range seq {
			require.NoError(t, err)
			require.Len(t, record.Data, size)
			if i++; i%100 == 0 {
				most = max(most, heap()-before)
			}
			if i == n {
				break
			}
		}
		require.Equal(t, n, i, name)
		require.Less(t, most, 2*(1<<20+2*size)+slack/2, name)
	}
}
