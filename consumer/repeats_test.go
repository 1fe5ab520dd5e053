package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRepeatsAreReplays: the handlers of a group are told of a message that repeats another.
func TestRepeatsAreReplays(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
	require.NoError(t, err)
	_, err = w.AppendBatch(t.Context(), []codec.Message{{Type: "new"}, {Type: "again", Headers: codec.Headers{{Key: codec.HeaderReplayOf, Value: "ORD000xY9Wvvcd"}}}})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	got := map[string]bool{}
	c, err := consumer.New(s.source(), func(_ context.Context, d *consumer.Delivery) error {
		if got[d.Type] = d.Replay; len(got) == 2 {
			stop()
		}
		return nil
	}, consumer.Config{Concurrency: 1})
	require.NoError(t, err)
	require.NoError(t, c.Run(ctx))
	require.Equal(t, map[string]bool{"new": false, "again": true}, got)
}
