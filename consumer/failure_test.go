package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/tiertest"
)

var errMailbox = errors.New("mailbox full")

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// B108, B76: a handler that returns an error, panics with whatever value, or ends its goroutine costs its own message
// only, which comes again with one more attempt.
func TestFailures(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name    string
		outcome string
		fail    func() error
		log     string // what the log tells
	}{
		{"error", "error", func() error { return errMailbox }, "mailbox full"},
		{"panic with an error", "panic", func() error { panic(errMailbox) }, "failure_test.go"},
		{"panic with a value", "panic", func() error { panic(7) }, "panicked: 7"},
		{"panic(nil)", "panic", func() error { panic(nil) }, "failure_test.go"},
		{"a slip of its own", "panic", func() error { var none []int; return fmt.Errorf("%d", none[len(none)]) }, "out of range"},
		{"Goexit", "error", func() error { runtime.Goexit(); return nil }, "Goexit"},
	}
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		for _, way := range ways {
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, server)
				s.append(20, 1)
				seen := newTally()
				var mu sync.Mutex
				attempts := map[string][]int{}
				var log logBuffer
				reg := prometheus.NewRegistry()
				// One worker: if the failure took it along, nothing would be handled after it.
				s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
					mu.Lock()
					attempts[d.Key] = append(attempts[d.Key], d.Attempt)
					mu.Unlock()
					seen.add(d.Key)
					if d.Attempt == 1 && (d.Key == "0" || d.Key == "10") {
						return way.fail()
					}
					return nil
				}, consumer.Config{Concurrency: 1, Registerer: reg, Logger: log.logger()})
				seen.reach(t, 20, patience)
				s.settled(patience)
				for i := range 20 {
					want := []int{1}
					if i == 0 || i == 10 {
						want = []int{1, 2}
					}
					require.Equal(t, want, attempts[strconv.Itoa(i)])
				}
				counted(t, reg, 2, "echomq_consumer_deliveries_total", "outcome", way.outcome)
				counted(t, reg, 2, "echomq_consumer_released_entries_total", "reason", "failed")
				require.Contains(t, log.String(), way.log)
			})
		}
	})
}

// PanicError gives access to what a handler panicked with.
func TestPanicError(t *testing.T) {
	t.Parallel()
	var err error = &consumer.PanicError{Value: errMailbox, Stack: []byte("stack")}
	require.ErrorIs(t, err, errMailbox)
	require.ErrorContains(t, err, "stack")
	require.NotErrorIs(t, &consumer.PanicError{Value: 7}, errMailbox)
}

// A failed message comes again later and later.
func TestAttemptsGoOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append(1, 1)
	attempts := make(chan int, 10)
	s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
		attempts <- d.Attempt
		if d.Attempt < 4 {
			return errMailbox
		}
		return nil
	}, consumer.Config{})
	for want := 1; want <= 4; want++ {
		require.Equal(t, want, get(t, attempts))
	}
	s.settled(patience)
}

// A pack of which one message fails comes again whole, once all of its messages are through; other packs do not.
func TestPackFailsInPart(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const pack, n = 10, 50
		s := newStage(t, server)
		s.append(n, pack)
		seen := newTally()
		var mu sync.Mutex
		through, early := 0, false
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			mu.Lock()
			defer mu.Unlock()
			if i, _ := strconv.Atoi(d.Key); i/pack == 2 {
				if d.Attempt == 1 {
					through++
				} else if through < pack {
					early = true
				}
			}
			if d.Key == "23" && d.Attempt == 1 {
				return errMailbox
			}
			return nil
		}, consumer.Config{Concurrency: 4})
		seen.reach(t, n, patience)
		s.settled(patience)
		for i := range n {
			want := 1
			if i/pack == 2 {
				want = 2
			}
			require.Equal(t, want, seen.count(strconv.Itoa(i)), "message %d", i)
		}
		require.False(t, early, "the pack came again before it was through")
	})
}

// B96: messages that fail time and again do not hold up others, and do not fill the room for what is in flight.
func TestFailuresDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const n = 500
		s := newStage(t, server)
		s.append(n, 1)
		seen := newTally()
		healthy := make(chan struct{})
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			if i, _ := strconv.Atoi(d.Key); i < 100 {
				select {
				case <-healthy:
				default:
					return errMailbox
				}
			}
			seen.add(d.Key)
			return nil
		}, consumer.Config{Concurrency: 2, MaxInFlight: 10})
		seen.reach(t, n-100, patience)
		close(healthy)
		seen.reach(t, n, patience)
		s.settled(patience)
		require.Equal(t, n, seen.deliveries())
	})
}
