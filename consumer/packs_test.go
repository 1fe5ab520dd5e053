package consumer_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// What stands in a pack behind a message whose handler hangs is handled by another worker, also when there are other packs.
func TestPackBehindHungHandler(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		const n = 100
		s.append(n, 10)
		seen := newTally()
		others := make(chan struct{})
		var left atomic.Int64
		left.Store(n - 1)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if d.Key == "3" {
				get(t, others)
			} else if left.Add(-1) == 0 {
				close(others)
			}
			seen.add(d.Key)
			return nil
		}, consumer.Config{Concurrency: 2})
		seen.reach(t, n, patience)
		s.settled(patience)
		require.Equal(t, n, seen.deliveries())
	})
}

// A message of a pack that fails comes again by itself, however it fails; its neighbours are handled once, by the worker that was at it or
// another, and count as what they are.
func TestPackWithFailures(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		const n = 40
		s.append(n, 10)
		seen := newTally()
		reg := prometheus.NewRegistry()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if seen.add(d.Key) > 1 {
				return nil
			}
			switch d.Key {
			case "3":
				return errMailbox
			case "14":
				runtime.Goexit()
			case "25":
				panic("a slip")
			case "36":
				return consumer.Permanent(errMailbox)
			}
			return nil
		}, consumer.Config{Concurrency: 1, Backoff: 1, Registerer: reg})
		seen.reach(t, n, patience)
		s.settled(patience)
		for i := range n {
			want := 1
			if i == 3 || i == 14 || i == 25 {
				want = 2
			}
			require.Equal(t, want, seen.count(strconv.Itoa(i)), "message %d", i)
		}
		require.Len(t, s.letters(), 1)
		counted(t, reg, n-1, "echomq_consumer_deliveries_total", "outcome", "ok")
		counted(t, reg, 3, "echomq_consumer_deliveries_total", "outcome", "error")
		counted(t, reg, 1, "echomq_consumer_deliveries_total", "outcome", "panic")
		counted(t, reg, 3, "echomq_consumer_settled_entries_total", "", "") // when they came again
	})
}

// A pack whose head can be read, and its messages cannot, is one dead letter, and not as many messages as it says. So is a message that no
// rule makes one of its newest type.
func TestDamagedPack(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(10, 10)
		head := codec.AppendPackHead(nil, 3, 3*6)
		s.raw("*", "b", string(append(head, make([]byte, 3*6)...)))
		s.append(10, 10)
		seen := newTally()
		reg := prometheus.NewRegistry()
		r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			return nil
		}, consumer.Config{Registerer: reg, Upcasts: codec.Upcasts{"order.placed": func(m *codec.Message) error {
			if m.Key == "7" {
				return errors.New("no")
			}
			m.Type = "order.placed.2"
			return nil
		}}})
		seen.reach(t, 9, patience)
		s.settled(patience)
		r.stop()
		require.NoError(t, r.wait(patience))
		require.Equal(t, 18, seen.deliveries())
		require.Zero(t, seen.count("7"))
		require.Len(t, s.letters(), 3)
		counted(t, reg, 3, "echomq_consumer_dead_messages_total", "cause", "undecodable")
		require.Zero(t, sum(t, reg, "echomq_consumer_in_flight_messages", "", ""))
	})
}
