package retention_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// faulty is a store that can be made to fail.
type faulty struct {
	archive.Memory
	fails atomic.Bool
}

var errFull = errors.New("no space left")

func (f *faulty) Create(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if f.fails.Load() {
		return errFull
	}
	return f.Memory.Create(ctx, name, body, size)
}

func (s *stage) archived(store archive.Store, name string) (n int) {
	s.t.Helper()
	r, err := archive.NewReader(store, archive.ReaderConfig{Address: s.address(name)})
	require.NoError(s.t, err)
	for _, err := range r.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(s.t, err)
		n++
	}
	return n
}

// TestArchiving: what is archived goes, and nothing else does; while the store fails all stays, which a metric tells, and other
// streams are swept.
func TestArchiving(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		store := &faulty{}
		store.fails.Store(true)
		cfg := retention.SweeperConfig{
			Settle: time.Millisecond, Temp: t.TempDir(),
			Stores: func(context.Context, string) (archive.Store, error) { return store, nil },
		}
		s.append("orders", 500, 10)
		s.append("other", 50, 10)
		s.declare("orders", stream.Retention{Settled: true, Exact: true, Archive: "mem://store", SegmentAge: time.Millisecond})
		s.declare("other", stream.Retention{MaxLength: 5, Exact: true})
		stop := s.runs(s.sweeper(cfg))
		tiertest.Eventually(t, soon, func() (bool, string) { return s.metric("archive_failing") == 1, "no alarm" })
		s.becomes("other", 5)
		require.EqualValues(t, 500, s.holdings("orders").Length)
		store.fails.Store(false)
		s.becomes("orders", 0)
		require.Equal(t, 500, s.archived(store, "orders"))
		tiertest.Eventually(t, soon, func() (bool, string) { return s.metric("archive_failing") == 0, "the alarm stays" })
		require.Equal(t, 500.0, s.metric("archived_messages_total"))
		problems, err := testutil.GatherAndLint(s.reg)
		require.NoError(t, err)
		require.Empty(t, problems)
		stop()

		s.append("orders", 3, 10)
		tiertest.Eventually(t, soon, func() (bool, string) {
			list, err := s.sweeper(cfg).Archive(s.ctx)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.NoError(t, list[0].Err)
			return s.archived(store, "orders") == 503, "they are too young"
		})
		require.EqualValues(t, 3, s.holdings("orders").Length)
	})
}

// TestStoreUnknown: a policy whose store this process does not open takes nothing.
func TestStoreUnknown(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append("orders", 10, 10)
	s.declare("orders", stream.Retention{Settled: true, Exact: true, Archive: "ftp://host/archive"})
	sw := s.sweeper(retention.SweeperConfig{})
	list, err := sw.Archive(s.ctx)
	require.NoError(t, err)
	require.ErrorIs(t, list[0].Err, archive.ErrStore)
	swept, err := sw.Once(s.ctx)
	require.NoError(t, err)
	require.NoError(t, swept[0].Err)
	require.EqualValues(t, 10, s.holdings("orders").Length)
}

// TestArchiveSeries: how far a stream is behind is shown while its store fails, and nothing of one that is archived no more.
func TestArchiveSeries(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	store := &faulty{}
	store.fails.Store(true)
	s.append("orders", 10, 10)
	s.declare("orders", stream.Retention{Settled: true, Exact: true, Archive: "mem://store", SegmentAge: time.Millisecond})
	s.runs(s.sweeper(retention.SweeperConfig{
		Settle: time.Millisecond, Temp: t.TempDir(),
		Stores: func(context.Context, string) (archive.Store, error) { return store, nil },
	}))
	tiertest.Eventually(t, soon, func() (bool, string) {
		return s.metric("archive_failing") == 1 && s.metric("archive_behind_seconds") > 0, "not shown"
	})
	s.declare("orders", stream.Retention{})
	tiertest.Eventually(t, soon, func() (bool, string) {
		return s.metric("archive_failing") == 0 && s.metric("archive_behind_seconds") == 0, "shown for ever"
	})
}

// hung is a store that answers nothing until it is let go, whatever its context says.
type hung struct {
	archive.Memory
	free   chan struct{}
	inside atomic.Int32
}

func (h *hung) List(ctx context.Context, prefix string) ([]archive.Object, error) {
	h.inside.Add(1)
	defer h.inside.Add(-1)
	<-h.free
	return h.Memory.List(ctx, prefix)
}

// TestStoreHangs: a store that answers nothing is told of, keeps no other stream from its archive, and no sweeper from its end.
func TestStoreHangs(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	hanging, well := &hung{free: make(chan struct{})}, &archive.Memory{}
	for _, name := range []string{"orders", "other"} {
		s.append(name, 10, 10)
		s.declare(name, stream.Retention{Settled: true, Exact: true, Archive: "mem://" + name, SegmentAge: time.Millisecond})
	}
	stop := s.runs(s.sweeper(retention.SweeperConfig{
		Settle: time.Millisecond, Temp: t.TempDir(), ArchiveTimeout: 20 * time.Millisecond,
		Stores: func(_ context.Context, address string) (archive.Store, error) {
			if address == "mem://orders" {
				return hanging, nil
			}
			return well, nil
		},
	}))
	s.becomes("other", 0)
	tiertest.Eventually(t, soon, func() (bool, string) { return s.metric("archive_failing", "stream", "orders") == 1, "no alarm" })
	stop()
	require.EqualValues(t, 10, s.holdings("orders").Length)
	close(hanging.free)
	tiertest.Eventually(t, soon, func() (bool, string) { return hanging.inside.Load() == 0, "it is left there" })
}
