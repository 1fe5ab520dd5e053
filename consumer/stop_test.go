package consumer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// B42, B100: a consumer with nothing to do stops as soon as its read comes back, which takes a second at most, and leaves
// no trace; B109: the client is the caller's, and goes on.
func TestStopWhenIdle(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		seen := newTally()
		r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			return nil
		}, consumer.Config{DrainTimeout: time.Hour})
		seen.reach(t, 1, patience)
		s.settled(patience)
		since := time.Now()
		r.stop()
		require.NoError(t, r.wait(patience))
		require.Less(t, time.Since(since), 5*time.Second)
		require.Zero(t, s.info().Consumers)
		s.append(1, 1)
	})
}

// What was not settled when the group was deleted, or its stream removed, does not come again, and the error says so.
func TestStopForgets(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(s *stage) error{
		"group deleted": func(s *stage) error { return s.group(s.client).Delete(t.Context()) },
		"stream removed": func(s *stage) error {
			_, err := stream.Remove(t.Context(), s.client, s.addr.String())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
			s.append(2, 1)
			var entered sync.WaitGroup
			entered.Add(2)
			leave := make(chan struct{})
			r := s.run(s.source(), func(context.Context, *consumer.Delivery) error {
				entered.Done()
				<-leave
				return nil
			}, consumer.Config{Concurrency: 2})
			entered.Wait()
			require.NoError(t, remove(s))
			close(leave)
			err := r.wait(patience)
			var unsettled *consumer.UnsettledError
			require.ErrorAs(t, err, &unsettled)
			require.ErrorContains(t, unsettled, "unsettled, which are forgotten with the group: stream: the "+name[:6])
			require.NotContains(t, err.Error(), "come again")
		})
	}
}

// A running handler finishes its work after the end of Run's context, of which it sees the values and not the end; its
// message is settled.
func TestStopWaitsForHandlers(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		entered, leave := make(chan struct{}), make(chan struct{})
		r := s.run(s.source(), func(ctx context.Context, _ *consumer.Delivery) error {
			close(entered)
			<-leave
			return ctx.Err()
		}, consumer.Config{DrainTimeout: time.Hour})
		get(t, entered)
		r.stop()
		beats := time.After(2 * s.lease)
		select {
		case <-r.done:
			require.Fail(t, "it did not wait")
		case <-beats: // and renews all the while
		}
		require.Equal(t, 1, s.pending())
		close(leave)
		require.NoError(t, r.wait(patience))
		require.Zero(t, s.pending())
		require.Zero(t, s.info().Consumers)
	})
}

// B105: what was fetched and not begun is another's at once, not after a lease, and that does not count as an attempt.
func TestStopHandsBack(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 100
		s := newStage(t, server)
		s.lease = time.Hour
		s.append(n, 1)
		entered, leave := make(chan string), make(chan struct{})
		reg := prometheus.NewRegistry()
		r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			entered <- d.Key
			<-leave
			return nil
		}, consumer.Config{Concurrency: 1, MaxInFlight: n, DrainTimeout: time.Hour, Registerer: reg})
		first := get(t, entered)
		counted(t, reg, n, "echomq_consumer_in_flight_messages", "", "")
		r.stop()

		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if seen.add(d.Key); d.Attempt != 1 {
				t.Errorf("message %s: attempt %d", d.Key, d.Attempt)
			}
			return nil
		}, consumer.Config{})
		seen.reach(t, n-1, patience)
		require.Zero(t, seen.count(first))
		close(leave)
		require.NoError(t, r.wait(patience))
		s.settled(patience)
		require.Equal(t, n-1, seen.deliveries())
		counted(t, reg, n-1, "echomq_consumer_released_entries_total", "reason", "handed_back")
		counted(t, reg, 0, "echomq_consumer_in_flight_messages", "", "")
	})
}

// A pack that was begun is finished within the drain time, so that none of it is repeated; one that was not is handed
// back.
func TestStopFinishesPacks(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.lease = time.Hour
		s.append(20, 10)
		entered, leave := make(chan struct{}, 20), make(chan struct{})
		seen := newTally()
		p := newPuppet(s.source())
		reg := prometheus.NewRegistry()
		r := s.run(p, func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			entered <- struct{}{}
			<-leave
			return nil
		}, consumer.Config{Concurrency: 2, DrainTimeout: time.Hour, Registerer: reg})
		get(t, entered)
		counted(t, reg, 20, "echomq_consumer_in_flight_messages", "", "")
		r.stop()
		tiertest.Eventually(t, patience, func() (bool, string) { return p.made("release") == 1, "nothing is handed back" })
		close(leave)
		require.NoError(t, r.wait(patience))
		require.Equal(t, 10, seen.deliveries())
		for i := range 10 {
			require.Equal(t, 1, seen.count(strconv.Itoa(i)))
		}
		require.Equal(t, 1, s.pending())
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if seen.add(d.Key); d.Attempt != 1 {
				t.Errorf("message %s: attempt %d", d.Key, d.Attempt)
			}
			return nil
		}, consumer.Config{})
		seen.reach(t, 20, patience)
		s.settled(patience)
	})
}

// B106: a handler that is interrupted at the end of the drain time has not used up an attempt, and its message is
// another's at once.
func TestStopInterrupts(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.lease = time.Hour
		s.append(10, 10) // one entry, of which two messages are running and the rest waits
		entered := make(chan struct{}, 10)
		causes := make(chan error, 10)
		reg := prometheus.NewRegistry()
		r := s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) error {
			entered <- struct{}{}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}, consumer.Config{Concurrency: 2, DrainTimeout: 100 * time.Millisecond, Registerer: reg})
		get(t, entered)
		get(t, entered)
		r.stop()
		require.NoError(t, r.wait(patience), "nothing is lost, so the stop is clean")
		require.Equal(t, consumer.ErrDrainTimeout, get(t, causes))
		require.Equal(t, consumer.ErrDrainTimeout, get(t, causes))
		require.Empty(t, entered, "nothing was begun after the drain time")
		counted(t, reg, 2, "echomq_consumer_deliveries_total", "outcome", "interrupted")

		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if seen.add(d.Key); d.Attempt != 1 {
				t.Errorf("message %s: attempt %d", d.Key, d.Attempt)
			}
			return nil
		}, consumer.Config{})
		seen.reach(t, 10, patience)
		s.settled(patience)
	})
}

// B104: handlers that ignore their context do not keep Run: it names them, and returns. Their message keeps its lease and
// comes again.
func TestStopLeavesStuckHandlersBehind(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(3, 1)
		release := make(chan struct{})
		entered := make(chan *consumer.Delivery, 3)
		reg := prometheus.NewRegistry()
		r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			entered <- d
			if d.Key != "2" {
				<-release
			}
			return nil
		}, consumer.Config{Concurrency: 3, DrainTimeout: 50 * time.Millisecond, Registerer: reg})
		defer close(release)
		at := map[string]string{}
		for range 3 {
			d := get(t, entered)
			at[d.Key] = d.Position.String()
		}
		since := time.Now()
		r.stop()
		err := r.wait(patience)
		require.Less(t, time.Since(since), 10*time.Second)
		var stuck *consumer.StuckError
		require.ErrorAs(t, err, &stuck)
		var named []string
		for _, p := range stuck.Messages {
			named = append(named, p.String())
		}
		require.ElementsMatch(t, []string{at["0"], at["1"]}, named)
		require.ErrorContains(t, err, at["0"])
		require.Equal(t, 2, s.pending(), "the third is settled, these two keep their leases")
		counted(t, reg, 0, "echomq_consumer_in_flight_messages", "", "")

		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if seen.add(d.Key); d.Attempt != 2 {
				t.Errorf("message %s: attempt %d", d.Key, d.Attempt)
			}
			return nil
		}, consumer.Config{})
		seen.reach(t, 2, patience)
		s.settled(patience)
	})
}

// B46: a read is under way when the stop begins, and brings entries: they are handed back at once.
func TestStopHandsBackALateRead(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.lease = time.Hour
		p := newPuppet(s.source())
		var hold atomic.Bool
		arrived, deliver := make(chan struct{}), make(chan struct{})
		p.after = func(call string, err error) error {
			if call == "read" && s.pending() > 0 && hold.CompareAndSwap(false, true) {
				close(arrived)
				<-deliver
			}
			return err
		}
		r := s.run(p, func(context.Context, *consumer.Delivery) error {
			t.Error("begun after the stop")
			return nil
		}, consumer.Config{})
		s.append(1, 1)
		get(t, arrived)
		r.stop()
		close(deliver)
		require.NoError(t, r.wait(patience))

		attempts := make(chan int, 1)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			attempts <- d.Attempt
			return nil
		}, consumer.Config{})
		require.Equal(t, 1, get(t, attempts))
		s.settled(patience)
	})
}

// B102, B34: consumers come and go at any moment while messages flow. Nothing is lost or repeated, nothing panics, and
// none of them is left in the group.
func TestStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n, cycles = 4000, 25
		s := newStage(t, server)
		s.lease = time.Hour
		require.NoError(t, s.group(s.client).Create(t.Context()))
		appended := make(chan struct{})
		go func() {
			defer close(appended)
			for range n / 100 {
				s.append(100, 1+rand.IntN(3))
			}
		}()
		seen := newTally()
		var failures atomic.Int64
		handler := func(_ context.Context, d *consumer.Delivery) error {
			if rand.IntN(500) == 0 {
				failures.Add(1)
				return errors.New("at times")
			}
			seen.add(d.Position.String())
			return nil
		}
		for range cycles {
			r := s.run(s.source(), handler, consumer.Config{Concurrency: 2, MaxInFlight: 64})
			from, want := seen.distinct(), rand.IntN(200)
			tiertest.Eventually(t, patience, func() (bool, string) {
				return seen.distinct() >= min(n, from+want) || s.pending() == 0, "no progress"
			})
			r.stop()
			require.NoError(t, r.wait(patience))
		}
		<-appended
		r := s.run(s.source(), handler, consumer.Config{})
		seen.reach(t, n, patience)
		s.settled(patience)
		r.stop()
		require.NoError(t, r.wait(patience))
		repeated := seen.deliveries() - n
		require.LessOrEqual(t, repeated, 2*int(failures.Load()), "only the rest of packs that failed in part is repeated")
		require.LessOrEqual(t, s.info().Consumers, int64(cycles))
	})
}
