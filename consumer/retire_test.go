package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A process that was killed while it held entries is not retired, however long it has been silent, before others have
// taken those over; none of them is lost.
func TestAKilledProcessIsRetiredWithoutALoss(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, kind))
			w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD"})
			require.NoError(t, err)
			_, err = w.Append(t.Context(), codec.Message{Key: hangKey})
			require.NoError(t, err)
			s.append(n, 1)
			all := newTally()
			victim := s.spawn(all)
			victim.handled.reach(t, 1_000, patience)
			require.Error(t, victim.end(syscall.SIGKILL))
			held := s.holders()
			require.Len(t, held, 1, "it was killed at work")
			g := s.group(s.client)
			require.NoError(t, g.Pause(t.Context())) // so that nobody takes anything over yet
			other, err := g.Join(t.Context(), "other")
			require.NoError(t, err)
			beat := func(at time.Time) {
				for name := range held {
					key := s.addr.OwnersKey(groupName)
					text := strconv.FormatInt(at.UnixMilli(), 10)
					_, err := s.client.Do(t.Context(), key, s.client.B().Hset().Key(key).FieldValue().FieldValue(name+":beat", text).Build())
					require.NoError(t, err)
				}
			}
			longAgo := time.UnixMilli(1)
			beat(longAgo)
			require.NoError(t, other.Retire(t.Context()))
			require.Equal(t, held, s.holders(), "it holds what it held")
			beat(time.Now().Add(time.Hour)) // those who take it over are not to retire it before they are looked at
			require.NoError(t, g.Resume(t.Context()))
			s.run(s.source(), tallied(all), consumer.Config{})
			all.reach(t, n+1, patience)
			s.settled(patience)
			for name := range held {
				require.Contains(t, s.owners(), name)
				beat(longAgo)
				require.NoError(t, other.Retire(t.Context()))
				tiertest.Eventually(t, patience, func() (bool, string) { return !s.owners()[name], fmt.Sprint(s.owners()) })
			}
		})
	}
}

// tallied is a handler that counts.
func tallied(all *tally) consumer.Handler {
	return func(_ context.Context, d *consumer.Delivery) error { all.add(d.Key); return nil }
}
