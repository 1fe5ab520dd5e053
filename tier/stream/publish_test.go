package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestGroupCommit: callers on many goroutines share round trips, and what one of them appends stands in its order.
func TestGroupCommit(t *testing.T) {
	for _, pack := range []int{1, 16} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
			w := f.writer(stream.WriterConfig{Pack: pack})
			proxy.Delay(5 * time.Millisecond)
			const goroutines, each = 128, 10
			ids := make([][]codec.ID, goroutines)
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for i := range each {
						id, err := w.Append(f.ctx, codec.Message{Key: fmt.Sprint(g), Data: []byte{byte(i)}})
						if err != nil {
							t.Error(err)
							return
						}
						ids[g] = append(ids[g], id)
					}
				})
			}
			wg.Wait()
			proxy.Delay(0)
			records := f.all()
			requireAscending(t, records)
			require.Len(t, records, goroutines*each)
			next := map[string]int{}
			for _, r := range records {
				var g int
				_, err := fmt.Sscan(r.Key, &g)
				require.NoError(t, err)
				require.Equal(t, byte(next[r.Key]), r.Data[0])
				require.Equal(t, ids[g][next[r.Key]], r.ID)
				next[r.Key]++
			}
			require.Less(t, proxy.Commands()["EVALSHA"], goroutines*each/8)
		})
	}
}

// TestPublishIsBounded: what Publish holds stays within MaxQueued; whoever publishes more waits, and may stop waiting.
func TestPublishIsBounded(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	const size, room = 1000, 20
	const perMessage = 128 // that a message takes beside its bytes
	w := f.writer(stream.WriterConfig{MaxMessage: size, MaxQueued: (size + perMessage) * room})
	_, err := w.Declare(f.ctx)
	require.NoError(t, err)
	f.run(w)
	m := codec.Message{Type: "t"}
	for encodedLen(t, m) < size {
		m.Data = append(m.Data, 'x')
	}
	var o outcomes
	published := 0
	fill := func() int { // publishes until there is no room
		proxy.Freeze()
		for {
			short, cancel := context.WithTimeout(f.ctx, 100*time.Millisecond)
			err := w.Publish(short, m, o.of(published))
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.False(t, tier.OutcomeUnknown(err))
				break
			}
			published++
			require.LessOrEqual(t, published-o.count(), room) // what passes as the proxy freezes is sent
		}
		return published - o.count()
	}
	first := fill()
	require.GreaterOrEqual(t, first, room/2)

	waits := make(chan error)
	go func() { waits <- w.Publish(f.ctx, m, o.of(published)) }()
	proxy.Thaw()
	require.NoError(t, <-waits)
	published++
	require.NoError(t, w.Flush(f.ctx))
	require.Equal(t, published, o.count())
	require.Equal(t, first, fill(), "room was not given back")
	proxy.Thaw()
	require.NoError(t, w.Flush(f.ctx))
	require.IsIncreasing(t, o.n)
	requireSame(t, o.ids, idsOf(f.all()))
}

func encodedLen(t testing.TB, m codec.Message) int {
	t.Helper()
	b, err := codec.AppendMessage(nil, &m)
	require.NoError(t, err)
	return len(b)
}

// TestRun: Publish works while Run does; when it stops, what is queued is sent first, and every callback called.
func TestRun(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		require.ErrorIs(t, w.Publish(f.ctx, codec.Message{}, nil), stream.ErrNotRunning)
		require.NoError(t, w.Flush(f.ctx))
		stop := f.run(w)
		require.ErrorIs(t, w.Run(f.ctx), stream.ErrBadCall)
		o := f.publish(w, 3000)
		require.NoError(t, w.Publish(f.ctx, codec.Message{Key: "no callback"}, nil))
		stop()
		require.Equal(t, 3000, o.count())
		require.Equal(t, make([]error, 3000), o.errs)
		require.IsIncreasing(t, o.n)
		records := f.all()
		require.Equal(t, "no callback", records[3000].Key)
		requireCounted(t, o.ids, records[:3000])

		require.ErrorIs(t, w.Publish(f.ctx, codec.Message{}, nil), stream.ErrNotRunning)
		require.ErrorIs(t, w.Run(f.ctx), stream.ErrBadCall)
		f.append(w, 1) // needs no Run
	})
}

// TestPublishRacesWithStop: a Publish that was accepted is called back, one that was not never is; nothing hangs (B102).
func TestPublishRacesWithStop(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	for range 30 {
		w := f.writer(stream.WriterConfig{MaxMessage: 100, MaxQueued: 1000})
		stop := f.run(w)
		var o outcomes
		var mu sync.Mutex
		accepted := 0
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					err := w.Publish(f.ctx, codec.Message{Type: "t"}, o.of(0))
					if err != nil {
						if !errors.Is(err, stream.ErrNotRunning) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					accepted++
					mu.Unlock()
				}
			})
		}
		tiertest.Eventually(t, soon, func() (bool, string) { return o.count() > 20, "nothing is published" })
		stop()
		wg.Wait()
		require.Equal(t, accepted, o.count())
	}
}

// TestPublishBesideAppend: messages of both share a call; each caller gets the id of its own.
func TestPublishBesideAppend(t *testing.T) {
	t.Parallel()
	f, proxy, w, sent := held(t, tiertest.Valkey)
	f.run(w)
	ids := map[string]codec.ID{}
	for i := range 3 {
		waits := f.start(w, fmt.Sprint("append", i))
		f.queued(w, 2*i+1)
		key := fmt.Sprint("publish", i)
		require.NoError(t, w.Publish(f.ctx, codec.Message{Key: key}, func(id codec.ID, err error) {
			if err != nil {
				t.Error(err)
			}
			ids[key] = id
		}))
		f.queued(w, 2*i+2)
		defer func() {
			<-waits.done
			require.NoError(t, waits.err)
			record, err := f.reader().Get(f.ctx, waits.id)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("append", i), record.Key)
		}()
	}
	proxy.Thaw()
	<-sent.done
	require.NoError(t, w.Flush(f.ctx))
	require.Len(t, ids, 3)
	for key, id := range ids {
		record, err := f.reader().Get(f.ctx, id)
		require.NoError(t, err)
		require.Equal(t, key, record.Key)
	}
}

// TestPublishTheLargest: a message at the limit fits into the smallest queue that a writer may have.
func TestPublishTheLargest(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	const limit = 1000
	m := codec.Message{Type: "t"}
	for encodedLen(t, m) < limit {
		m.Data = append(m.Data, 'x')
	}
	queued := limit
	cfg := stream.WriterConfig{Address: f.address, MaxMessage: limit, MaxQueued: queued}
	w, err := stream.NewWriter(f.client, cfg)
	for ; err != nil; w, err = stream.NewWriter(f.client, cfg) {
		require.ErrorIs(t, err, stream.ErrBadCall)
		cfg.MaxQueued++
		require.Less(t, cfg.MaxQueued, 2*limit)
	}
	f.run(w)
	short, cancel := context.WithTimeout(f.ctx, soon)
	defer cancel()
	require.NoError(t, w.Publish(short, m, nil))
	require.NoError(t, w.Flush(f.ctx))
}

// TestRunStopsWhileOthersAppend: what was published is sent, and that is all that a stop waits for.
func TestRunStopsWhileOthersAppend(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{})
	stop := f.run(w)
	proxy.Delay(3 * time.Millisecond)
	over := make(chan struct{})
	var appended atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			<-time.After(rand.N(10 * time.Millisecond)) // so that some wait while others are answered
			for {
				select {
				case <-over:
					return
				default:
				}
				if _, err := w.Append(f.ctx, codec.Message{}); err != nil {
					t.Error(err)
					return
				}
				appended.Add(1)
			}
		})
	}
	tiertest.Eventually(t, soon, func() (bool, string) { return appended.Load() > 500, "nothing is appended" })
	o := f.publish(w, 100)
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), soon)
	require.Equal(t, make([]error, 100), o.errs)
	close(over)
	wg.Wait()
}

// TestFlush waits for what was published before it, and for no longer than its context.
func TestFlush(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{})
	_, err := w.Declare(f.ctx)
	require.NoError(t, err)
	f.run(w)
	proxy.Freeze()
	o := f.publish(w, 1000)
	short, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.Flush(short), context.DeadlineExceeded)
	require.Zero(t, o.count())
	proxy.Thaw()
	require.NoError(t, w.Flush(f.ctx))
	require.Equal(t, 1000, o.count())
	requireCounted(t, o.ids, f.all())
}

// TestMessageLimit (B77): the limit is exact, and beyond it nothing is sent.
func TestMessageLimit(t *testing.T) {
	const limit = 5000
	sizes := []struct {
		size int
		ok   bool
	}{{limit - 1, true}, {limit, true}, {limit + 1, false}, {limit + 500, false}, {64 << 20, false}}
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{MaxMessage: limit})
	f.run(w)
	f.append(w, 1)
	want := 1
	for _, tt := range sizes {
		base := codec.Message{Type: "t", Key: "k", Headers: codec.Headers{{Key: "h", Value: strings.Repeat("v", 40)}}}
		base.Data = make([]byte, max(0, tt.size-500))
		for grow := tt.size - encodedLen(t, base); grow > 0; grow = tt.size - encodedLen(t, base) {
			base.Data = append(base.Data, make([]byte, grow)...)
		}
		require.Equal(t, tt.size, encodedLen(t, base))
		before := proxy.Commands()
		for _, send := range []func() error{
			func() error { _, err := w.Append(f.ctx, base); return err },
			func() error { _, err := w.AppendBatch(f.ctx, []codec.Message{{}, base}); return err },
			func() error { return w.Publish(f.ctx, base, nil) },
		} {
			err := send()
			if tt.ok {
				require.NoError(t, err)
				continue
			}
			var large *stream.TooLargeError
			require.ErrorAs(t, err, &large)
			require.Equal(t, limit, large.Limit)
			require.GreaterOrEqual(t, large.Size, limit+1)
			require.False(t, tier.OutcomeUnknown(err))
		}
		if !tt.ok {
			require.Equal(t, before, proxy.Commands())
			continue
		}
		want += 4
		require.NoError(t, w.Flush(f.ctx))
	}
	require.Len(t, f.all(), want)
}

// TestBatchLimits: 4096 messages and 8 MiB fit into a batch; one more does not, and nothing is sent.
func TestBatchLimits(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	for _, pack := range []int{1, 4096} {
		w := f.writer(stream.WriterConfig{Pack: pack, MaxMessage: 8 << 20})
		f.append(w, 4096)
		before := proxy.Commands()
		_, err := w.AppendBatch(f.ctx, messages(4097))
		var large *stream.TooLargeError
		require.ErrorAs(t, err, &large)
		require.Equal(t, stream.TooLargeError{What: "batch, messages", Size: 4097, Limit: 4096}, *large)

		m := codec.Message{Data: make([]byte, 1<<20-encodedLen(t, codec.Message{Data: make([]byte, 1<<16)})+1<<16)}
		require.Equal(t, 1<<20, encodedLen(t, m))
		eight := []codec.Message{m, m, m, m, m, m, m, m}
		_, err = w.AppendBatch(f.ctx, append(eight, codec.Message{}))
		require.ErrorAs(t, err, &large)
		require.Equal(t, "batch, bytes", large.What)
		require.Equal(t, before, proxy.Commands())
		_, err = w.AppendBatch(f.ctx, eight)
		require.NoError(t, err)
	}
	ids, err := f.writer(stream.WriterConfig{}).AppendBatch(f.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, ids)
	requireAscending(t, f.all())
}

// TestRoundTrip (B78, B80): what was appended comes back, byte by byte, empty and nil as documented.
func TestRoundTrip(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	want := []codec.Message{
		{},
		{Type: "t", Key: "k", Data: []byte{}},
		{Type: "\x00", Key: "\xff\xfe", Data: all, Headers: codec.Headers{{Key: "\x00", Value: string(all)}, {Key: "empty", Value: ""}}},
		{Data: []byte("\xc3\x28")},
		{Type: strings.Repeat("t", codec.MaxType), Key: strings.Repeat("k", codec.MaxKey)},
	}
	for _, pack := range []int{1, 2} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				_, err := f.writer(stream.WriterConfig{Pack: pack}).AppendBatch(f.ctx, want)
				require.NoError(t, err)
				for i, r := range f.all() {
					require.NoError(t, r.Err)
					got, err := codec.AppendMessage(nil, &r.Message)
					require.NoError(t, err)
					sent, err := codec.AppendMessage(nil, &want[i])
					require.NoError(t, err)
					require.Equal(t, sent, got)
				}
			})
		})
	}
}

// TestWriterConfig: what is out of bounds is refused with a reason, before any traffic.
func TestWriterConfig(t *testing.T) {
	tests := []struct {
		name string
		cfg  stream.WriterConfig
		want error
	}{
		{"defaults", stream.WriterConfig{Address: "s/a"}, nil},
		{"no address", stream.WriterConfig{}, tier.ErrName},
		{"no stream", stream.WriterConfig{Address: "s"}, tier.ErrName},
		{"reserved scope", stream.WriterConfig{Address: "emq/a"}, tier.ErrName},
		{"braces", stream.WriterConfig{Address: "{s}/a"}, tier.ErrName},
		{"brand", stream.WriterConfig{Address: "s/a", Brand: "ord"}, codec.ErrID},
		{"producer", stream.WriterConfig{Address: "s/a", Producer: "a:b"}, tier.ErrName},
		{"pack below", stream.WriterConfig{Address: "s/a", Pack: -1}, stream.ErrBadCall},
		{"pack above", stream.WriterConfig{Address: "s/a", Pack: 4097}, stream.ErrBadCall},
		{"message below", stream.WriterConfig{Address: "s/a", MaxMessage: -1}, stream.ErrBadCall},
		{"message above", stream.WriterConfig{Address: "s/a", MaxMessage: 8<<20 + 1}, stream.ErrBadCall},
		{"queue below a message", stream.WriterConfig{Address: "s/a", MaxMessage: 100, MaxQueued: 99}, stream.ErrBadCall},
		{"retry below", stream.WriterConfig{Address: "s/a", RetryFor: -1}, stream.ErrBadCall},
		{"retry above half the key's life", stream.WriterConfig{Address: "s/a", RetryFor: 5*time.Minute + 1}, stream.ErrBadCall},
		{"retry at half the key's life", stream.WriterConfig{Address: "s/a", RetryFor: 5 * time.Minute}, nil},
	}
	client := tiertest.Dial(t, tiertest.Shared(t, tiertest.Valkey))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := stream.NewWriter(client, tt.cfg)
			if tt.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tt.want)
			}
		})
	}
}
