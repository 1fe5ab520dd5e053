package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// B16: a consumer is frozen past its lease, another takes its entries over, and the frozen one wakes. The contexts of its
// handlers end, with the cause; what it wants to settle is refused; it begins nothing of what it has lost. The new owner
// crashes, and the messages come again.
func TestFrozenConsumer(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 6 // one runs, the others wait behind it
		s := newStage(t, server)
		s.append(n, 1)
		regA := prometheus.NewRegistry()
		a, b := newPuppet(s.source()), newPuppet(s.source())
		entered, leave := make(chan context.Context, 1), make(chan struct{})
		first, again := newTally(), newTally()
		s.run(a, func(ctx context.Context, d *consumer.Delivery) error {
			if d.Attempt > 1 {
				again.add(d.Key)
				return nil
			}
			first.add(d.Key)
			entered <- ctx
			<-leave
			return nil // as if all were well
		}, consumer.Config{Concurrency: 1, Registerer: regA})
		handler := get(t, entered)
		counted(t, regA, n, "echomq_consumer_in_flight_messages", "", "")

		a.freeze()
		holds := newTally()
		s.run(b, func(ctx context.Context, d *consumer.Delivery) error {
			holds.add(d.Key)
			<-ctx.Done()
			return ctx.Err()
		}, consumer.Config{Concurrency: n})
		holds.reach(t, n, patience)
		nameB := b.member.Name()
		require.Equal(t, map[string]int{nameB: n}, s.holders())
		require.NoError(t, handler.Err(), "it does not know yet")

		syncs := a.made("sync")
		a.thaw()
		get(t, handler.Done())
		require.Equal(t, consumer.ErrLeaseLost, context.Cause(handler))
		require.Greater(t, a.made("sync"), syncs)
		settles := a.made("settle")
		close(leave)
		beats := a.made("renew") + a.made("take over")
		tiertest.Eventually(t, patience, func() (bool, string) {
			return a.made("renew")+a.made("take over") > beats+2, "it does nothing"
		})
		require.Equal(t, map[string]int{nameB: n}, s.holders(), "the frozen one has changed nothing")
		require.Equal(t, 1, first.deliveries(), "what was lost and not begun is not begun")
		require.Equal(t, settles, a.made("settle"), "there is nothing to settle")
		counted(t, regA, n, "echomq_consumer_lost_entries_total", "cause", "lease")
		counted(t, regA, 1, "echomq_consumer_deliveries_total", "outcome", "lost")

		b.freeze() // for good, as if it had crashed
		again.reach(t, n, patience)
		s.settled(patience)
		require.Equal(t, n, again.deliveries())
		b.thaw()
	})
}

// A handler finishes while its consumer is frozen: its entry is another's by the time that it could be settled.
func TestHandlerFinishesWhileFrozen(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		reg := prometheus.NewRegistry()
		a := newPuppet(s.source())
		entered, leave := make(chan struct{}), make(chan struct{})
		s.run(a, func(_ context.Context, d *consumer.Delivery) error {
			if d.Attempt == 1 {
				close(entered)
				<-leave
			}
			return nil
		}, consumer.Config{Registerer: reg})
		get(t, entered)
		a.freeze()
		close(leave)
		tiertest.Eventually(t, patience, func() (bool, string) { return a.made("settle") == 1, "no settle was tried" })

		owns, let := make(chan struct{}), make(chan struct{})
		b := newPuppet(s.source())
		s.run(b, func(context.Context, *consumer.Delivery) error {
			close(owns)
			<-let
			return nil
		}, consumer.Config{})
		get(t, owns)
		a.thaw()
		counted(t, reg, 1, "echomq_consumer_lost_entries_total", "cause", "lease")
		require.Equal(t, map[string]int{b.member.Name(): 1}, s.holders())
		require.Zero(t, sum(t, reg, "echomq_consumer_settled_entries_total", "", ""))
		close(let)
		s.settled(patience)
	})
}

// The reply of a read comes late: its entry was taken over meanwhile, of which this consumer learns by a refusal. If it
// asked for its new number before the read is back, that would let it settle the other's entry. It is neither handled nor
// settled.
func TestLateReply(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		reg := prometheus.NewRegistry()
		a := newPuppet(s.source())
		var hold atomic.Bool
		arrived, deliver := make(chan struct{}), make(chan struct{})
		refused := make(chan struct{}, 10)
		a.after = func(call string, err error) error {
			if errors.Is(err, tier.ErrFenced) {
				refused <- struct{}{}
			}
			if call == "read" && hold.Load() && s.pending() == 2 && hold.CompareAndSwap(true, false) {
				close(arrived)
				<-deliver
			}
			return err
		}
		handled, leave := make(chan string, 2), make(chan struct{})
		s.run(a, func(_ context.Context, d *consumer.Delivery) error {
			handled <- d.Position.String()
			<-leave
			return nil
		}, consumer.Config{Concurrency: 2, Registerer: reg}) // one is free to begin what it must not
		get(t, handled) // one is handled for as long as this test likes, and renewed
		hold.Store(true)
		s.append(1, 1)
		get(t, arrived)
		// What the server gave out is not known to its consumer, so nobody renews it.
		b := newPuppet(s.source())
		owns, let := make(chan string, 2), make(chan struct{})
		s.run(b, func(_ context.Context, d *consumer.Delivery) error {
			owns <- d.Position.String()
			<-let
			return nil
		}, consumer.Config{Concurrency: 1})
		get(t, owns)
		get(t, refused)
		<-time.After(200 * time.Millisecond) // in which it must not ask
		close(deliver)
		counted(t, reg, 1, "echomq_consumer_lost_entries_total", "cause", "lease")
		close(leave)
		counted(t, reg, 1, "echomq_consumer_settled_entries_total", "", "")
		require.Equal(t, map[string]int{b.member.Name(): 1}, s.holders())
		require.Empty(t, handled)
		close(let)
		s.settled(patience)
	})
}

// The same while a second read is on its way: neither what came nor what comes after it is handled, and the new number is asked for when
// both are here.
func TestLateReplyOfReadsAhead(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const first, second = 1 + 128, 128 // one, of unknown size, and shares of a quarter
		s := newStage(t, server)
		s.append(first+second, 1)
		reg := prometheus.NewRegistry()
		a := newPuppet(s.source())
		arrived, deliver := make(chan struct{}), make(chan struct{})
		refused := make(chan struct{}, 10)
		var syncs atomic.Int32
		a.after = func(call string, err error) error {
			switch {
			case errors.Is(err, tier.ErrFenced):
				refused <- struct{}{}
			case call == "read, more is on its way":
				close(arrived) // which it is once
				<-deliver
			case call == "sync":
				syncs.Add(1)
			}
			return err
		}
		handled, leave := make(chan string, first+second), make(chan struct{})
		s.run(a, func(_ context.Context, d *consumer.Delivery) error {
			handled <- d.Position.String()
			<-leave
			return nil
		}, consumer.Config{Concurrency: 2, MaxInFlight: 512, Registerer: reg})
		get(t, handled)
		get(t, arrived)
		tiertest.Eventually(t, patience, func() (bool, string) { return s.pending() == first+second, "not on its way" })
		b := newPuppet(s.source())
		owns, let := make(chan string, first+second), make(chan struct{})
		s.run(b, func(_ context.Context, d *consumer.Delivery) error {
			owns <- d.Position.String()
			<-let
			return nil
		}, consumer.Config{Concurrency: 4})
		tiertest.Eventually(t, patience, func() (bool, string) {
			return s.holders()[b.member.Name()] == first-1+second, fmt.Sprint(s.holders())
		})
		get(t, owns)
		get(t, refused)
		asked := syncs.Load()
		close(deliver)
		counted(t, reg, first-1+second, "echomq_consumer_lost_entries_total", "cause", "lease")
		require.Greater(t, syncs.Load(), asked)
		close(leave)
		counted(t, reg, 1, "echomq_consumer_settled_entries_total", "", "")
		require.Equal(t, map[string]int{b.member.Name(): first - 1 + second}, s.holders())
		require.Empty(t, handled)
		close(let)
		s.settled(patience)
	})
}

// An own entry whose renewals came too late is taken over by this consumer itself: it is in flight already, and is not
// handled again.
func TestTakesOverFromItself(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		reg := prometheus.NewRegistry()
		a := newPuppet(s.source())
		var failing atomic.Bool
		failing.Store(true)
		a.before = func(_ context.Context, call string) error {
			if call == "renew" && failing.Load() {
				return tier.Wrap("renew", "", tier.ErrNetwork)
			}
			return nil
		}
		entered, leave := make(chan struct{}), make(chan struct{})
		s.run(a, func(ctx context.Context, d *consumer.Delivery) error {
			close(entered) // a second run would panic
			<-leave
			return ctx.Err()
		}, consumer.Config{Registerer: reg})
		get(t, entered)
		tiertest.Eventually(t, patience, func() (bool, string) {
			return sum(t, reg, "echomq_consumer_taken_over_entries_total", "", "") > 0, "not taken over"
		})
		failing.Store(false)
		close(leave)
		s.settled(patience)
		counted(t, reg, 1, "echomq_consumer_deliveries_total", "outcome", "ok")
		counted(t, reg, 1, "echomq_consumer_settled_entries_total", "", "")
	})
}
