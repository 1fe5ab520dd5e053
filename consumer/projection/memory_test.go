package projection_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// model is the state of a whole stream.
type model struct{ Tallies map[string]tally }

func addAll(m model, d *consumer.Delivery) (model, error) {
	next, err := add(m.Tallies[d.Key], d)
	if err == nil {
		m.Tallies[d.Key] = next
	}
	return m, err
}

func newModel() model { return model{map[string]tally{}} }

func (s *stage) memoryConfig() projection.MemoryConfig[model] {
	return projection.MemoryConfig[model]{Address: s.addr.String(), Name: "tallies", New: newModel, Fold: addAll, SnapshotEvery: time.Hour}
}

// counted counts what is folded, and what of it is a replay.
func counted(cfg *projection.MemoryConfig[model]) (folded, replayed *atomic.Int64) {
	folded, replayed = new(atomic.Int64), new(atomic.Int64)
	fold := cfg.Fold
	cfg.Fold = func(m model, d *consumer.Delivery) (model, error) {
		if folded.Add(1); d.Replay {
			replayed.Add(1)
		}
		return fold(m, d)
	}
	return folded, replayed
}

func (s *stage) memory(cfg projection.MemoryConfig[model]) *projection.Memory[model] {
	s.t.Helper()
	m, err := projection.NewMemory(s.client, cfg)
	require.NoError(s.t, err)
	return m
}

func ready(t testing.TB, m *projection.Memory[model]) {
	t.Helper()
	select {
	case <-m.Ready():
	case <-time.After(patience):
		require.Fail(t, "not ready")
	}
}

func view(m *projection.Memory[model]) (have map[string]tally) {
	m.View(func(state model) { have = maps.Clone(state.Tallies) })
	return have
}

// caughtUp waits until all is folded, and requires the state that the log folds to.
func (s *stage) caughtUp(m *projection.Memory[model]) {
	s.t.Helper()
	tiertest.Eventually(s.t, patience, func() (bool, string) {
		lag, err := m.Lag(context.Background())
		return err == nil && lag == 0, fmt.Sprint(lag, err)
	})
	require.Equal(s.t, s.want(), view(m))
}

// ran folds all that there is, and stops.
func (s *stage) ran(cfg projection.MemoryConfig[model]) (state map[string]tally, folded int64) {
	s.t.Helper()
	count, _ := counted(&cfg)
	m := s.memory(cfg)
	r := start(s.t, m)
	ready(s.t, m)
	require.NoError(s.t, r.stop())
	return view(m), count.Load()
}

func (s *stage) snapshotKey() string { return s.addr.FoldKey(projection.Versioned("tallies", 1)) }

// TestMemory: the state is that of the log, in order, from packs too; the next start folds only what came since the snapshot; what the
// log held before is a replay, and what comes is not.
func TestMemory(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 100, 7, 1)
		s.append(100, 100, 7, 9)
		state, folded := s.ran(s.memoryConfig())
		require.Equal(t, s.want(), state)
		require.EqualValues(t, 200, folded)

		s.append(200, 30, 7, 4)
		cfg := s.memoryConfig()
		count, replayed := counted(&cfg)
		m := s.memory(cfg)
		r := start(t, m)
		ready(t, m)
		require.EqualValues(t, 30, count.Load())
		s.append(230, 20, 7, 1)
		s.caughtUp(m)
		require.EqualValues(t, 50, count.Load())
		require.EqualValues(t, 30, replayed.Load())
		require.NoError(t, r.stop())
		require.ErrorIs(t, m.Run(t.Context()), consumer.ErrRan)

		off := s.memoryConfig()
		off.SnapshotEvery = -1
		_, folded = s.ran(off)
		require.EqualValues(t, 250, folded)
		newer := s.memoryConfig()
		newer.Version = 2
		_, folded = s.ran(newer)
		require.EqualValues(t, 250, folded)
		require.NoError(t, projection.DropSnapshot(t.Context(), s.client, s.addr.String(), "tallies", 1))
		_, folded = s.ran(s.memoryConfig())
		require.EqualValues(t, 250, folded)
	})
}

// TestMemories: processes that run at once, each begun and ended at its own time while messages come, all have the state of the log,
// and the snapshot is of the one that is furthest.
func TestMemories(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(0, 1, 1, 1)
	cfg := s.memoryConfig()
	cfg.SnapshotEvery = time.Millisecond
	done := make(chan struct{})
	var processes sync.WaitGroup
	for range 3 {
		processes.Go(func() {
			for last := false; !last; {
				m := s.memory(cfg)
				r := start(t, m)
				<-m.Ready()
				select {
				case <-done:
					last = true
				default:
				}
				if last {
					s.caughtUp(m)
				}
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for at := range 40 {
		s.append(1+at*50, 50, 5, 1+at%3)
	}
	close(done)
	processes.Wait()
	_, folded := s.ran(s.memoryConfig())
	require.Zero(t, folded, "the snapshot has all")
}

// TestMemoryRefuses: what cannot be is said, a partitioned stream with the advice to read one of its partitions.
func TestMemoryRefuses(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	for name, spoil := range map[string]func(c *projection.MemoryConfig[model]){
		"no fold":    func(c *projection.MemoryConfig[model]) { c.Fold = nil },
		"no version": func(c *projection.MemoryConfig[model]) { c.Version = -1 },
		"no name":    func(c *projection.MemoryConfig[model]) { c.Name = "a:b" },
		"no address": func(c *projection.MemoryConfig[model]) { c.Address = "shop" },
	} {
		cfg := s.memoryConfig()
		spoil(&cfg)
		_, err := projection.NewMemory(s.client, cfg)
		require.Error(t, err, name)
	}
	require.NoError(t, stream.Partition(t.Context(), s.client, s.addr.Scope, 2))
	require.ErrorIs(t, start(t, s.memory(s.memoryConfig())).wait(), stream.ErrPartitioned)
	w, err := stream.NewPartitionedWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
	require.NoError(t, err)
	_, err = w.Append(t.Context(), codec.Message{Key: "k", Data: []byte("1")})
	require.NoError(t, err)
	var all int64
	for k := range 2 {
		cfg := s.memoryConfig()
		cfg.Address += "@" + strconv.Itoa(k)
		_, folded := s.ran(cfg)
		all += folded
	}
	require.EqualValues(t, 1, all)
}
