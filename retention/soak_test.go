package retention_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// shaky is a store that fails now and then, before it did what it was asked for or after, and whose caller dies of it now and then.
type shaky struct {
	archive.Store
	crash  atomic.Pointer[context.CancelFunc]
	faults atomic.Int64
}

var errShaky = errors.New("the store fails")

func (s *shaky) fails() bool {
	if rand.N(8) > 0 {
		return false
	}
	s.faults.Add(1)
	if crash := s.crash.Load(); rand.N(3) == 0 && crash != nil {
		(*crash)()
	}
	return true
}

func (s *shaky) Create(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if s.fails() {
		return errShaky
	}
	if err := s.Store.Create(ctx, name, body, size); err != nil || !s.fails() {
		return err
	}
	return errShaky
}

func (s *shaky) ReadAt(ctx context.Context, name string, p []byte, at int64) (int, error) {
	if s.fails() {
		return 0, errShaky
	}
	return s.Store.ReadAt(ctx, name, p, at)
}

func (s *shaky) List(ctx context.Context, prefix string) ([]archive.Object, error) {
	if s.fails() {
		return nil, errShaky
	}
	return s.Store.List(ctx, prefix)
}

// history is what was written, ascending.
type history struct {
	mu  sync.Mutex
	all []codec.EntryID
}

func (h *history) add(more ...codec.EntryID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, more...)
}

func (h *history) list() []codec.EntryID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[:len(h.all):len(h.all)]
}

// window draws one of up to n messages, and says what it has.
func (h *history) window(n int) (from, to codec.EntryID, want []codec.EntryID) {
	list := h.list()
	i := rand.N(len(list))
	j := min(len(list)-1, i+rand.N(n))
	return list[i], list[j], list[i : j+1]
}

// TestOneReaderUnderFire (B157): appending, consuming, archiving, trimming and reading from random places at once, while the store
// fails and sweepers die at any step: readers get what the writer wrote, each once, ascending, and any window is the filter over everything.
// RETENTION_SOAK is how long, 10 s by default, which then ends with 1,000 windows.
func TestOneReaderUnderFire(t *testing.T) {
	lasts, after := 10*time.Second, 200
	if text := os.Getenv("RETENTION_SOAK"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
		after = 1000
	}
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	ctx, cancel := context.WithTimeout(context.Background(), lasts+2*time.Minute)
	defer cancel()
	s.ctx = ctx
	s.append("orders", 1, 1)
	addr, err := tier.ParseAddress(s.address("orders"))
	require.NoError(t, err)
	workers := s.member("orders", "workers")
	s.declare("orders", stream.Retention{Settled: true, Exact: true, Archive: "mem://store", SegmentBytes: 20_000, SegmentAge: 20 * time.Millisecond})
	memory := &archive.Memory{}
	store := &shaky{Store: memory}
	archived, err := archive.NewReader(memory, archive.ReaderConfig{Address: addr.String()})
	require.NoError(t, err)
	reader := s.reader("orders", retention.ReaderConfig{Archive: archived})
	var written history
	for r, err := range reader.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		written.add(r.Addr)
	}

	fire, cease := context.WithTimeout(ctx, lasts)
	defer cease()
	var all sync.WaitGroup
	all.Go(func() { // the writer
		for i := 0; fire.Err() == nil && !t.Failed(); i++ {
			w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: addr.String(), Pack: []int{1, 7, 40}[i%3]})
			if !assert.NoError(t, err) {
				return
			}
			ids, err := w.AppendBatch(ctx, keyed(40, i))
			if !assert.NoError(t, err) {
				return
			}
			for _, id := range ids {
				written.add(id.ServerEntry())
			}
			tier.Pause(fire, 2*time.Millisecond)
		}
	})
	all.Go(func() { // the consumer
		for fire.Err() == nil && !t.Failed() {
			leased, err := workers.Read(ctx, 500, 50*time.Millisecond)
			if !assert.NoError(t, err) {
				return
			}
			var ids []codec.EntryID
			for i := range leased {
				ids = append(ids, leased[i].Entry)
			}
			if len(ids) > 0 {
				_, err = workers.Settle(ctx, ids)
				assert.NoError(t, err)
			}
		}
	})
	crashes := 0
	all.Go(func() { // sweepers, one after another
		for fire.Err() == nil && !t.Failed() {
			living, crash := context.WithCancel(fire)
			store.crash.Store(&crash)
			sw, err := retention.NewSweeper(s.client, retention.SweeperConfig{
				Scope: s.scope, Beat: 5 * time.Millisecond, Settle: time.Millisecond, Temp: t.TempDir(),
				Stores: func(context.Context, string) (archive.Store, error) { return store, nil },
			})
			if assert.NoError(t, err) {
				assert.NoError(t, sw.Run(living))
			}
			crash()
			crashes++
		}
	})
	var windows atomic.Int64
	for range 2 {
		all.Go(func() { // readers
			for fire.Err() == nil && !t.Failed() {
				reads(t, ctx, reader, &written, 3000)
				windows.Add(1)
			}
		})
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	var tail sync.WaitGroup
	var followed history
	tail.Go(func() {
		for r, err := range reader.Tail(following, codec.EntryID{}) {
			if !assert.NoError(t, err) {
				return
			}
			followed.add(r.Addr)
		}
	})
	all.Wait()
	tiertest.Eventually(t, soon, func() (bool, string) {
		return t.Failed() || len(followed.list()) >= len(written.list()), "the tail is behind"
	})
	stop()
	tail.Wait()
	require.Equal(t, written.list(), followed.list())
	for range after {
		reads(t, ctx, reader, &written, 200)
		require.False(t, t.Failed())
	}
	segments, err := archived.Segments(ctx)
	require.NoError(t, err)
	require.Greater(t, len(segments.List), 2)
	require.Less(t, s.holdings("orders").Length, int64(len(written.list())))
	require.Positive(t, crashes)
	t.Logf("%d messages, %d segments, %d entries in the log; %d faults of the store, %d sweepers died; %d windows meanwhile, %d after",
		len(written.list()), len(segments.List), s.holdings("orders").Length, store.faults.Load(), crashes, windows.Load(), after)
}

// reads reads a window, and compares it with what was written.
func reads(t *testing.T, ctx context.Context, r *retention.Reader, written *history, n int) {
	from, to, want := written.window(n)
	i := 0
	for record, err := range r.Range(ctx, from, to) {
		if !assert.NoError(t, err) || !assert.Less(t, i, len(want)) || !assert.Equal(t, want[i], record.Addr) {
			return
		}
		i++
	}
	assert.Equal(t, len(want), i)
}
