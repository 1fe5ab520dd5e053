package retention_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/retention/replay"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// BenchmarkReplay replays 200,000 messages of 200 bytes, from segments on the disk and from the log.
func BenchmarkReplay(b *testing.B) {
	const messages = 200_000
	s := newStage(b, tiertest.Shared(b, tiertest.Valkey))
	s.append("orders", messages, 200)
	store, err := archive.OpenDirectory("file://" + b.TempDir())
	require.NoError(b, err)
	archived, err := archive.NewReader(store, archive.ReaderConfig{Address: s.address("orders")})
	require.NoError(b, err)
	run := func(b *testing.B, r *retention.Reader) {
		job, err := replay.New(r, replay.Config{})
		require.NoError(b, err)
		for b.Loop() {
			n := 0
			require.NoError(b, job.Run(s.ctx, func(context.Context, *consumer.Delivery) error { n++; return nil }))
			require.Equal(b, messages, n)
		}
		b.ReportMetric(float64(messages)*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	}
	b.Run("log", func(b *testing.B) { run(b, s.reader("orders", retention.ReaderConfig{})) })
	s.declare("orders", stream.Retention{MaxLength: 1, Exact: true, Archive: "file:///store", SegmentAge: time.Millisecond})
	sw := s.sweeper(retention.SweeperConfig{
		Settle: time.Millisecond, Temp: b.TempDir(),
		Stores: func(context.Context, string) (archive.Store, error) { return store, nil },
	})
	_, err = sw.Archive(s.ctx)
	require.NoError(b, err)
	_, err = sw.Once(s.ctx)
	require.NoError(b, err)
	require.LessOrEqual(b, s.holdings("orders").Length, int64(1))
	for r, err := range archived.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(b, err)
		require.Len(b, r.Data, 200)
		break
	}
	b.Run("segments", func(b *testing.B) { run(b, s.reader("orders", retention.ReaderConfig{Archive: archived})) })
}
