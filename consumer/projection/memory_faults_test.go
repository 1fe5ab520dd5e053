package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestBadMemorySnapshots: whatever is wrong with a snapshot, the messages are folded from the first, with a warning.
func TestBadMemorySnapshots(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 20, 3, 1)
		for name, spoil := range map[string]func(){
			"no state":    func() { s.raw("HDEL", s.snapshotKey(), "state") },
			"garbage":     func() { s.raw("HSET", s.snapshotKey(), "state", "\xc1\xff") },
			"no snapshot": func() { s.raw("HDEL", s.snapshotKey(), "at") },
			"of another":  func() { s.raw("DEL", s.snapshotKey()); s.raw("SADD", s.snapshotKey(), "x") },
			"newer":       func() { s.raw("HSET", s.snapshotKey(), "at", "9999999999999-0", "entry", "9999999999999-0") },
		} {
			require.NoError(t, projection.DropSnapshot(t.Context(), s.client, s.addr.String(), "tallies", 1))
			_, folded := s.ran(s.memoryConfig())
			require.EqualValues(t, 20, folded)
			spoil()
			var out bytes.Buffer
			cfg := s.memoryConfig()
			cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
			state, folded := s.ran(cfg)
			require.EqualValues(t, 20, folded, name)
			require.Equal(t, s.want(), state, name)
			require.Contains(t, out.String(), "snapshot not used", name)
		}
	})
}

// TestMemoryOfATrimmedLog: a snapshot spares what was trimmed before it; what was lost after it is an error that says what to do, and
// nothing is folded over the gap.
func TestMemoryOfATrimmedLog(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 50, 3, 1)
		_, _ = s.ran(s.memoryConfig())
		s.append(50, 10, 3, 1)
		want := s.want()
		s.raw("XTRIM", s.addr.LogKey(), "MAXLEN", "10")
		state, folded := s.ran(s.memoryConfig())
		require.EqualValues(t, 10, folded)
		require.Equal(t, want, state)

		s.append(60, 10, 3, 1)
		s.raw("XTRIM", s.addr.LogKey(), "MAXLEN", "9")
		cfg := s.memoryConfig()
		count, _ := counted(&cfg)
		m := s.memory(cfg)
		err := start(t, m).wait()
		var gap *projection.GapError
		require.ErrorAs(t, err, &gap)
		require.ErrorIs(t, err, stream.ErrTrimmed)
		require.ErrorContains(t, err, "projection.DropSnapshot")
		require.Zero(t, count.Load())
		require.NoError(t, projection.DropSnapshot(t.Context(), s.client, s.addr.String(), "tallies", 1))
		state, folded = s.ran(s.memoryConfig())
		require.EqualValues(t, 9, folded)
		require.Equal(t, s.want(), state)
	})
}

// TestMemoryOfALostLog: a server that forgets everything ends whoever had folded it, its state is not kept, and the next begins with
// the log that is there then.
func TestMemoryOfALostLog(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Private(t, kind))
			s.append(0, 20, 3, 1)
			cfg := s.memoryConfig()
			cfg.SnapshotEvery = time.Millisecond
			m := s.memory(cfg)
			r := start(t, m)
			ready(t, m)
			s.server.Command(t, "FLUSHALL")
			s.append(100, 5, 3, 1)
			var gap *projection.GapError
			require.ErrorAs(t, r.wait(), &gap)
			var trimmed *stream.TrimmedError
			require.ErrorAs(t, gap, &trimmed)
			require.True(t, trimmed.Lost)
			state, folded := s.ran(s.memoryConfig())
			require.EqualValues(t, 5, folded)
			require.Equal(t, s.want(), state)
		})
	}
}

// TestMemoryFoldFails: a fold that fails, or panics, ends Run with the place of the message, and nothing is kept of a state that it may
// have changed; what cannot be read is passed over.
func TestMemoryFoldFails(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(0, 5, 1, 1)
	poison := errors.New("poison")
	for name, fail := range map[string]func() error{"an error": func() error { return poison }, "a panic": func() error { panic(poison) }} {
		cfg := s.memoryConfig()
		cfg.SnapshotEvery = time.Millisecond
		cfg.Fold = func(m model, d *consumer.Delivery) (model, error) {
			m, err := addAll(m, d)
			if string(d.Data) == "3" { // and the state has changed
				return m, fail()
			}
			return m, err
		}
		err := start(t, s.memory(cfg)).wait()
		require.ErrorIs(t, err, poison, name)
		r, readErr := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
		require.NoError(t, readErr)
		newest, readErr := r.Last(t.Context(), 2)
		require.NoError(t, readErr)
		require.ErrorContains(t, err, newest[0].Position.String(), name)
		state, _ := s.ran(s.memoryConfig())
		require.Equal(t, s.want(), state, name)
		require.NoError(t, projection.DropSnapshot(t.Context(), s.client, s.addr.String(), "tallies", 1))
	}
	cfg := s.memoryConfig()
	cfg.Version = 2
	cfg.Upcasts = codec.Upcasts{"": func(m *codec.Message) error {
		if string(m.Data) == "3" {
			return poison
		}
		m.Type = "number"
		return nil
	}}
	_, folded := s.ran(cfg)
	require.EqualValues(t, 4, folded)
}

// The test binary, started again with this in its environment, is a process that runs a Memory until it is killed.
const memoryChildEnv = "PROJECTION_TEST_MEMORY"

func memoryChild(address string) int {
	url, of, _ := strings.Cut(address, " ")
	client, err := tier.Dial(context.Background(), url, tier.Options{})
	if err == nil {
		var m *projection.Memory[model]
		m, err = projection.NewMemory(client, projection.MemoryConfig[model]{
			Address: of, Name: "tallies", New: newModel, Fold: addAll, SnapshotEvery: 10 * time.Millisecond,
		})
		if err == nil {
			err = m.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestKilledMemory: after a process is killed, the next folds only what came after the snapshot that it had kept.
func TestKilledMemory(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(0, 300, 5, 4)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), memoryChildEnv+"="+server.URL()+" "+s.addr.String())
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		r, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.addr.String()})
		require.NoError(t, err)
		newest, err := r.Last(t.Context(), 1)
		require.NoError(t, err)
		tiertest.Eventually(t, patience, func() (bool, string) {
			at := s.raw("HGETALL", s.snapshotKey())["at"]
			return at == newest[0].Addr.String(), at
		})
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		s.append(300, 12, 5, 1)
		state, folded := s.ran(s.memoryConfig())
		require.EqualValues(t, 12, folded)
		require.Equal(t, s.want(), state)
	})
}
