package consumer_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
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
			retire := func() {
				for name := range held {
					key := s.addr.OwnersKey(groupName)
					_, err := s.client.Do(t.Context(), key, s.client.B().Hset().Key(key).FieldValue().FieldValue(name+":beat", "1").Build())
					require.NoError(t, err)
				}
				require.NoError(t, other.Retire(t.Context()))
			}
			retire()
			require.Equal(t, held, s.holders(), "it holds what it held")
			require.NoError(t, g.Resume(t.Context()))
			s.run(s.source(), tallied(all), consumer.Config{})
			all.reach(t, n, patience)
			s.settled(patience)
			for name := range held {
				require.Contains(t, s.owners(), name)
				retire()
				tiertest.Eventually(t, patience, func() (bool, string) { return !s.owners()[name], fmt.Sprint(s.owners()) })
			}
		})
	}
}

// tallied is a handler that counts.
func tallied(all *tally) consumer.Handler {
	return func(_ context.Context, d *consumer.Delivery) error { all.add(d.Key); return nil }
}
