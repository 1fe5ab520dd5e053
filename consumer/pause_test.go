package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// learns waits until a consumer has asked since now, so that it knows of a pause.
func learns(t testing.TB, p *puppet) {
	t.Helper()
	looks := p.made("take over")
	tiertest.Eventually(t, patience, func() (bool, string) {
		now := p.made("take over")
		return now >= looks+2, fmt.Sprintf("%d looks", now-looks) // the first may have been under way
	})
}

// asked waits until a consumer has asked n times more whether it is paused, and requires that it has fetched nothing.
func asked(t testing.TB, p *puppet, n int) {
	t.Helper()
	reads, due, looks := p.made("read"), p.made("due"), p.made("take over")
	tiertest.Eventually(t, patience, func() (bool, string) {
		now := p.made("take over")
		return now >= looks+n, fmt.Sprintf("%d questions, not %d", now-looks, n)
	})
	require.Equal(t, [2]int{reads, due}, [2]int{p.made("read"), p.made("due")}, "read or due while paused")
}

// A paused group's consumers finish and settle what they hold and fetch nothing: nothing new, nothing whose lease has
// ended, nothing that is due; nor does one that joins meanwhile, or is started again. Resumed, all of it is handled.
func TestAPausedGroupFetchesNothing(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, kind))
			s.append(6, 1)
			release, begun, seen := make(chan struct{}), make(chan string, 100), newTally()
			handler := func(_ context.Context, d *consumer.Delivery) error {
				begun <- d.Key
				<-release
				if seen.add(d.Key) == 1 && d.Key == "0" {
					return consumer.RetryAfter(fmt.Errorf("not yet"), time.Millisecond)
				}
				return nil
			}
			reg := prometheus.NewRegistry()
			start := func() (*puppet, *running) {
				p := newPuppet(s.source())
				return p, s.run(p, handler, consumer.Config{Concurrency: 2, MaxInFlight: 2, Registerer: reg})
			}
			var puppets []*puppet
			var last *running
			for range 3 {
				p, r := start()
				puppets, last = append(puppets, p), r
			}
			for range 6 {
				get(t, begun)
			}
			g := s.group(s.client)
			require.NoError(t, g.Pause(t.Context()))
			require.NoError(t, g.Pause(t.Context()), "again")
			require.True(t, s.info().Paused)
			close(release) // there is room now, and the first message is due again
			tiertest.Eventually(t, patience, func() (bool, string) { n := s.pending(); return n == 0, strconv.Itoa(n) })
			for _, p := range puppets {
				learns(t, p)
			}
			s.append(20, 1)
			for _, p := range puppets {
				asked(t, p, 2)
			}
			require.EqualValues(t, 20, s.info().Lag)
			require.EqualValues(t, 1, s.info().Parked)
			last.stop()
			require.NoError(t, last.wait(patience))
			for range 2 {
				p, _ := start()
				puppets = append(puppets, p)
				asked(t, p, 2)
				require.Zero(t, p.made("read"), "one that joins does not read")
			}
			require.EqualValues(t, 20, s.info().Lag)
			require.Zero(t, s.pending())
			require.Equal(t, 6, seen.deliveries())
			counted(t, reg, 1, "echomq_consumer_paused", "", "")
			require.NoError(t, g.Resume(t.Context()))
			resumed := time.Now()
			seen.reach(t, 20, patience) // 6 of the keys are the same
			s.settled(patience)
			require.Less(t, time.Since(resumed), patience/2)
			require.Equal(t, 6+1+20, seen.deliveries())
			require.False(t, s.info().Paused)
			counted(t, reg, 0, "echomq_consumer_paused", "", "")
		})
	}
}

// Consumers with room, which wait on the server for what is new, read on for three seconds at most.
func TestAPauseReachesConsumersThatWait(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	seen := newTally()
	var puppets []*puppet
	for range 3 {
		p := newPuppet(s.source())
		puppets = append(puppets, p)
		s.run(p, func(_ context.Context, d *consumer.Delivery) error { seen.add(d.Key); return nil }, consumer.Config{})
	}
	require.NoError(t, s.group(s.client).Pause(t.Context()))
	paused := time.Now()
	for _, p := range puppets {
		learns(t, p)
	}
	require.Less(t, time.Since(paused), patience/2)
	s.append(50, 1)
	for _, p := range puppets {
		asked(t, p, 2)
	}
	require.Zero(t, seen.deliveries())
	require.NoError(t, s.group(s.client).Resume(t.Context()))
	seen.reach(t, 50, patience)
	s.settled(patience)
}

// What a consumer that died has left is not taken over while the group is paused, and is when it is resumed.
func TestAPausedGroupTakesNothingOver(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.lease = 500 * time.Millisecond
	s.append(5, 1)
	gone, err := s.group(s.client).Join(t.Context(), "gone")
	require.NoError(t, err)
	leased, err := gone.Read(t.Context(), 5, 0)
	require.NoError(t, err)
	require.Len(t, leased, 5)
	require.NoError(t, s.group(s.client).Pause(t.Context()))
	p, seen := newPuppet(s.source()), newTally()
	s.run(p, func(_ context.Context, d *consumer.Delivery) error { seen.add(d.Key); return nil }, consumer.Config{})
	asked(t, p, 3) // two seconds at least: four leases
	require.Equal(t, map[string]int{gone.Name(): 5}, s.holders())
	require.NoError(t, s.group(s.client).Resume(t.Context()))
	seen.reach(t, 5, patience)
	s.settled(patience)
}

// A paused consumer asks once a second, and sends nothing else but its beats.
func TestPausedIsQuiet(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	proxy := tiertest.NewProxy(t, s.server)
	client := tiertest.Dial(t, proxy)
	p := newPuppet(consumer.Group(s.group(client)))
	s.run(p, func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{})
	require.NoError(t, s.group(s.client).Pause(t.Context()))
	learns(t, p)
	total := func() (n int) {
		for _, k := range proxy.Commands() {
			n += k
		}
		return n
	}
	asked(t, p, 1)
	before, since := total(), time.Now()
	asked(t, p, 5)
	require.LessOrEqual(t, float64(total()-before)/time.Since(since).Seconds(), 2.0, "%v", proxy.Commands())
	require.GreaterOrEqual(t, time.Since(since), 3*time.Second)
}

// A paused cursor's owner finishes what it holds and fetches nothing more, nor does the consumer that comes to own it.
func TestAPausedCursorFetchesNothing(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(2, 1)
		release, begun, seen := make(chan struct{}), make(chan string, 100), newTally()
		handler := func(_ context.Context, d *consumer.Delivery) error {
			begun <- d.Key
			<-release
			if seen.add(d.Key) == 1 && d.Key == "0" {
				return consumer.RetryAfter(fmt.Errorf("not yet"), time.Millisecond)
			}
			return nil
		}
		start := func() (*puppet, *running) {
			p := newPuppet(consumer.Exclusive(s.cursor()))
			return p, s.run(p, handler, consumer.Config{Concurrency: 2})
		}
		owner, running := start()
		get(t, begun)
		get(t, begun)
		c := s.cursor()
		require.NoError(t, c.Pause(t.Context()))
		close(release)
		learns(t, owner)
		s.append(20, 1)
		asked(t, owner, 2)
		require.Equal(t, 2, seen.deliveries(), "what it held")
		running.stop()
		require.NoError(t, running.wait(patience))
		next, _ := start()
		tiertest.Eventually(t, patience, func() (bool, string) { n := next.made("take over"); return n >= 3, strconv.Itoa(n) })
		require.Equal(t, 2, seen.deliveries(), "whoever owns it")
		require.NoError(t, c.Resume(t.Context()))
		tiertest.Eventually(t, patience, func() (bool, string) {
			n := seen.deliveries()
			return n == 2+1+20, strconv.Itoa(n)
		})
	})
}
