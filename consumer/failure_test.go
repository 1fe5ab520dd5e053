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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
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
				counted(t, reg, 2, "echomq_consumer_parked_messages_total", "", "")
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

// Of a pack, only the message comes again that failed, whatever it says, and the pack is not pending meanwhile.
func TestPackFailsInPart(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		const pack, n = 10, 50
		s := newStage(t, server)
		s.append(n, pack)
		seen := newTally()
		attempts := make(chan int, 10)
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			switch {
			case d.Key == "23":
				if attempts <- d.Attempt; d.Attempt < 3 {
					return errMailbox
				}
			case d.Key == "25":
				return consumer.Permanent(errMailbox)
			case d.Key == "27" && seen.count("27") < 3:
				return consumer.Snooze(time.Millisecond)
			case d.Key == "27":
				require.Equal(t, 1, d.Attempt, "snoozing has no attempt")
			}
			return nil
		}, consumer.Config{Concurrency: 4, Backoff: 100 * time.Millisecond})
		for want := 1; want <= 3; want++ {
			require.Equal(t, want, get(t, attempts))
		}
		tiertest.Eventually(t, patience, func() (bool, string) {
			return seen.deliveries() == n+4, fmt.Sprint(seen.deliveries())
		})
		s.settled(patience)
		for i := range n {
			want := 1
			if i == 23 || i == 27 {
				want = 3
			}
			require.Equal(t, want, seen.count(strconv.Itoa(i)), "message %d", i)
		}
		letters := s.letters()
		require.Len(t, letters, 1)
		require.Equal(t, "5", letters[0]["index"])
		var m codec.Message
		rest, err := codec.DecodeMessage([]byte(letters[0]["m"]), &m)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, "25", m.Key)
		tiertest.Eventually(t, patience, func() (bool, string) { return s.parked() == 0, "parked" })
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
