package consumer_test

import (
	"context"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// B1, B2, B62: entries trimmed while they were pending are cleared in one round, counted as lost to retention, and never
// reach a handler; the rest of the list does, and the consumer goes on.
func TestTrimmedWhilePending(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		ids := s.append(5, 1)
		dead, err := s.source().Join(t.Context(), "dead")
		require.NoError(t, err)
		leased, err := dead.Read(t.Context(), 5, 0)
		require.NoError(t, err)
		require.Len(t, leased, 5)
		s.do("XTRIM", "MAXLEN", "2")
		require.Equal(t, 5, s.pending())

		seen := newTally()
		reg := prometheus.NewRegistry()
		r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if slices.Contains(ids[:3], d.ID) || slices.Contains(ids[3:], d.ID) != (d.Attempt == 2) || len(d.Data) == 0 {
				t.Errorf("handled %+v", d)
			}
			seen.add(d.ID.String())
			return nil
		}, consumer.Config{Registerer: reg})
		seen.reach(t, 2, patience)
		s.settled(patience)

		s.append(3, 1) // it goes on
		seen.reach(t, 5, patience)
		s.settled(patience)
		r.stop()
		require.NoError(t, r.wait(patience))
		require.Equal(t, 5, seen.deliveries())
		counted(t, reg, 3, "echomq_consumer_lost_entries_total", "cause", "retention")
		require.Zero(t, sum(t, reg, "echomq_consumer_lost_entries_total", "cause", "lease"))
		counted(t, reg, 2, "echomq_consumer_taken_over_entries_total", "", "")
	})
}

// An entry that was trimmed, or settled by another program, while it is handled: the handler goes on, nothing is settled
// for it, and it is counted.
func TestGoneWhileHandled(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, tc := range []struct {
			name   string
			remove func(s *stage, entry string)
		}{
			{"trimmed", func(s *stage, _ string) { s.do("XTRIM", "MAXLEN", "0") }},
			{"settled by another program", func(s *stage, entry string) { s.do("XACK", groupName, entry) }},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, server)
				s.append(1, 1)
				entered, leave := make(chan string, 1), make(chan struct{})
				reg := prometheus.NewRegistry()
				s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) error {
					if d.Attempt != 1 {
						t.Errorf("attempt %d", d.Attempt)
					}
					entered <- d.Position.Entry.String()
					<-leave
					return ctx.Err()
				}, consumer.Config{Concurrency: 1, MaxInFlight: 1, Registerer: reg})
				tc.remove(s, get(t, entered))
				counted(t, reg, 1, "echomq_consumer_lost_entries_total", "cause", "gone")
				close(leave)
				counted(t, reg, 0, "echomq_consumer_in_flight_messages", "", "")
				require.Zero(t, sum(t, reg, "echomq_consumer_settled_entries_total", "", ""))
				counted(t, reg, 1, "echomq_consumer_deliveries_total", "outcome", "ok")
				s.append(1, 1) // there is room for it
				get(t, entered)
				s.settled(patience)
			})
		}
	})
}
