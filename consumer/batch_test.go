package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

// runBatch is run with a batch handler.
func (s *stage) runBatch(h consumer.BatchHandler, cfg consumer.Config) *running {
	s.t.Helper()
	c, err := consumer.NewBatch(s.source(), h, cfg)
	require.NoError(s.t, err)
	return s.begin(c)
}

// Each message of a batch has a verdict of its own, plain and in packs: what fails comes again, and what is given up is dead.
func TestBatchVerdicts(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, pack := range []int{1, 10} {
			t.Run(fmt.Sprintf("pack=%d", pack), func(t *testing.T) {
				t.Parallel()
				const n = 200
				s := newStage(t, server)
				s.append(n, pack)
				seen, most := newTally(), 0
				var mu sync.Mutex
				s.runBatch(func(_ context.Context, batch []*consumer.Delivery) []error {
					verdicts := make([]error, len(batch))
					for i, d := range batch {
						times := seen.add(string(d.Data))
						if d.Data[len(d.Data)-1] == '3' && times == 1 {
							verdicts[i] = errors.New("not yet")
						}
						if string(d.Data) == "17" {
							verdicts[i] = consumer.Permanent(errors.New("never"))
						}
					}
					mu.Lock()
					defer mu.Unlock()
					most = max(most, len(batch))
					return verdicts
				}, consumer.Config{BatchSize: 16, BatchWait: 20 * time.Millisecond, Concurrency: 2, Backoff: time.Millisecond})
				seen.reach(t, n, patience)
				s.settled(patience)
				for i := range n {
					want := 1
					if i%10 == 3 {
						want = 2
					}
					require.Equal(t, want, seen.count(fmt.Sprint(i)), i)
				}
				require.Len(t, s.letters(), 1)
				require.Equal(t, 16, most, "batches are filled, and no larger")
			})
		}
	})
}

// A batch goes out when it is full, without waiting (65 batch_shaping_floor); and when it has waited, with what there
// is (66 batch_shaping_timeout).
func TestBatchShape(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(10, 1)
	sizes := make(chan int, 100)
	r := s.runBatch(func(_ context.Context, batch []*consumer.Delivery) []error {
		sizes <- len(batch)
		return nil
	}, consumer.Config{BatchSize: 10, BatchWait: time.Hour, Concurrency: 1})
	require.Equal(t, 10, get(t, sizes), "full, long before its wait is over")
	s.append(3, 1)
	tiertest.Eventually(t, patience, func() (bool, string) { n := s.pending(); return n == 3, fmt.Sprint(n) })
	r.stop()
	require.NoError(t, r.wait(patience), "a stop does not wait for more")
	left := 5
	if len(sizes) > 0 { // or they were not begun, and are handed back
		left -= get(t, sizes)
	}

	s.append(2, 1)
	s.runBatch(func(_ context.Context, batch []*consumer.Delivery) []error {
		sizes <- len(batch)
		return nil
	}, consumer.Config{BatchSize: 10, BatchWait: 100 * time.Millisecond, Concurrency: 1})
	for left > 0 {
		left -= get(t, sizes)
	}
	s.settled(patience)
}

// B108: a batch handler that panics, ends its goroutine, or answers for another number of messages fails all of the batch,
// and only that; the reason names it (67 batch_shaping_partial_failure).
func TestBatchFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		fail   func(batch []*consumer.Delivery) []error
		reason string
	}{
		"panic":  {func([]*consumer.Delivery) []error { panic("boom") }, "boom"},
		"goexit": {func([]*consumer.Delivery) []error { runtime.Goexit(); return nil }, "Goexit"},
		"short":  {func(b []*consumer.Delivery) []error { return make([]error, len(b)-1) }, "returned 3 verdicts for 4 messages"},
		"long":   {func(b []*consumer.Delivery) []error { return make([]error, len(b)+1) }, "returned 5 verdicts for 4 messages"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
			s.append(4, 4)
			s.runBatch(func(_ context.Context, batch []*consumer.Delivery) []error {
				if string(batch[0].Data) == "0" {
					return tc.fail(batch)
				}
				return nil
			}, consumer.Config{BatchSize: 4, Concurrency: 1, MaxDeliveries: 1})
			tiertest.Eventually(t, patience, func() (bool, string) { n := len(s.letters()); return n == 4, fmt.Sprint(n) })
			for _, letter := range s.letters() {
				require.Contains(t, letter["reason"], tc.reason)
			}
			s.append(5, 5)
			tiertest.Eventually(t, patience, func() (bool, string) { n := len(s.letters()); return n == 8, fmt.Sprint(n) })
			s.settled(patience)
		})
	}
}

// With an order, a batch has one message of a key at most, so that one that fails holds up the next.
func TestBatchByKey(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	keys := []string{"a", "b", "c", "d", "e"}
	const rounds = 6
	s.appendKeyed(keys, rounds, 1)
	j := newJournal()
	note := j.handler(byKey, func(d *consumer.Delivery, before int) error {
		if string(d.Data) == "a/0" && before < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	s.runBatch(func(ctx context.Context, batch []*consumer.Delivery) (verdicts []error) {
		var of []string
		for _, d := range batch {
			of = append(of, d.Key)
			verdicts = append(verdicts, note(ctx, d))
		}
		slices.Sort(of)
		if len(slices.Compact(of)) != len(batch) {
			j.doubled = append(j.doubled, of...)
		}
		return verdicts
	}, consumer.Config{Order: consumer.ByKey, BatchSize: 8, Concurrency: 1, Backoff: time.Millisecond})
	for _, key := range keys {
		j.reach(t, key, rounds)
	}
	j.reach(t, "a", rounds+2)
	s.settled(patience)
	j.alone(t)
	require.Equal(t, ordered("a", rounds, 3), j.seen("a"))
	for _, key := range keys[1:] {
		require.Equal(t, ordered(key, rounds, 1), j.seen(key))
	}
}

// The context of a batch ends when the stop has waited long enough, whichever message it looks at.
func TestBatchInterrupted(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(4, 1)
	begun := make(chan struct{}, 9)
	r := s.runBatch(func(ctx context.Context, batch []*consumer.Delivery) []error {
		begun <- struct{}{}
		<-ctx.Done()
		return slices.Repeat([]error{context.Cause(ctx)}, len(batch))
	}, consumer.Config{BatchSize: 4, Concurrency: 1, DrainTimeout: 50 * time.Millisecond})
	get(t, begun)
	r.stop()
	require.NoError(t, r.wait(patience))
	require.Zero(t, s.parked(), "an interrupted message has not failed")
}

func TestBatchConfig(t *testing.T) {
	s := consumer.Group(nil)
	_, err := consumer.NewBatch(s, nil, consumer.Config{})
	require.ErrorIs(t, err, consumer.ErrConfig)
	for name, tc := range map[string]struct {
		cfg  consumer.Config
		want string
	}{
		"above a call":   {consumer.Config{BatchSize: 4097, MaxInFlight: 5000}, "BatchSize is 4097, want 1 to 4096"},
		"above the room": {consumer.Config{BatchSize: 20, MaxInFlight: 19}, "BatchSize is 20, above the MaxInFlight of 19"},
		"strict":         {consumer.Config{BatchSize: 2, Order: consumer.Strict}, "BatchSize is 2 with Order Strict, want 1"},
		"negative":       {consumer.Config{BatchSize: -1}, "BatchSize is -1"},
		"negative wait":  {consumer.Config{BatchWait: -1}, "BatchWait is -1ns"},
		"defaults":       {consumer.Config{}, ""},
		"small room":     {consumer.Config{MaxInFlight: 10}, ""},
		"alone":          {consumer.Config{Order: consumer.Strict}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := consumer.NewBatch(deaf{}, func(context.Context, []*consumer.Delivery) []error { return nil }, tc.cfg)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, consumer.ErrConfig)
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err = consumer.New(deaf{}, func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{BatchSize: 2})
	require.ErrorContains(t, err, "for NewBatch")
}
