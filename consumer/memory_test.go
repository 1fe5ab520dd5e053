package consumer_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// These tests measure the heap of the process, so none of them is parallel: each runs while no other does.

// heap is what is alive.
func heap() int {
	runtime.GC()
	runtime.GC() // what the first one made finalizable, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// slack is for what a consumer has beside messages: buffers of connections, goroutines, metrics.
const slack = 8 << 20

// appendSized appends n messages of so many bytes.
func (s *stage) appendSized(n, bytes int) {
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD"})
	require.NoError(s.t, err)
	for n > 0 {
		batch := make([]codec.Message, min(n, 4096, (7<<20)/bytes))
		for i := range batch {
			batch[i].Data = make([]byte, bytes)
		}
		_, err := w.AppendBatch(s.t.Context(), batch)
		require.NoError(s.t, err)
		n -= len(batch)
	}
}

// still waits until the consumer has fetched nothing for a while, and returns what it holds.
func (s *stage) still(p *puppet) (pending int) {
	tiertest.Eventually(s.t, patience, func() (bool, string) {
		reads := p.made("read") + p.made("take_over")
		<-time.After(500 * time.Millisecond) // longer than a busy wait: one that is under way has ended
		pending = s.pending()
		return reads == p.made("read")+p.made("take_over") && pending > 0, fmt.Sprintf("%d pending, %d reads", pending, reads)
	})
	return pending
}

// gated is a handler that lets a message through for each token of gate.
func gated(seen *atomic.Int64, gate chan struct{}, from int) consumer.Handler {
	return func(_ context.Context, d *consumer.Delivery) error {
		if len(d.Data) >= from {
			<-gate
		}
		seen.Add(1)
		return nil
	}
}

// B70: of large messages, with a handler that never returns on a stream that does not end, no more is in memory than the
// bound in bytes; and all of it goes again.
func TestMemoryOfLargeMessages(t *testing.T) {
	const n, size, bound = 100, 1<<20 - 100, 16 << 20
	s := newStage(t, tiertest.Private(t, tiertest.Valkey))
	s.appendSized(n, size)
	before := heap()
	var seen atomic.Int64
	gate := make(chan struct{})
	p := newPuppet(s.source())
	r := s.run(p, gated(&seen, gate, size), consumer.Config{Concurrency: 4, MaxInFlightBytes: bound})
	held := s.still(p)
	require.LessOrEqual(t, held, bound/size+1)
	require.LessOrEqual(t, heap()-before, bound+size+slack)
	for range n / 2 {
		gate <- struct{}{}
	}
	s.still(p)
	require.LessOrEqual(t, heap()-before, bound+size+slack, "what is done stays in memory")
	close(gate)
	tiertest.Eventually(t, patience, func() (bool, string) { return seen.Load() == n, fmt.Sprint(seen.Load()) })
	r.stop()
	require.NoError(t, r.wait(patience))
	require.LessOrEqual(t, heap()-before, slack)
}

// B70: where large messages follow small ones, one fetch may bring 512 of them; it is the last one until they are done.
func TestMemoryWhereLargeOnesBegin(t *testing.T) {
	const small, n, size, bound = 3000, 900, 128 << 10, 8 << 20
	const most = bound + 512*size
	s := newStage(t, tiertest.Private(t, tiertest.Valkey))
	s.appendSized(small, 100)
	s.appendSized(n, size)
	before := heap()
	var seen atomic.Int64
	gate := make(chan struct{})
	p := newPuppet(s.source())
	s.run(p, gated(&seen, gate, size), consumer.Config{Concurrency: 4, MaxInFlight: 1000, MaxInFlightBytes: bound})
	tiertest.Eventually(t, patience, func() (bool, string) { return seen.Load() == small, fmt.Sprint(seen.Load()) })
	require.LessOrEqual(t, s.still(p), bound/size+512)
	require.LessOrEqual(t, heap()-before, most+slack)
	for range n - 100 {
		gate <- struct{}{}
	}
	require.LessOrEqual(t, s.still(p), bound/size+4, "what large ones weigh is learnt")
	require.LessOrEqual(t, heap()-before, bound+4*size+slack)
	close(gate)
	s.settled(patience)
}

// B70: what is taken over is bounded as what is read.
func TestMemoryOfWhatIsTakenOver(t *testing.T) {
	const n, size, bound = 300, 256 << 10, 8 << 20
	s := newStage(t, tiertest.Private(t, tiertest.Valkey))
	s.appendSized(n, size)
	dead := s.dead(n)
	before := heap()
	var seen atomic.Int64
	gate := make(chan struct{})
	p := newPuppet(s.source())
	s.run(p, gated(&seen, gate, size), consumer.Config{Concurrency: 4, MaxInFlight: 1000, MaxInFlightBytes: bound})
	tiertest.Eventually(t, patience, func() (bool, string) { h := s.holders(); return h[dead] < n, fmt.Sprint(h) })
	s.still(p)
	require.LessOrEqual(t, n-s.holders()[dead], bound/size+1)
	require.LessOrEqual(t, heap()-before, bound+size+slack)
	close(gate)
	s.settled(patience)
	require.EqualValues(t, n, seen.Load())
}

// While the server is frozen, a consumer holds what it held before, and its calls that nobody answers do not add up.
func TestMemoryWithoutServer(t *testing.T) {
	const n, size, bound = 200, 256 << 10, 8 << 20
	server := tiertest.Private(t, tiertest.Valkey)
	s := newStage(t, server)
	s.appendSized(n, size)
	client, err := tier.Dial(t.Context(), server.URL(), tier.Options{CallTimeout: 500 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	before := heap()
	var seen atomic.Int64
	gate := make(chan struct{})
	p := newPuppet(consumer.Group(s.group(client)))
	s.run(p, gated(&seen, gate, size), consumer.Config{Concurrency: 4, MaxInFlightBytes: bound})
	s.still(p)
	require.NoError(t, server.Freeze())
	t.Cleanup(func() { _ = server.Thaw() })
	for range 4 {
		gate <- struct{}{} // something to settle
	}
	asked, most := p.made("settle")+p.made("renew"), 0
	tiertest.Eventually(t, patience, func() (bool, string) {
		most = max(most, heap()-before)
		calls := p.made("settle") + p.made("renew") - asked
		return calls >= 8, fmt.Sprint(calls, " calls")
	})
	require.LessOrEqual(t, most, bound+size+slack)
	require.NoError(t, server.Thaw())
	close(gate)
	tiertest.Eventually(t, patience, func() (bool, string) { return seen.Load() >= n, fmt.Sprint(seen.Load()) })
	s.settled(patience)
}

// B50: while there is no server, a consumer costs hardly any time of the processor, and goes on when there is one again.
func TestNoSpinWithoutServer(t *testing.T) {
	server := tiertest.Private(t, tiertest.Valkey)
	s := newStage(t, server)
	proxy := tiertest.NewProxy(t, server)
	seen := newTally()
	s.run(consumer.Group(s.group(tiertest.Dial(t, proxy))), func(_ context.Context, d *consumer.Delivery) error {
		seen.add(d.Key)
		return nil
	}, consumer.Config{})
	proxy.Refuse(true)
	proxy.Cut()
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, span := used(), 4*time.Second
	<-time.After(span)
	require.Less(t, used()-before, span/4)
	proxy.Refuse(false)
	s.append(3, 1)
	seen.reach(t, 3, patience)
	s.settled(patience)
}
