package stream_test

import (
	"context"
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

const soon = 10 * time.Second

// appending1 is an Append on a goroutine of its own.
type appending1 struct {
	cancel context.CancelFunc
	done   chan struct{}
	id     codec.ID
	err    error
}

func (f *fixture) start(w *stream.Writer, key string) *appending1 {
	ctx, cancel := context.WithCancel(f.ctx)
	a := &appending1{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.id, a.err = w.Append(ctx, codec.Message{Type: "t", Key: key})
	}()
	f.t.Cleanup(func() { cancel(); <-a.done })
	return a
}

// ended waits for the end, which has to come quickly.
func (a *appending1) ended(t testing.TB) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(soon / 2): // less than the time that a call may take
		t.Fatal("the call did not return when its context had ended")
	}
}

func (f *fixture) queued(w *stream.Writer, n int) {
	f.t.Helper()
	tiertest.Eventually(f.t, soon, func() (bool, string) { return w.Queued() == n, fmt.Sprint(w.Queued(), " queued") })
}

func keysOf(records []codec.Record) []string {
	keys := make([]string, len(records))
	for i := range records {
		keys[i] = records[i].Key
	}
	return keys
}

// held is a writer whose call "sent" is on its way to a server that does not answer.
func held(t *testing.T, kind tiertest.Kind) (*fixture, *tiertest.Proxy, *stream.Writer, *appending1) {
	f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
	w := f.writer(stream.WriterConfig{})
	_, err := w.Append(f.ctx, codec.Message{Type: "t", Key: "first"})
	require.NoError(t, err)
	before := proxy.Commands()["EVALSHA"]
	proxy.Freeze()
	sent := f.start(w, "sent")
	tiertest.Eventually(t, soon, func() (bool, string) { return proxy.Commands()["EVALSHA"] > before, "not sent" })
	return f, proxy, w, sent
}

// TestCancelUnsent: whoever stops waiting before the message is sent is told that it is not in the log, at once, and it
// never gets there.
func TestCancelUnsent(t *testing.T) {
	t.Parallel()
	f, proxy, w, sent := held(t, tiertest.Valkey)
	waits := f.start(w, "waits")
	f.queued(w, 1)
	waits.cancel()
	waits.ended(t)
	require.ErrorIs(t, waits.err, context.Canceled)
	require.False(t, tier.OutcomeUnknown(waits.err), "%v", waits.err)
	require.Zero(t, w.Queued())

	late, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := w.Append(late, codec.Message{Key: "late"})
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, tier.OutcomeUnknown(err))

	proxy.Thaw()
	<-sent.done
	require.NoError(t, sent.err)
	_, err = w.Append(f.ctx, codec.Message{Key: "last"})
	require.NoError(t, err)
	require.Equal(t, []string{"first", "sent", "last"}, keysOf(f.all()))
}

// TestCancelSent: whoever stops waiting for a message that was sent returns at once, whether it sends for the others or
// not, with its outcome unknown; the message stands in the log once.
func TestCancelSent(t *testing.T) {
	for _, end := range []string{"cancel", "deadline"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			f, proxy, w, sent := held(t, tiertest.Valkey)
			waits := f.start(w, "waits")
			f.queued(w, 1)
			if end == "deadline" {
				ctx, cancel := context.WithTimeout(f.ctx, 20*time.Millisecond)
				defer cancel()
				_, err := w.Append(ctx, codec.Message{Key: "never"}) // shares the batch of "waits"
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			sent.cancel()
			sent.ended(t)
			require.ErrorIs(t, sent.err, context.Canceled)
			require.True(t, tier.OutcomeUnknown(sent.err), "%v", sent.err)
			proxy.Thaw()
			<-waits.done
			require.NoError(t, waits.err)
			_, err := w.Append(f.ctx, codec.Message{Type: "t", Key: "last"})
			require.NoError(t, err)
			want := []string{"first", "sent", "waits", "last"}
			if end == "deadline" {
				want = []string{"first", "sent", "waits", "never", "last"} // it was told that this may be
			}
			require.Equal(t, want, keysOf(f.all()))
		})
	}
}

// TestCancelNeighbour: callers who share a call do not take each other's messages along when they stop waiting.
func TestCancelNeighbour(t *testing.T) {
	t.Parallel()
	f, proxy, w, sent := held(t, tiertest.Valkey)
	var waits []*appending1
	for i := range 10 {
		waits = append(waits, f.start(w, fmt.Sprint(i)))
		f.queued(w, i+1)
	}
	for _, i := range []int{0, 4, 9} {
		waits[i].cancel()
		waits[i].ended(t)
		require.ErrorIs(t, waits[i].err, context.Canceled)
		require.True(t, tier.OutcomeUnknown(waits[i].err)) // its neighbours' call will take it along
	}
	proxy.Thaw()
	<-sent.done
	for _, i := range []int{1, 2, 3, 5, 6, 7, 8} {
		<-waits[i].done
		require.NoError(t, waits[i].err)
	}
	keys := keysOf(f.all())
	require.Equal(t, []string{"first", "sent"}, keys[:2])
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, keys[2:])
}

// TestCancelRace ends contexts while calls are on their way: what is reported is in the log once, what is not sent
// never, the rest at most once; and nothing is stuck.
func TestCancelRace(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{Pack: 2})
		var mu sync.Mutex
		ok, unknown, unsent := map[string]codec.ID{}, map[string]bool{}, map[string]bool{}
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := range 40 {
					key := fmt.Sprintf("%d.%d", g, i)
					ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i%8)*100*time.Microsecond)
					if i%8 == 7 {
						ctx, cancel = context.WithCancel(f.ctx)
					}
					id, err := w.Append(ctx, codec.Message{Key: key})
					cancel()
					mu.Lock()
					switch {
					case err == nil:
						ok[key] = id
					case tier.OutcomeUnknown(err):
						unknown[key] = true
					default:
						unsent[key] = true
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		_, err := w.Append(f.ctx, codec.Message{Key: "last"})
		require.NoError(t, err)
		records := f.all()
		requireAscending(t, records)
		seen := map[string]bool{}
		for _, r := range records[:len(records)-1] {
			require.False(t, seen[r.Key], "twice: %s", r.Key)
			seen[r.Key] = true
			require.False(t, unsent[r.Key], "in the log, and was said not to be: %s", r.Key)
			if id, is := ok[r.Key]; is {
				require.Equal(t, id, r.ID)
			}
		}
		for key := range ok {
			require.True(t, seen[key], "lost: %s", key)
		}
		require.Len(t, records, len(seen)+1)
	})
}

// TestCancelThenForgotten: what a caller stopped waiting for is not sent again once the server may have forgotten the
// producer: its record was what kept it from standing in the log twice.
func TestCancelThenForgotten(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	const retryFor = 50 * time.Millisecond
	w := f.writer(stream.WriterConfig{RetryFor: retryFor})
	_, err := w.Declare(f.ctx)
	require.NoError(t, err)
	f.load(sources(t)["append"])
	before := proxy.Commands()["EVALSHA"]
	proxy.Freeze()
	sent := f.start(w, "sent")
	tiertest.Eventually(t, soon, func() (bool, string) { return proxy.Commands()["EVALSHA"] > before, "not sent" })
	began := time.Now()
	sent.cancel()
	sent.ended(t)
	require.True(t, tier.OutcomeUnknown(sent.err))
	proxy.Thaw()
	tiertest.Eventually(t, soon, func() (bool, string) { return f.length() == "1" && time.Since(began) > 2*retryFor, f.length() })
	found := f.do("KEYS", "*{"+f.addr().Scope+"}*:pid:*")
	keys, err := found.AsStrSlice()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	f.do("DEL", keys[0])
	_, err = w.Append(f.ctx, codec.Message{Key: "last"})
	require.NoError(t, err)
	require.Equal(t, []string{"sent", "last"}, keysOf(f.all()))
}
