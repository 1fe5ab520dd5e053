package stream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestFsync: an append is acknowledged when it is on the server's disk; where it does not get there it ends with ErrNotSynced, of unknown
// outcome, and stands once.
func TestFsync(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind, "--appendonly", "yes", "--appendfsync", "no")
			f := setUp(t, s)
			f.client = patient(t, s, time.Second)
			w := f.writer(stream.WriterConfig{Fsync: true, RetryFor: time.Second})
			_, err := w.AppendBatch(f.ctx, messages(2))
			require.ErrorIs(t, err, tier.ErrNotSynced)
			require.True(t, tier.OutcomeUnknown(err))
			f.append(f.writer(stream.WriterConfig{}), 1)

			f.do("CONFIG", "SET", "appendfsync", "everysec")
			f.append(w, 2)
			f.do("CONFIG", "SET", "appendfsync", "always")
			f.append(w, 2)
			replicated := f.writer(stream.WriterConfig{Fsync: true, Replicas: 1, RetryFor: time.Second})
			_, err = replicated.AppendBatch(f.ctx, messages(1))
			require.ErrorIs(t, err, tier.ErrNotSynced, "there is no replica")
			f.do("CONFIG", "SET", "appendonly", "no")
			_, err = w.AppendBatch(f.ctx, messages(1))
			require.ErrorIs(t, err, tier.ErrNotSynced)
			require.Len(t, f.all(), 2+1+2+2+1+1)
		})
	}
}

// TestFsyncWithoutAFile: there is nothing to wait for, and Redis 7.0 has no WAITAOF.
func TestFsyncWithoutAFile(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Redis)
	f := setUp(t, s)
	f.client = patient(t, s, time.Second)
	_, err := f.writer(stream.WriterConfig{Fsync: true, RetryFor: time.Second}).AppendBatch(f.ctx, messages(1))
	require.ErrorIs(t, err, tier.ErrNotSynced)
}
