package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRejectedByOneGroup (B66): a group gives up every message; another is given each of them all the same, and the log
// keeps them.
func TestRejectedByOneGroup(t *testing.T) {
	t.Parallel()
	for _, pack := range []int{1, 7} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
				const n = 50
				s := newStage(t, server)
				s.append(n, pack)
				before := s.do("XLEN")
				s.run(s.source(), func(context.Context, *consumer.Delivery) error {
					return consumer.Permanent(errMailbox)
				}, consumer.Config{})
				tiertest.Eventually(t, patience, func() (bool, string) {
					letters := len(s.letters())
					return letters == n, fmt.Sprint(letters, " dead letters")
				})
				other, err := stream.NewGroup(s.client, stream.GroupConfig{Address: s.addr.String(), Name: "archive", Start: stream.Head(), Lease: s.lease})
				require.NoError(t, err)
				seen := newTally()
				s.run(consumer.Group(other), func(_ context.Context, d *consumer.Delivery) error {
					if string(d.Data) != d.Key || d.Attempt != 1 {
						return fmt.Errorf("%q at attempt %d", d.Data, d.Attempt)
					}
					seen.add(d.Key)
					return nil
				}, consumer.Config{})
				seen.reach(t, n, patience)
				require.Equal(t, n, seen.deliveries())
				require.Equal(t, before, s.do("XLEN"))
			})
		})
	}
}

// TestGivenUpHoweverWrapped (B110): an error that is permanent is so inside others, joined with others, and out of a
// panic; its message is handled once and is dead, whatever the policy would allow.
func TestGivenUpHoweverWrapped(t *testing.T) {
	t.Parallel()
	permanent := consumer.Permanent(errMailbox)
	fails := []func() error{
		func() error { return permanent },
		func() error { return fmt.Errorf("mail: %w", fmt.Errorf("smtp: %w", permanent)) },
		func() error { return errors.Join(errors.New("could not log either"), permanent) },
		func() error { return fmt.Errorf("%w, and then %w", errors.New("timeout"), permanent) },
		func() error { panic(permanent) },
		func() error { return consumer.Permanent(consumer.RetryAfter(errMailbox, time.Millisecond)) },
	}
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		s.append(len(fails)+1, 1)
		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			if i, _ := strconv.Atoi(d.Key); i < len(fails) {
				return fails[i]()
			}
			return nil
		}, consumer.Config{MaxDeliveries: -1, Backoff: time.Millisecond})
		tiertest.Eventually(t, patience, func() (bool, string) {
			letters := len(s.letters())
			return letters == len(fails), fmt.Sprint(letters, " dead letters")
		})
		s.settled(patience)
		require.Equal(t, len(fails)+1, seen.deliveries(), "one was tried again")
		for _, l := range s.letters() {
			require.Equal(t, "1", l["attempts"])
			require.Contains(t, l["reason"], "mailbox full")
		}
	})
}

// TestStopWithParked (B100, B105, B106): messages that are parked do not hold up a stop, however long their pause is; who comes
// next is given them when they are due, at the attempts that they have reached, and not before.
func TestStopWithParked(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 30
		s := newStage(t, server)
		s.append(n, 1)
		failed := newTally()
		r := s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			failed.add(d.Key)
			switch i, _ := strconv.Atoi(d.Key); i % 3 {
			case 0:
				return consumer.RetryAfter(errMailbox, time.Hour)
			case 1:
				return consumer.Snooze(time.Hour)
			}
			return consumer.RetryAfter(errMailbox, 3*time.Second)
		}, consumer.Config{DrainTimeout: time.Hour})
		failed.reach(t, n, patience)
		tiertest.Eventually(t, patience, func() (bool, string) { return s.pending() == 0, fmt.Sprint(s.pending(), " pending") })
		r.stop()
		require.NoError(t, r.wait(patience))
		group := s.info()
		require.EqualValues(t, n, group.Parked+group.Pending, "on a slow machine some were due, and are handed back")

		var mu sync.Mutex
		attempts := map[string]int{}
		next := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			mu.Lock()
			attempts[d.Key] = d.Attempt
			mu.Unlock()
			next.add(d.Key)
			return nil
		}, consumer.Config{})
		next.reach(t, n/3, patience)
		tiertest.Eventually(t, patience, func() (bool, string) { return s.pending() == 0, fmt.Sprint(s.pending(), " pending") })
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, attempts, n/3, "some came before they were due")
		for key, attempt := range attempts {
			i, _ := strconv.Atoi(key)
			require.Equal(t, 2, i%3)
			require.Equal(t, failed.count(key)+1, attempt)
		}
		require.EqualValues(t, n-n/3, s.info().Parked)
	})
}
