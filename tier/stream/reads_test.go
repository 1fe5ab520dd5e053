package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestTenThousandFailedReads (B46): 10,000 blocking reads, half of them of each server, are cancelled, unblocked with an error, killed, or lose their connection,
// while entries are appended, until some of these were stranded. Each entry is given out once: by a read, or by the Sync that
// follows a failed one.
func TestTenThousandFailedReads(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			f, proxy := setUpProxied(t, s)
			readers := &failing{f: f, given: map[codec.EntryID]int{}}
			g := f.group("g", stream.Head(), time.Hour)
			var crew conc.WaitGroup
			ctx, stop := context.WithCancel(context.Background())
			defer crew.Wait()
			defer stop()
			for range 24 {
				m := f.join(g)
				crew.Go(func() { readers.loop(ctx, m) })
			}
			harm, err := tiertest.Raw(s)
			require.NoError(t, err)
			defer harm.Close()
			w := setUpWriter(t, s, f.address)
			appended := 0
			for n := 0; readers.failed.Load() < 5_000 || readers.stranded.Load() < 2; n++ {
				if n%20 == 0 {
					proxy.Cut()
				}
				for range rand.N(4) {
					_, err := w.Append(f.ctx, codec.Message{Key: strconv.Itoa(appended)})
					require.NoError(t, err)
					appended++
				}
				endBlocked(t, harm)
			}
			stop()
			crew.Wait()
			readers.rest(f.join(g))
			require.Len(t, readers.given, appended)
			for e, times := range readers.given {
				require.Equal(t, 1, times, "%s was given out %d times, and nobody has let go of it", e, times)
			}
			t.Logf("%d reads failed (%d cancelled), %d stranded entries found, %d appended", readers.failed.Load(), readers.cancelled.Load(), readers.stranded.Load(), appended)
		})
	}
}

// TestReadEndsWithItsContext (B45): a read that would wait for half a minute ends soon after its context, and its connection serves
// the next one.
func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.group("g", stream.Head(), 0))
		ctx, cancel := context.WithCancel(f.ctx)
		ended := make(chan error)
		go func() {
			_, err := m.Read(ctx, 1, time.Hour)
			ended <- err
		}()
		cancel()
		select {
		case err := <-ended:
			if err != nil { // it had not begun to wait
				require.ErrorIs(t, err, tier.ErrCancelled)
			}
		case <-time.After(time.Minute):
			require.Fail(t, "it waits on")
		}
		f.append(f.writer(stream.WriterConfig{}), 1)
		f.read(m, 1)
	})
}

// TestReadKeepsItsDeadline (B56): a wait ends in its time though others are served by the same stream all along.
func TestReadKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.New(), 0)
		w := f.writer(stream.WriterConfig{})
		ctx, stop := context.WithCancel(f.ctx)
		var crew conc.WaitGroup
		defer crew.Wait()
		defer stop()
		quiet := f.group("quiet", stream.FromTime(f.now().Add(50*time.Second)), 0) // nothing comes for it
		busy := f.join(g)
		crew.Go(func() {
			for ctx.Err() == nil {
				_, _ = busy.Read(f.ctx, 10, 100*time.Millisecond)
			}
		})
		crew.Go(func() {
			for ctx.Err() == nil {
				_, _ = w.Append(f.ctx, codec.Message{Key: "k"})
			}
		})
		m := f.join(quiet)
		leased, err := m.Read(f.ctx, 1, 1500*time.Millisecond)
		require.NoError(t, err, "the wait went on for longer than its deadline")
		require.Empty(t, leased)
	})
}

// setUpWriter is a writer that goes past the proxy.
func setUpWriter(t *testing.T, s *tiertest.Server, address string) *stream.Writer {
	w, err := stream.NewWriter(tiertest.Dial(t, s), stream.WriterConfig{Address: address})
	require.NoError(t, err)
	return w
}

// endBlocked ends reads that wait on the server, in one of its two ways.
func endBlocked(t *testing.T, raw rueidis.Client) {
	list, err := raw.Do(context.Background(), raw.B().Arbitrary("CLIENT", "LIST", "TYPE", "normal").Build()).ToString()
	require.NoError(t, err)
	for line := range strings.Lines(list) {
		var id string
		fields := strings.Fields(line)
		for _, field := range fields {
			if v, ok := strings.CutPrefix(field, "id="); ok {
				id = v
			}
		}
		if !strings.Contains(line, " flags=b") || rand.N(3) > 0 {
			continue
		}
		how := []string{"CLIENT", "UNBLOCK", id, "ERROR"}
		if rand.N(2) == 0 {
			how = []string{"CLIENT", "KILL", "ID", id}
		}
		_ = raw.Do(context.Background(), raw.B().Arbitrary(how...).Build()).Error() // it may have ended by itself
	}
}

// failing are members whose reads fail.
type failing struct {
	f                           *fixture
	failed, cancelled, stranded atomic.Int64

	mu    sync.Mutex
	given map[codec.EntryID]int
}

func (r *failing) give(e codec.EntryID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given[e]++
}

// loop reads until ctx ends; some reads are cancelled. What a failed read has left behind, Sync tells.
func (r *failing) loop(ctx context.Context, m *stream.Member) {
	known := map[codec.EntryID]bool{}
	for ctx.Err() == nil {
		reading, cancel := context.WithCancel(r.f.ctx)
		if rand.N(4) == 0 {
			time.AfterFunc(rand.N(2*time.Millisecond), cancel)
		}
		leased, err := m.Read(reading, 3, 200*time.Millisecond)
		if reading.Err() != nil && err != nil {
			r.cancelled.Add(1)
		}
		cancel()
		for _, l := range leased {
			known[l.Entry] = true
			r.give(l.Entry)
		}
		if err == nil {
			continue
		}
		r.failed.Add(1)
		for try := 1; !r.look(m, known); try++ {
			tier.Pause(r.f.ctx, time.Duration(try)*time.Millisecond)
		}
	}
}

// look asks what is held; false when that failed as well.
func (r *failing) look(m *stream.Member, known map[codec.EntryID]bool) bool {
	held, err := m.Sync(r.f.ctx)
	if err != nil {
		return false
	}
	for _, h := range held {
		if !known[h.Entry] {
			known[h.Entry] = true
			r.stranded.Add(1)
			r.give(h.Entry)
		}
	}
	return true
}

// rest reads what nobody was given.
func (r *failing) rest(m *stream.Member) {
	tiertest.Eventually(r.f.t, time.Minute, func() (bool, string) {
		leased, err := m.Read(r.f.ctx, 1000, 0)
		for _, l := range leased {
			r.give(l.Entry)
		}
		return err == nil && len(leased) == 0, fmt.Sprint(err)
	})
}
