package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A call that was made and whose reply is lost, once for each call: what was done is not done twice, nothing is lost, and
// what the server gave out is not left lying for a lease. B46 for reads.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"read", "take over", "settle", "commit", "due", "renew", "sync"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
				const n = 300
				s := newStage(t, server)
				s.lease = time.Hour // nothing may wait for it
				if call == "renew" {
					s.lease = 4 * time.Second
				}
				s.append(n, 1)
				s.raw("*", "m", "garbage")
				stopped := s.run(s.source(), func(ctx context.Context, _ *consumer.Delivery) error {
					<-ctx.Done()
					return ctx.Err()
				}, consumer.Config{Concurrency: 1, MaxInFlight: 5, DrainTimeout: time.Millisecond})
				tiertest.Eventually(t, patience, func() (bool, string) { return s.pending() == 5, "not read" })
				stopped.stop()
				require.NoError(t, stopped.wait(patience)) // it leaves something to take over

				p := newPuppet(s.source())
				var lost atomic.Int64
				p.after = func(name string, err error) error {
					if name == call && err == nil && lost.CompareAndSwap(0, 1) {
						return tier.Wrap(name, "", fmt.Errorf("connection cut: %w", errors.New("EOF")))
					}
					if call == "sync" && name == "read" && err == nil && lost.CompareAndSwap(0, -1) {
						lost.Store(0)
						return tier.Wrap(name, "", tier.ErrNetwork) // leads to a Sync
					}
					return err
				}
				reg := prometheus.NewRegistry()
				seen := newTally()
				var mu sync.Mutex
				var failed []string
				s.run(p, func(ctx context.Context, d *consumer.Delivery) error {
					mu.Lock()
					defer mu.Unlock()
					if len(failed) < 3 && !slices.Contains(failed, d.Key) {
						failed = append(failed, d.Key)
						return errMailbox
					}
					seen.add(d.Key)
					return nil
				}, consumer.Config{Registerer: reg, Concurrency: 4, MaxInFlight: 20})
				seen.reach(t, n, patience)
				tiertest.Eventually(t, patience, func() (bool, string) { return len(s.letters()) == 1, "nothing is buried" })
				s.settled(patience)
				require.Equal(t, n, seen.deliveries(), "nothing was repeated")
				tiertest.Eventually(t, patience, func() (bool, string) { return lost.Load() == 1, "the fault has not happened" })
			})
		})
	}
}

// What was given back after a read whose reply was lost is taken over, and that reply is lost, too: it is given back once more, and
// waits for no lease.
func TestLostReplyOfATakeOverAfterARead(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 50
		s := newStage(t, server)
		s.lease = time.Hour
		s.append(n, n)
		p := newPuppet(s.source())
		var lost atomic.Bool
		p.after = func(call string, err error) error {
			if call == "read" && p.made("release") == 0 && s.pending() > 0 ||
				call == "take over" && p.made("release") == 1 && lost.CompareAndSwap(false, true) {
				return tier.Wrap(call, "", tier.ErrNetwork)
			}
			return err
		}
		seen := newTally()
		s.run(p, func(_ context.Context, d *consumer.Delivery) error {
			seen.add(fmt.Sprint(d.Key, " attempt ", d.Attempt))
			return nil
		}, consumer.Config{})
		seen.reach(t, n, patience/4)
		s.settled(patience)
		require.Equal(t, n, seen.deliveries())
		require.Equal(t, 1, seen.count("0 attempt 1"))
	})
}

// B46 with an order: what a take-over took whose reply is lost comes before what the next one would take.
func TestLostReplyOfATakeOverKeepsTheOrder(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 8
		s := newStage(t, server)
		s.lease = time.Hour
		s.append(n, 1)
		p := newPuppet(s.source())
		var read, taken atomic.Bool
		p.after = func(call string, err error) error {
			if err == nil && (call == "read" && s.pending() > 1 && read.CompareAndSwap(false, true) ||
				call == "take over" && read.Load() && s.pending() > 1 && taken.CompareAndSwap(false, true)) {
				return tier.Wrap(call, "", tier.ErrNetwork)
			}
			return err
		}
		seen := make(chan string, n)
		s.run(p, func(_ context.Context, d *consumer.Delivery) error {
			seen <- d.Key
			return nil
		}, consumer.Config{Order: consumer.Strict, MaxInFlight: 4})
		for i := range n {
			require.Equal(t, strconv.Itoa(i), get(t, seen))
		}
		require.True(t, taken.Load())
		s.settled(patience)
	})
}

// A failed message waits for its next delivery, parked, when a call fails and the consumer asks what it holds: neither its
// pause nor its attempt is taken from it.
func TestFailedIsNotStranded(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		reg := prometheus.NewRegistry()
		p := newPuppet(s.source())
		var failed atomic.Bool
		p.before = func(_ context.Context, call string) error {
			if call == "due" && p.made("commit") == 1 && failed.CompareAndSwap(false, true) {
				return tier.Wrap(call, "", tier.ErrNetwork)
			}
			return nil
		}
		attempts := make(chan int, 10)
		s.run(p, func(_ context.Context, d *consumer.Delivery) error {
			attempts <- d.Attempt
			if d.Attempt < 3 {
				return errMailbox
			}
			return nil
		}, consumer.Config{Registerer: reg})
		for want := 1; want <= 3; want++ {
			require.Equal(t, want, get(t, attempts))
		}
		s.settled(patience)
		require.True(t, failed.Load())
		require.Greater(t, p.made("sync"), 0)
		counted(t, reg, 0, "echomq_consumer_released_entries_total", "reason", "stranded")
	})
}

// The reply to a settle is lost, and before it is repeated a renewal tells that the entry is not pending any more: it
// counts as settled, and the room that it took is free again.
func TestLostSettleThenRenewed(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(3, 1)
		reg := prometheus.NewRegistry()
		p := newPuppet(s.source())
		p.before = func(_ context.Context, call string) error {
			if call == "settle" && p.made("settle") > 1 && p.made("renew") == 0 {
				return tier.Wrap("settle", "", tier.ErrNetwork)
			}
			return nil
		}
		p.after = func(call string, err error) error {
			if call == "settle" && p.made("settle") == 1 {
				return tier.Wrap("settle", "", tier.ErrNetwork)
			}
			return err
		}
		seen := newTally()
		s.run(p, func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			return nil
		}, consumer.Config{Concurrency: 1, MaxInFlight: 1, Registerer: reg})
		seen.reach(t, 3, patience)
		s.settled(patience)
		require.Equal(t, 3, seen.deliveries())
		counted(t, reg, 3, "echomq_consumer_settled_entries_total", "", "")
		counted(t, reg, 0, "echomq_consumer_lost_entries_total", "cause", "gone")
		counted(t, reg, 0, "echomq_consumer_in_flight_messages", "", "")
	})
}

// Connections are cut again and again while messages flow.
func TestCuts(t *testing.T) {
	t.Parallel()
	const n = 5000
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, kind))
			proxy := tiertest.NewProxy(t, s.server)
			s.append(n, 1)
			seen := newTally()
			source := consumer.Group(s.group(tiertest.Dial(t, proxy)))
			cutting := make(chan struct{})
			r := s.run(source, func(_ context.Context, d *consumer.Delivery) error {
				seen.add(d.Key)
				return nil
			}, consumer.Config{MaxInFlight: 64})
			go func() {
				defer close(cutting)
				for range 50 {
					<-time.After(20 * time.Millisecond)
					proxy.Cut()
				}
			}()
			seen.reach(t, n, patience)
			<-cutting
			s.settled(patience)
			require.LessOrEqual(t, seen.deliveries(), n+64, "what was given out by a read that was cut was never begun")
			r.stop()
			require.NoError(t, r.wait(patience))
		})
	}
}

// B50, B57: the server is away, or hangs, for a while: the consumer waits for it with growing pauses, and goes on.
func TestServerAway(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		away, back func(*tiertest.Proxy)
	}{
		{"away", func(p *tiertest.Proxy) { p.Refuse(true); p.Cut() }, func(p *tiertest.Proxy) { p.Refuse(false) }},
		{"hangs", (*tiertest.Proxy).Freeze, (*tiertest.Proxy).Thaw},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
			proxy := tiertest.NewProxy(t, s.server)
			s.append(10, 1)
			seen := newTally()
			p := newPuppet(consumer.Group(s.group(tiertest.Dial(t, proxy))))
			var log logBuffer
			r := s.run(p, func(_ context.Context, d *consumer.Delivery) error {
				seen.add(d.Position.String())
				return nil
			}, consumer.Config{Logger: log.logger()})
			seen.reach(t, 10, patience)
			tc.away(proxy)
			before := calls(p)
			<-time.After(4 * time.Second)
			require.Less(t, calls(p)-before, 60, "it does not spin")
			tc.back(proxy)
			s.append(10, 1)
			seen.reach(t, 20, patience)
			s.settled(patience)
			r.stop()
			require.NoError(t, r.wait(patience))
			require.Less(t, len(log.String()), 10_000, "warnings are held back")
		})
	}
}

func calls(p *puppet) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.calls {
		n += k
	}
	return n
}

// The server goes away for good while the consumer stops: Run does not wait for ever, and says what is not settled.
func TestStopWithoutServer(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	proxy := tiertest.NewProxy(t, s.server)
	s.append(1, 1)
	entered, leave := make(chan struct{}), make(chan struct{})
	r := s.run(consumer.Group(s.group(tiertest.Dial(t, proxy))), func(context.Context, *consumer.Delivery) error {
		close(entered)
		<-leave
		return nil
	}, consumer.Config{})
	get(t, entered)
	proxy.Refuse(true)
	proxy.Cut()
	r.stop()
	close(leave)
	err := r.wait(30 * time.Second)
	var unsettled *consumer.UnsettledError
	require.ErrorAs(t, err, &unsettled)
	require.Equal(t, 1, unsettled.Entries)
	require.True(t, errors.Is(err, tier.ErrNetwork) || errors.Is(err, tier.ErrUnreachable), err)
	require.Equal(t, 1, s.pending())
}
