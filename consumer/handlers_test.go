package consumer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestOneNameTwice (B54): two consumers of one name are two members: neither takes what the other holds.
func TestOneNameTwice(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		entered, leave := make(chan string, 4), make(chan struct{})
		h := func(_ context.Context, d *consumer.Delivery) error {
			entered <- d.Key
			<-leave
			return nil
		}
		cfg := consumer.Config{Name: "worker", Concurrency: 1, MaxInFlight: 1}
		s.run(s.source(), h, cfg)
		s.run(s.source(), h, cfg)
		s.append(2, 1)
		require.NotEqual(t, get(t, entered), get(t, entered))
		require.Len(t, s.holders(), 2)
		close(leave)
		s.settled(patience)
	})
}

// TestPublishWhileStopping (B98): what a handler appends during a stop is appended; the client and its writers are the caller's, and
// outlive the consumer.
func TestPublishWhileStopping(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.Scope + "/out"})
		require.NoError(t, err)
		entered, stopping := make(chan struct{}), make(chan struct{})
		var appended codec.ID
		r := s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) (err error) {
			close(entered)
			<-stopping
			appended, err = w.Append(ctx, codec.Message{Key: d.Key})
			return err
		}, consumer.Config{})
		s.append(1, 1)
		get(t, entered)
		r.stop()
		close(stopping)
		require.NoError(t, r.wait(patience))
		require.False(t, appended.IsZero())
		require.Zero(t, s.pending())
	})
}

// TestStopFromInside (B101): a handler may stop its own consumer, and several may at once.
func TestStopFromInside(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		begin := make(chan *running, 1)
		both := make(chan struct{}, 2)
		r := s.run(s.source(), func(context.Context, *consumer.Delivery) error {
			r := <-begin
			begin <- r
			both <- struct{}{}
			r.stop()
			return nil
		}, consumer.Config{Concurrency: 2})
		begin <- r
		s.append(2, 1)
		require.NoError(t, r.wait(patience))
		require.NotEmpty(t, both)
	})
}
