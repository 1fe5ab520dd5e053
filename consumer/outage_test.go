package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// A call that was made and whose reply is lost, once for each call: what was done is not done twice, nothing is lost, and
// what the server gave out is not left lying for a lease. B46 for reads.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"read", "take over", "settle", "release", "bury", "renew", "sync"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
				const n = 300
				s := newStage(t, server)
				s.lease = 4 * time.Second
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

// B116: dead letters cannot be written, since the server is full or the user may not. What is readable is settled all the
// same, what is not stays pending and is counted; it is buried when that is possible again.
func TestLettersRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		refuse, allow func(s *stage)
	}{
		{
			"full",
			func(s *stage) { s.config("maxmemory", "1") },
			func(s *stage) { s.config("maxmemory", "0") },
		},
		{
			"a key of another type",
			func(s *stage) { s.other("SET", s.addr.DeadKey(groupName), "x") },
			func(s *stage) { s.other("DEL", s.addr.DeadKey(groupName)) },
		},
	} {
		for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
			t.Run(tc.name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, tiertest.Private(t, kind))
				s.lease = time.Second
				s.append(5, 1)
				s.raw("*", "m", "garbage")
				s.append(5, 1)
				require.NoError(t, s.group(s.client).Create(t.Context()))
				source := consumer.Group(s.group(s.client))
				reg := prometheus.NewRegistry()
				seen := newTally()
				p := newPuppet(source)
				p.before = func(_ context.Context, call string) error {
					if call == "read" && p.made("read") == 1 {
						tc.refuse(s)
					}
					return nil
				}
				r := s.run(p, func(_ context.Context, d *consumer.Delivery) error {
					seen.add(d.Position.String())
					return nil
				}, consumer.Config{Registerer: reg})
				seen.reach(t, 10, patience)
				tiertest.Eventually(t, patience, func() (bool, string) {
					return sum(t, reg, "echomq_consumer_bury_failures_total", "", "") >= 2, "not tried again"
				})
				counted(t, reg, 10, "echomq_consumer_settled_entries_total", "", "")
				require.Equal(t, 1, s.pending())
				tc.allow(s)
				tiertest.Eventually(t, patience, func() (bool, string) { return len(s.letters()) == 1, "not buried" })
				s.settled(patience)
				r.stop()
				require.NoError(t, r.wait(patience))
			})
		}
	}
}

func (s *stage) config(name, value string) {
	s.other("CONFIG", "SET", name, value)
}

// other runs a command past package tier.
func (s *stage) other(command ...string) {
	raw, err := tiertest.Raw(s.server)
	require.NoError(s.t, err)
	defer raw.Close()
	require.NoError(s.t, raw.Do(context.Background(), raw.B().Arbitrary(command...).Build()).Error())
}

// What waiting does not help ends Run, with the class of the error, after the handlers have finished.
func TestFatal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(s *stage)
		want error
	}{
		{"group deleted", func(s *stage) { require.NoError(s.t, s.group(s.client).Delete(s.t.Context())) }, tier.ErrNoGroup},
		{"log deleted", func(s *stage) { s.other("DEL", s.addr.LogKey()) }, tier.ErrNoGroup},
		{"key of another type", func(s *stage) {
			s.other("DEL", s.addr.LogKey())
			s.other("SET", s.addr.LogKey(), "x")
		}, tier.ErrWrongType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Private(t, tiertest.Valkey))
			s.append(1, 1)
			entered, leave := make(chan struct{}), make(chan struct{})
			r := s.run(s.source(), func(context.Context, *consumer.Delivery) error {
				close(entered)
				<-leave
				return nil
			}, consumer.Config{DrainTimeout: time.Hour})
			get(t, entered)
			tc.do(s)
			select {
			case <-r.done:
				require.Fail(t, "it did not wait for the handler")
			case <-time.After(2 * time.Second):
			}
			close(leave)
			require.ErrorIs(t, r.wait(patience), tc.want)
			if tc.want == tier.ErrWrongType {
				s.other("DEL", s.addr.LogKey()) // for the audit
			}
		})
	}
}

// B149: a right is missing. Run ends with an error that names it, and does not go round in circles.
func TestNoRight(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Private(t, tiertest.Valkey))
	s.append(3, 1)
	s.other("ACL", "SETUSER", "default", "-xack")
	r := s.run(s.source(), nothing, consumer.Config{})
	err := r.wait(patience)
	require.ErrorIs(t, err, tier.ErrPermission)
	var unsettled *consumer.UnsettledError
	require.ErrorAs(t, err, &unsettled)
	s.other("ACL", "SETUSER", "default", "+xack")
	require.Equal(t, 3, s.pending())
}

// A group is reset to its head while a consumer is at work: it is refused once, learns what it holds, and goes on from
// there. What was handled before comes again, settled or not.
func TestReset(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 200
		s := newStage(t, server)
		s.append(n, 1)
		entered, leave := make(chan struct{}, 1), make(chan struct{})
		before, after := newTally(), newTally()
		s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) error {
			if before.add(d.Key); before.distinct() > n/2 {
				select {
				case entered <- struct{}{}:
				default:
				}
				select {
				case <-leave:
				case <-ctx.Done():
					return ctx.Err()
				}
				after.add(d.Key)
			}
			return nil
		}, consumer.Config{Concurrency: 2})
		get(t, entered)
		_, err := s.group(s.client).Reset(t.Context(), stream.Head())
		require.NoError(t, err)
		close(leave)
		defer func() {
			if t.Failed() {
				t.Log(s.pending(), s.holders(), s.info(), before.seen, after.seen)
			}
		}()
		after.reach(t, n, 10*time.Second)
		s.settled(patience)
	})
}
