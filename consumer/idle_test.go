package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
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
