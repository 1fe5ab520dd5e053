package consumer_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// Every message reaches a handler once, with its own id and contents; then nothing is pending.
func TestFlow(t *testing.T) {
	t.Parallel()
	const n = 10_000
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, tc := range []struct {
			name string
			pack int
		}{{"plain", 1}, {"packs", 100}, {"large packs", 4096}} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, server)
				ids := s.append(n, tc.pack)
				seen := newTally()
				var mu sync.Mutex
				got := map[string]codec.ID{}
				reg := prometheus.NewRegistry()
				r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
					mu.Lock()
					got[d.Key] = d.ID
					mu.Unlock()
					if string(d.Data) != d.Key || d.Type != "order.placed" || d.Attempt != 1 {
						t.Errorf("message %s is not as it was written: %+v", d.Key, d)
					}
					seen.add(d.Key)
					return nil
				}, consumer.Config{Registerer: reg})
				seen.reach(t, n, patience)
				s.settled(patience)
				r.stop()
				require.NoError(t, r.wait(patience))

				require.Equal(t, n, seen.deliveries(), "nothing fails here, so nothing comes twice")
				for i, id := range ids {
					require.Equal(t, id, got[strconv.Itoa(i)])
				}
				require.Zero(t, s.info().Consumers, "the consumer has left")
				require.Zero(t, s.info().Lag)
				counted(t, reg, n, "echomq_consumer_deliveries_total", "outcome", "ok")
				counted(t, reg, (n+tc.pack-1)/tc.pack, "echomq_consumer_settled_entries_total", "", "")
				require.Zero(t, sum(t, reg, "echomq_consumer_in_flight_messages", "", ""))
			})
		}
	})
}

// Three consumers share a stream, and what is appended while they wait.
func TestSharing(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 3000
		s := newStage(t, server)
		seen, by := newTally(), newTally()
		for i := range 3 {
			s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
				by.add(strconv.Itoa(i))
				seen.add(d.Key)
				return nil
			}, consumer.Config{Concurrency: 2, MaxInFlight: 20})
		}
		s.append(n, 1)
		seen.reach(t, n, patience)
		s.settled(patience)
		require.Equal(t, n, seen.deliveries())
		require.Equal(t, 3, by.distinct(), "each has its share")
	})
}

// An entry of another program reaches the handler with its raw fields.
func TestForeign(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		s.raw("*", "sensor", "7", "value", "")
		s.append(1, 1)
		got := make(chan *consumer.Delivery, 3)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			got <- d
			return nil
		}, consumer.Config{Concurrency: 1})
		require.False(t, get(t, got).Foreign())
		d := get(t, got)
		require.True(t, d.Foreign())
		require.NoError(t, d.Err)
		require.Equal(t, []string{"sensor", "7", "value", ""}, d.Fields)
		require.False(t, get(t, got).Foreign())
		s.settled(patience)
	})
}

// B84, B85, B86: what cannot be decoded, be it the first entry, a length that is a lie or a deep nest, goes to the dead
// letters with its fields and the reason, and stops nobody.
func TestPoison(t *testing.T) {
	t.Parallel()
	deep := make([]byte, 0, 20_000)
	for range 10_000 {
		deep = append(deep, 0x91)
	}
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		poison := []string{"\xff garbage", "\x95\x01\xdd\xff\xff\xff\xff", string(deep), ""}
		s.append(1, 1) // declares the stream
		for _, bytes := range poison {
			s.raw("*", "m", bytes)
		}
		s.raw("*", "b", "\x94\x01\x02\x00\xc4\x03abc")
		s.append(10, 5)
		seen := newTally()
		reg := prometheus.NewRegistry()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			return nil
		}, consumer.Config{Registerer: reg})
		seen.reach(t, 10, patience)
		s.settled(patience)

		dead := s.letters()
		require.Len(t, dead, len(poison)+1)
		bodies := map[string]bool{}
		for _, letter := range dead {
			require.Contains(t, letter["reason"], "undecodable")
			require.Equal(t, "1", letter["attempts"])
			require.NotEmpty(t, letter["entry"])
			bodies[letter["m"]] = true
		}
		for _, bytes := range poison {
			require.True(t, bodies[bytes], "the raw bytes are kept")
		}
		require.Equal(t, 11, seen.deliveries())
		counted(t, reg, len(poison)+1, "echomq_consumer_dead_messages_total", "cause", "undecodable")
	})
}

// B85: the group's first entry is garbage, and there is nothing else.
func TestPoisonAlone(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		s.do("XTRIM", "MAXLEN", "0")
		s.raw("*", "m", "garbage")
		s.run(s.source(), func(context.Context, *consumer.Delivery) error {
			t.Error("garbage was handled")
			return nil
		}, consumer.Config{})
		tiertest.Eventually(t, patience, func() (bool, string) { return len(s.letters()) == 1, "no dead letter" })
		s.settled(patience)
	})
}

// TestUpcasts: handlers see the newest version of each type, of packs too; what a rule fails on, or panics on, goes to the
// dead letters alone, with its bytes as they are, and may be redriven when the rule is mended.
func TestUpcasts(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(10, 1)
		s.append(10, 5)
		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Type + " " + d.Key)
			return nil
		}, consumer.Config{Upcasts: codec.Upcasts{"order.placed": func(m *codec.Message) error {
			switch m.Key {
			case "3":
				return errMailbox
			case "4":
				panic("no such field")
			}
			m.Type = "order.placed.v2"
			return nil
		}}})
		seen.reach(t, 8, patience)
		s.settled(patience)
		letters := s.letters()
		require.Len(t, letters, 4)
		for _, letter := range letters {
			require.Contains(t, letter["reason"], "upcast")
			var m codec.Message
			_, err := codec.DecodeMessage([]byte(letter["m"]), &m)
			require.NoError(t, err)
			require.Equal(t, "order.placed", m.Type)
			require.Contains(t, []string{"3", "4"}, m.Key)
		}
		require.Equal(t, 16, seen.deliveries())
		for _, key := range []string{"0", "9"} {
			require.Equal(t, 2, seen.count("order.placed.v2 "+key))
		}
	})
}
