package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestVerdicts (B110, B112): what a handler says of its message is what becomes of it.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(5, 1)
		reg := prometheus.NewRegistry()
		var mu sync.Mutex
		attempts := map[string][]int{}
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[d.Key] = append(attempts[d.Key], d.Attempt)
			n := len(attempts[d.Key])
			switch {
			case d.Key == "1":
				return fmt.Errorf("no such customer: %w", consumer.Permanent(errMailbox))
			case d.Key == "2":
				return errMailbox
			case d.Key == "3" && n < 4:
				return consumer.Snooze(time.Millisecond)
			case d.Key == "4" && n < 3:
				return consumer.RetryAfter(errMailbox, time.Millisecond)
			}
			return nil
		}, consumer.Config{Registerer: reg, MaxDeliveries: 3, Backoff: time.Millisecond})
		tiertest.Eventually(t, patience, func() (bool, string) {
			letters := s.letters()
			return len(letters) == 2, fmt.Sprint(letters)
		})
		s.settled(patience)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[string][]int{"0": {1}, "1": {1}, "2": {1, 2, 3}, "3": {1, 1, 1, 1}, "4": {1, 2, 3}}, attempts)
		reasons := map[string]string{}
		for _, l := range s.letters() {
			reasons[l["reason"]] = l["attempts"]
		}
		require.Equal(t, map[string]string{"no such customer: mailbox full": "1", "attempt 3 of 3: mailbox full": "3"}, reasons)
		counted(t, reg, 1, "echomq_consumer_dead_messages_total", "cause", "permanent")
		counted(t, reg, 1, "echomq_consumer_dead_messages_total", "cause", "exhausted")
		counted(t, reg, 3, "echomq_consumer_deliveries_total", "outcome", "snoozed")
	})
}

// TestParkedTakesNoRoom (B96): far more messages wait for their next attempt than may be in flight, and the rest goes on.
func TestParkedTakesNoRoom(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 400
		s := newStage(t, server)
		s.append(n, 1)
		seen := newTally()
		r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			if i, _ := strconv.Atoi(d.Key); i%2 == 0 {
				return consumer.RetryAfter(errMailbox, time.Hour)
			}
			return nil
		}, consumer.Config{Concurrency: 2, MaxInFlight: 4})
		seen.reach(t, n, patience)
		tiertest.Eventually(t, patience, func() (bool, string) { return s.pending() == 0, fmt.Sprint(s.pending(), " pending") })
		require.EqualValues(t, n, s.parked(), "half of them, in two keys")
		require.Equal(t, n, seen.deliveries())
		r.stop()
		require.NoError(t, r.wait(patience))
		require.Zero(t, s.info().Consumers, "what is parked is nobody's: the consumer could leave")
	})
}

// TestParkedIsAnybodys: what one consumer has parked comes to another when it is due.
func TestParkedIsAnybodys(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(1, 1)
		failed := make(chan struct{}, 9)
		r := s.run(s.source(), func(context.Context, *consumer.Delivery) error {
			failed <- struct{}{}
			return consumer.RetryAfter(errMailbox, 2*time.Second)
		}, consumer.Config{})
		get(t, failed)
		r.stop()
		require.NoError(t, r.wait(patience))
		again := make(chan int, 9)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			again <- d.Attempt
			return nil
		}, consumer.Config{})
		require.Equal(t, 2, get(t, again))
		s.settled(patience)
	})
}

// TestStopInThePackMidst (B106): a stop that gets in the way of a pack hands back what is open of it: what was done is not
// done again, and what was not begun has used up no attempt.
func TestStopInThePackMidst(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(4, 4)
		first := make(chan string, 9)
		r := s.run(s.source(), func(ctx context.Context, d *consumer.Delivery) error {
			first <- d.Key
			if d.Key == "2" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, consumer.Config{Concurrency: 1, DrainTimeout: time.Millisecond})
		for _, want := range []string{"0", "1", "2"} {
			require.Equal(t, want, get(t, first))
		}
		r.stop()
		require.NoError(t, r.wait(patience))
		again := make(chan string, 9)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			again <- fmt.Sprint(d.Key, " attempt ", d.Attempt)
			return nil
		}, consumer.Config{Concurrency: 1})
		require.Equal(t, "2 attempt 1", get(t, again))
		require.Equal(t, "3 attempt 1", get(t, again))
		s.settled(patience)
		require.Empty(t, first)
		require.Empty(t, again)
	})
}

// TestPoisonOfProcesses: a message that kills whatever process handles it goes to the dead letters when it was delivered as
// often as it may be, alone: the messages that were in flight beside it are all handled.
func TestPoisonOfProcesses(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			const n = 200
			s := newStage(t, tiertest.Shared(t, kind))
			s.lease = time.Second
			require.NoError(t, s.group(s.client).Create(t.Context()))
			s.append(n/2, 1)
			w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String()})
			require.NoError(t, err)
			_, err = w.Append(t.Context(), codec.Message{Key: poisonKey})
			require.NoError(t, err)
			s.append(n/2, 1)
			all := newTally()
			deaths := 0
			for len(s.letters()) == 0 {
				p := s.spawn(all)
				tiertest.Eventually(t, patience, func() (bool, string) {
					return p.over() || len(s.letters()) > 0, "neither dead nor done"
				})
				if p.over() {
					deaths++
				}
				_ = p.end(syscall.SIGKILL)
			}
			last := s.spawn(all)
			s.settled(patience)
			require.NoError(t, last.end(syscall.SIGTERM))
			letters := s.letters()
			require.Len(t, letters, 1, "a neighbour was suspected")
			require.Equal(t, childDeliveries, deaths)
			require.Contains(t, letters[0]["reason"], fmt.Sprintf("delivered %d times", childDeliveries))
			require.Equal(t, n/2, all.distinct())
		})
	}
}
