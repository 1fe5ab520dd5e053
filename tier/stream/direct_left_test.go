package stream_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestDirectLeft: where what was begun is given up before it is answered, since its time is over, the writer goes on.
func TestDirectLeft(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{RetryFor: time.Nanosecond})
	f.append(w, 1)
	ctx, cancel := context.WithTimeout(f.ctx, soon)
	defer cancel()
	var wg sync.WaitGroup
	for range 150 {
		wg.Go(func() {
			for range 20 {
				if _, err := w.Append(ctx, codec.Message{}); err != nil && !tier.OutcomeUnknown(err) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, ctx.Err())
}
