package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// dead joins the group, reads n entries and is not heard of again.
func (s *stage) dead(n int) (name string) {
	s.t.Helper()
	m, err := s.source().Join(s.t.Context(), "dead")
	require.NoError(s.t, err)
	for left := n; left > 0; {
		leased, err := m.Read(s.t.Context(), min(left, 100), 0) // large ones take a busy machine long
		require.NoError(s.t, err)
		require.NotEmpty(s.t, leased)
		left -= len(leased)
	}
	return m.Name()
}

// B6, B17, B21: a handler that takes many leases, and the messages that wait behind it, keep theirs: they are renewed beside
// the handler, from fetch to settle. Neither this consumer nor another runs them again.
func TestLongHandler(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(5, 1)
		reg := prometheus.NewRegistry()
		entered, seen := make(chan struct{}), newTally()
		s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) error {
			if seen.add(d.Key); d.Key == "0" {
				close(entered) // a second run would panic
				select {
				case <-time.After(4 * s.lease):
				case <-ctx.Done():
				}
			}
			if d.Attempt != 1 {
				t.Errorf("message %s: attempt %d", d.Key, d.Attempt)
			}
			return ctx.Err()
		}, consumer.Config{Concurrency: 1, Registerer: reg})
		get(t, entered)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			t.Errorf("message %s was taken from a consumer that is well", d.Key)
			return nil
		}, consumer.Config{Registerer: reg})
		seen.reach(t, 5, patience)
		s.settled(patience)
		require.Equal(t, 5, seen.deliveries())
		require.Zero(t, sum(t, reg, "echomq_consumer_taken_over_entries_total", "", ""))
	})
}

// B17: a stall shorter than the lease loses nothing.
func TestShortStall(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.lease = 4 * time.Second
	s.append(1, 1)
	p := newPuppet(s.source())
	entered, leave := make(chan struct{}), make(chan struct{})
	s.run(p, func(ctx context.Context, _ *consumer.Delivery) error {
		close(entered)
		<-leave
		return ctx.Err()
	}, consumer.Config{})
	get(t, entered)
	s.run(s.source(), func(context.Context, *consumer.Delivery) error {
		t.Error("taken over")
		return nil
	}, consumer.Config{})
	for range 2 {
		beats := p.made("renew")
		tiertest.Eventually(t, patience, func() (bool, string) { return p.made("renew") > beats+1, "no renewals" })
		p.freeze()
		<-time.After(s.lease / 2)
		p.thaw()
	}
	close(leave)
	s.settled(patience)
}

// B12: what cannot be dispatched is not taken over: its delivery count would climb with nobody handling it.
func TestTakeOverOnlyWhatFits(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n, fits = 100, 5
		s := newStage(t, server)
		s.append(n, 1)
		dead := s.dead(n)
		p := newPuppet(s.source())
		leave, seen := make(chan struct{}), newTally()
		s.run(p, func(_ context.Context, d *consumer.Delivery) error {
			if seen.add(d.Key); d.Attempt != 2 {
				t.Errorf("message %s: attempt %d", d.Key, d.Attempt)
			}
			<-leave
			return nil
		}, consumer.Config{Concurrency: 1, MaxInFlight: fits})
		tiertest.Eventually(t, patience, func() (bool, string) {
			h := s.holders()
			return h[dead] == n-fits, fmt.Sprint(h)
		})
		beats := p.made("renew")
		tiertest.Eventually(t, patience, func() (bool, string) { return p.made("renew") > beats+6, "no beats" })
		require.Equal(t, n-fits, s.holders()[dead], "two leases later")
		close(leave)
		seen.reach(t, n, patience)
		s.settled(patience)
		require.Equal(t, n, seen.deliveries())
	})
}

// B13: what a consumer held that was killed is taken over by one of another name, when the lease is over and not before.
// It does not matter that the backlog is many times what fits: it is gone through in one go.
func TestBacklogOfTheDead(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 3000
		s := newStage(t, server)
		s.append(n, 1)
		given := time.Now()
		for range 3 {
			s.dead(n / 3)
		}
		var first atomic.Pointer[time.Time]
		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			now := time.Now()
			first.CompareAndSwap(nil, &now)
			if seen.add(d.Key); d.Attempt != 2 {
				t.Errorf("message %s: attempt %d", d.Key, d.Attempt)
			}
			return nil
		}, consumer.Config{MaxInFlight: 100})
		seen.reach(t, n, patience)
		require.Greater(t, first.Load().Sub(given), s.lease-10*time.Millisecond)
		require.Less(t, time.Since(*first.Load()), 45*time.Second, "30 loads at one a look would take a minute")
		s.settled(patience)
		require.Equal(t, n, seen.deliveries())
	})
}

// B4, B20: entries at the head of the pending list that cannot be taken, more than a look covers, do not hide those
// behind them.
func TestLookReachesTheTail(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const head, tail = 1500, 50
		s := newStage(t, server)
		s.append(head, 1)
		leave, seen := make(chan struct{}), newTally()
		s.run(s.source(), func(context.Context, *consumer.Delivery) error {
			<-leave
			return nil
		}, consumer.Config{Concurrency: head, MaxInFlight: head})
		defer close(leave)
		tiertest.Eventually(t, patience, func() (bool, string) { n := s.pending(); return n == head, fmt.Sprint(n) })
		s.append(tail, 1)
		s.dead(tail)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			return nil
		}, consumer.Config{})
		seen.reach(t, tail, patience)
		require.Equal(t, tail, seen.deliveries())
	})
}

// B9: old pending and new entries both get on, whichever there is more of.
func TestOldAndNewShareTheRoom(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 300
		s := newStage(t, server)
		s.append(n, 1)
		s.dead(n)
		tiertest.Eventually(t, patience, func() (bool, string) {
			idle := s.do("XPENDING", groupName, "IDLE", strconv.Itoa(int(s.lease.Milliseconds())), "-", "+", strconv.Itoa(n)).([]any)
			return len(idle) == n, "their leases are not over"
		})
		s.append(n, 1)
		order := make(chan int, 2*n)
		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			order <- d.Attempt
			seen.add(d.Position.String())
			return nil
		}, consumer.Config{Concurrency: 1, MaxInFlight: 8})
		seen.reach(t, 2*n, patience)
		share := map[int]int{}
		for range n {
			share[get(t, order)]++
		}
		require.Greater(t, share[1], n/5, "new ones among the first half")
		require.Greater(t, share[2], n/5, "old ones among the first half")
		s.settled(patience)
	})
}

// B34: members that died while they held nothing are retired by others; those that are idle are not.
func TestRetire(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.lease = 500 * time.Millisecond
		const died = 20
		for range died {
			_, err := s.source().Join(t.Context(), "died")
			require.NoError(t, err)
		}
		s.run(s.source(), nothing, consumer.Config{Name: "idle"})
		<-time.After(11 * s.lease) // after ten, a member that is silent counts as dead
		s.run(s.source(), nothing, consumer.Config{Name: "late"})
		tiertest.Eventually(t, patience, func() (bool, string) {
			n := len(s.owners())
			return n == 2, fmt.Sprint(n)
		})
		for name := range s.owners() {
			require.NotContains(t, name, "died")
		}
	})
}

// owners are the members that the group knows of.
func (s *stage) owners() map[string]bool {
	key := s.addr.OwnersKey(groupName)
	m, err := s.client.Do(context.Background(), key, s.client.B().Hkeys().Key(key).Build())
	require.NoError(s.t, err)
	fields, err := m.AsStrSlice()
	require.NoError(s.t, err)
	names := map[string]bool{}
	for _, f := range fields {
		names[strings.TrimSuffix(f, ":beat")] = true
	}
	return names
}
