package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// collect is a handler that adds the keys of messages to a tally.
func collect(seen *tally) consumer.Handler {
	return func(_ context.Context, d *consumer.Delivery) error {
		seen.add(d.Key)
		return nil
	}
}

// TestConsumerHeals (B28, B29, B36): a server that loses what it knew does not end a consumer, and what exists is handled.
// The loss is told in one line and in a metric.
func TestConsumerHeals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		lose func(s *stage)
		how  tier.Rebuild
		line string
	}{
		{"B28: flushed", func(s *stage) { s.other("FLUSHALL") }, tier.Restarted, "the server had lost the stream"},
		{"B29: log deleted", func(s *stage) { s.other("DEL", s.addr.LogKey()) }, tier.Restarted, "the server had lost the stream"},
		{"group destroyed", func(s *stage) { s.other("XGROUP", "DESTROY", s.addr.LogKey(), groupName) }, tier.Resumed, "the server had lost the group"},
	} {
		for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
			t.Run(tc.name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, tiertest.Private(t, kind))
				reg := prometheus.NewRegistry()
				var out logBuffer
				seen := newTally()
				r := s.run(s.source(), collect(seen), consumer.Config{Registerer: reg, Logger: out.logger()})
				w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD"})
				require.NoError(t, err)
				put := func(from, to int) {
					var ms []codec.Message
					for i := from; i < to; i++ {
						ms = append(ms, codec.Message{Key: fmt.Sprint(i)})
					}
					_, err := w.AppendBatch(t.Context(), ms)
					require.NoError(t, err)
				}
				put(0, 20)
				seen.reach(t, 20, patience)
				for loss := range 2 { // the second too soon after the first for a repeated warning
					s.settled(patience)
					s.floorAt(s.info().LastDelivered)
					tc.lose(s)
					put(20+10*loss, 30+5*loss) // fewer than the log had
					seen.reach(t, 30+5*loss, patience)
					s.settled(patience)
					require.Equal(t, float64(1+loss), sum(t, reg, "echomq_consumer_rebuilds_total", "how", string(tc.how)))
					require.Equal(t, 1+loss, strings.Count(out.String(), tc.line), out.String())
				}
				r.stop()
				require.NoError(t, r.wait(patience))
			})
		}
	}
}

// TestHealIsBounded (B36): what comes again when the server loses a group is what was settled since the last checkpoint; an
// orderly stop makes one, so that nothing comes again after it.
func TestHealIsBounded(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(50, 1)
		first := newTally()
		r := s.run(s.source(), collect(first), consumer.Config{})
		first.reach(t, 50, patience)
		r.stop()
		require.NoError(t, r.wait(patience))
		s.other("XGROUP", "DESTROY", s.addr.LogKey(), groupName)

		s.raw("*", "m", "not ours")
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
		require.NoError(t, err)
		_, err = w.Append(t.Context(), codec.Message{Key: "after"})
		require.NoError(t, err)
		second := newTally()
		r = s.run(s.source(), collect(second), consumer.Config{})
		second.reach(t, 1, patience)
		require.Equal(t, 1, second.count("after"))
		r.stop()
		require.NoError(t, r.wait(patience))
	})
}

// TestCheckpointWhileAtWork: a consumer that never stops writes down how far its group is, with its beats.
func TestCheckpointWhileAtWork(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.run(s.source(), nothing, consumer.Config{})
	ids := s.append(5, 1)
	s.floorAt(ids[4].ServerEntry())
}

// floorAt waits until it is written down that all up to e is settled.
func (s *stage) floorAt(e codec.EntryID) {
	s.t.Helper()
	key := s.addr.GroupKey(groupName)
	tiertest.Eventually(s.t, patience, func() (bool, string) {
		m, err := s.client.Do(context.Background(), key, s.client.B().Hget().Key(key).Field(tier.FloorField).Build())
		require.NoError(s.t, err)
		floor, err := m.ToString()
		require.NoError(s.t, err)
		return floor == e.String(), floor
	})
}

// TestGroupGoesBack (B36): a server that comes back with an older state gives out again what was handled. The consumer goes
// on, and says so.
func TestGroupGoesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	reg := prometheus.NewRegistry()
	seen := newTally()
	r := s.run(s.source(), collect(seen), consumer.Config{Registerer: reg})
	s.append(5, 1)
	seen.reach(t, 5, patience)
	s.settled(patience)
	s.other("XGROUP", "SETID", s.addr.LogKey(), groupName, "0-0") // as a stale append-only file leaves it
	tiertest.Eventually(t, patience, func() (bool, string) {
		return seen.count("0") == 2 && seen.count("4") == 2, fmt.Sprint(seen.deliveries(), " deliveries")
	})
	require.Equal(t, 1.0, sum(t, reg, "echomq_consumer_rewinds_total", "", ""))
	r.stop()
	require.NoError(t, r.wait(patience))
}

// TestJoinWaits (B148): a consumer that starts while its server is loading, or away, waits for it.
func TestJoinWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	tries := 0
	c, err := consumer.New(sourceFunc(func(ctx context.Context, prefix string) (consumer.Member, error) {
		if tries++; tries < 4 {
			return nil, tier.Wrap("create_group", "k", tier.ErrLoading)
		}
		return s.source().Join(ctx, prefix)
	}), nothing, consumer.Config{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	get(t, c.Ready())
	stop()
	require.NoError(t, get(t, done))
	require.Equal(t, 4, tries)
}

type sourceFunc func(ctx context.Context, prefix string) (consumer.Member, error)

func (f sourceFunc) Join(ctx context.Context, prefix string) (consumer.Member, error) {
	return f(ctx, prefix)
}
