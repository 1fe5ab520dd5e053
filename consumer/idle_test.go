package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// B10: an idle consumer sends at most two commands a second, whatever its lease; and one connection serves all its
// waiting (B49).
func TestIdleIsQuiet(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{2 * time.Second, 30 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
			s.lease = lease
			proxy := tiertest.NewProxy(t, s.server)
			s.append(5, 1)
			seen := newTally()
			s.run(consumer.Group(s.group(tiertest.Dial(t, proxy))), func(_ context.Context, d *consumer.Delivery) error {
				seen.add(d.Key)
				return nil
			}, consumer.Config{})
			seen.reach(t, 5, patience)
			s.settled(patience)
			total := func() (n int) {
				for _, k := range proxy.Commands() {
					n += k
				}
				return n
			}
			<-time.After(time.Second) // the last busy wait
			before, connections, span := total(), proxy.Connections(), 8*time.Second
			<-time.After(span)
			require.LessOrEqual(t, float64(total()-before)/span.Seconds(), 2.0, "%v", proxy.Commands())
			require.Equal(t, connections, proxy.Connections())
		})
	}
}

// B10, B49, B52: a consumer that has joined, a writer that runs and a reader that follows, with nothing to do, send at
// most two commands a second each for the consumer and the reader, and the writer none; on as many connections all along.
func TestIdleTogether(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(5, 1)
	proxy := tiertest.NewProxy(t, s.server)
	client := tiertest.Dial(t, proxy)
	ctx, cancel := context.WithCancel(t.Context())
	var running conc.WaitGroup
	defer func() { cancel(); running.Wait() }()

	seen := newTally()
	s.run(consumer.Group(s.group(client)), func(_ context.Context, d *consumer.Delivery) error {
		seen.add(d.Key)
		return nil
	}, consumer.Config{})
	w, err := stream.NewWriter(client, stream.WriterConfig{Address: s.addr.String()})
	require.NoError(t, err)
	running.Go(func() { _ = w.Run(ctx) })
	reader, err := stream.NewReader(client, stream.ReaderConfig{Address: s.addr.String()})
	require.NoError(t, err)
	followed := newTally()
	running.Go(func() {
		for record, err := range reader.Tail(ctx, codec.EntryID{}) {
			if err != nil {
				t.Error(err)
				return
			}
			followed.add(string(record.Data))
		}
	})
	<-w.Ready()
	require.NoError(t, w.Publish(ctx, codec.Message{Key: "5", Data: []byte("5")}, nil))
	seen.reach(t, 6, patience)
	followed.reach(t, 6, patience)
	s.settled(patience)

	total := func() (n int) {
		for _, k := range proxy.Commands() {
			n += k
		}
		return n
	}
	<-time.After(time.Second) // the last busy wait
	before, connections, start := total(), proxy.Connections(), time.Now()
	<-time.After(8 * time.Second)
	sent := float64(total()-before) / time.Since(start).Seconds()
	t.Logf("%.2f commands a second", sent)
	require.LessOrEqual(t, sent, 4.0, "%v", proxy.Commands())
	require.Positive(t, sent)
	require.Equal(t, connections, proxy.Connections())

	require.NoError(t, w.Publish(ctx, codec.Message{Key: "6", Data: []byte("6")}, nil)) // all three are still at work
	seen.reach(t, 7, patience)
	followed.reach(t, 7, patience)
}
