package bridge_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// numbers are the payloads from 0 to below n.
func numbers(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}

// TestCloseHandsBack (B105, B106): what was fetched ahead and what is out is another's at once when a subscriber is closed, and no
// attempt is spent; channels are closed when Close returns, and a client is the caller's (B109).
func TestCloseHandsBack(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		publish(t, f.publisher(t), "t", numbers(100)...)
		one := f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Lease, c.MaxInFlight = time.Hour, 4 }) // three wait for who receives
		out := subscribe(t, one, "t")
		done := acked(t, out, 1)[0]
		held := receive(t, out)
		tiertest.Eventually(t, patience, func() (bool, string) { return f.pending(t, "t", "g") > 4, "nothing is fetched ahead" })
		require.NoError(t, one.Close())
		select {
		case _, open := <-out:
			require.False(t, open)
		default:
			require.Fail(t, "the channel is open")
		}
		require.ErrorIs(t, context.Cause(held.Context()), consumer.ErrDrainTimeout)
		_, err := one.Subscribe(t.Context(), "t")
		require.ErrorIs(t, err, bridge.ErrClosed)
		require.ErrorIs(t, one.SubscribeInitialize("t"), bridge.ErrClosed)

		next := subscribe(t, f.subscriber(t, nil), "t")
		seen := map[string]bool{done: true}
		for len(seen) < 100 {
			m := receive(t, next)
			require.False(t, seen[string(m.Payload)])
			seen[string(m.Payload)] = true
			require.Equal(t, "1", m.Metadata[bridge.MetaAttempt])
			require.True(t, m.Ack())
		}
		_, err = f.client.Now(t.Context(), "x")
		require.NoError(t, err)
	})
}

// TestCloseWaitsForAcks: what is out when a subscriber is closed, or when the context of a subscription ends, may be acked for
// the drain time, its context goes on, and the channel is closed after it.
func TestCloseWaitsForAcks(t *testing.T) {
	f := onOne(t)
	publish(t, f.publisher(t), "t", numbers(3)...)
	patient := func(c *bridge.SubscriberConfig) { c.Consumer.DrainTimeout = patience }
	for i, stop := range []func(s *bridge.Subscriber, cancel context.CancelFunc){
		func(s *bridge.Subscriber, _ context.CancelFunc) { _ = s.Close() },
		func(_ *bridge.Subscriber, cancel context.CancelFunc) { cancel() },
	} {
		s := f.subscriber(t, patient)
		ctx, cancel := context.WithCancel(t.Context())
		out, err := s.Subscribe(ctx, "t")
		require.NoError(t, err)
		m := receive(t, out)
		require.Equal(t, strconv.Itoa(i), string(m.Payload))
		go stop(s, cancel)
		select {
		case <-out:
			require.Fail(t, "the channel is closed, or more is given out")
		case <-m.Context().Done():
			require.Fail(t, "the context has ended")
		case <-time.After(50 * time.Millisecond):
		}
		require.True(t, m.Ack())
		ended(t, out)
		cancel()
	}
	require.Equal(t, []string{"2"}, acked(t, subscribe(t, f.subscriber(t, nil), "t"), 1))
}

// TestContextEndsAfterAck: not before, and it has the values of the subscription's.
func TestContextEndsAfterAck(t *testing.T) {
	type key struct{}
	f := onOne(t)
	publish(t, f.publisher(t), "t", "0", "1", "2")
	out, err := f.subscriber(t, nil).Subscribe(context.WithValue(t.Context(), key{}, "value"), "t")
	require.NoError(t, err)
	for _, settle := range []func(*message.Message) bool{(*message.Message).Ack, (*message.Message).Nack} {
		m := receive(t, out)
		require.Equal(t, "value", m.Context().Value(key{}))
		require.NoError(t, m.Context().Err())
		require.True(t, settle(m))
		select {
		case <-m.Context().Done():
		case <-time.After(patience):
			require.Fail(t, "the context goes on")
		}
	}
}

// TestLeaseLost: when another subscriber has the message, the context of who had it ends for that reason.
func TestLeaseLost(t *testing.T) {
	f := onOne(t)
	publish(t, f.publisher(t), "t", "0")
	s := f.subscriber(t, nil)
	out := subscribe(t, s, "t")
	m := receive(t, out)
	g, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.scope + "/t", Name: "g", Start: stream.Head()})
	require.NoError(t, err)
	_, err = g.Reset(t.Context(), stream.Head())
	require.NoError(t, err)
	publish(t, f.publisher(t), "t", "1") // a reset is noticed at the next call
	<-m.Context().Done()
	require.ErrorIs(t, context.Cause(m.Context()), consumer.ErrLeaseLost)
	m.Ack()
	require.Equal(t, []string{"0", "1"}, acked(t, out, 2))
}

// TestAckCounts: a message that was acked is done, though its context has ended in the same moment.
func TestAckCounts(t *testing.T) {
	f := onOne(t)
	handle, out, err := f.subscriber(t, nil).Handling("t", nil)
	require.NoError(t, err)
	var record codec.Record
	record.ID, _ = codec.ServerID("ORD", 1, codec.EntryID{Ms: codec.Epoch + 1})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			m := <-out
			m.Ack()
			cancel()
		}()
		require.NoError(t, handle(ctx, &consumer.Delivery{Record: record, Attempt: 1}))
	}
}

// TestNothingAfterTheEnd: who waits for a message when the subscription has ended gets none.
func TestNothingAfterTheEnd(t *testing.T) {
	f := onOne(t)
	synctest.Test(t, func(t *testing.T) {
		ending := make(chan struct{})
		close(ending)
		handle, out, err := f.subscriber(t, nil).Handling("t", ending)
		require.NoError(t, err)
		var record codec.Record
		record.ID, _ = codec.ServerID("ORD", 1, codec.EntryID{Ms: codec.Epoch + 1})
		waiting, stop := context.WithCancel(t.Context())
		got := make(chan bool, 1)
		go func() {
			select {
			case m := <-out:
				m.Ack()
				got <- true
			case <-waiting.Done():
				got <- false
			}
		}()
		synctest.Wait()
		for range 20 {
			require.Error(t, handle(t.Context(), &consumer.Delivery{Record: record, Attempt: 1}))
		}
		stop()
		require.False(t, <-got)
	})
}

// TestCloseAnyhow (B100, B101): Close returns when nothing runs, when nobody receives, when it is called by whoever has
// a message, and by several at once.
func TestCloseAnyhow(t *testing.T) {
	f := onOne(t)
	publish(t, f.publisher(t), "t", numbers(10)...)
	closes := func(t *testing.T, s *bridge.Subscriber, within time.Duration) {
		t.Helper()
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Less(t, time.Since(began), within)
	}
	slow := func(group string) func(*bridge.SubscriberConfig) {
		return func(c *bridge.SubscriberConfig) { c.Group, c.Consumer.DrainTimeout = group, time.Minute }
	}
	t.Run("nothing was subscribed", func(t *testing.T) { closes(t, f.subscriber(t, slow("g")), time.Second) })
	t.Run("nothing comes", func(t *testing.T) {
		s := f.subscriber(t, slow("g"))
		out := subscribe(t, s, "quiet")
		closes(t, s, patience)
		ended(t, out)
	})
	for _, group := range []string{"nobody", ""} {
		t.Run("nobody receives, group "+group, func(t *testing.T) {
			s := f.subscriber(t, func(c *bridge.SubscriberConfig) {
				slow(group)(c)
				c.MaxInFlight, c.Start = 4, stream.Head()
			})
			out := subscribe(t, s, "t")
			closes(t, s, patience)
			ended(t, out)
		})
	}
	t.Run("between receiving and acking", func(t *testing.T) {
		s := f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Group = "inside" })
		out := subscribe(t, s, "t")
		m := receive(t, out)
		closes(t, s, patience)
		require.True(t, m.Ack())
		ended(t, out)
		require.Equal(t, "0", string(receive(t, subscribe(t, f.subscriber(t, func(c *bridge.SubscriberConfig) { c.Group = "inside" }), "t")).Payload))
	})
}

// TestCloseRaces (B102): subscribers are closed at any moment while messages flow. Nothing panics, nothing is lost, and what was
// acked in time does not come again.
func TestCloseRaces(t *testing.T) {
	f := onOne(t)
	const total = 2000
	p := f.publisher(t)
	go func() {
		for _, text := range numbers(total) {
			_ = p.Publish("t", note(text))
		}
	}()
	seen := map[string]int{}
	for round := 0; len(seen) < total; round++ {
		s := f.subscriber(t, func(c *bridge.SubscriberConfig) {
			c.MaxInFlight, c.Consumer.MaxInFlight = 1+round%4, 64
			c.Consumer.DrainTimeout = patience
		})
		out := subscribe(t, s, "t")
		closing := make(chan struct{})
		for n := 0; ; n++ {
			m, open := <-out
			if !open {
				break
			}
			seen[string(m.Payload)]++
			require.True(t, m.Ack())
			if n == 37*(round%9) || len(seen) == total {
				go func() {
					defer close(closing)
					_ = s.Close()
				}()
			}
		}
		<-closing
	}
	for text, n := range seen {
		require.Equal(t, 1, n, text)
	}
	tiertest.Eventually(t, patience, func() (bool, string) { return f.pending(t, "t", "g") == 0, "something is pending" })
}

// TestCloseEndsInitialize: Close does not wait for a server that does not answer, and ends a SubscribeInitialize that does.
func TestCloseEndsInitialize(t *testing.T) {
	t.Parallel()
	server := tiertest.Shared(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, server)
	f := fixture{server: server, client: tiertest.Dial(t, proxy), scope: tiertest.AuditedScope(t, server)}
	s := f.subscriber(t, nil)
	proxy.Freeze()
	t.Cleanup(proxy.Thaw)
	ended := make(chan error, 1)
	go func() { ended <- s.SubscribeInitialize("t") }()
	select {
	case err := <-ended:
		require.FailNow(t, "it has ended", "%v", err)
	case <-time.After(50 * time.Millisecond): // it is waiting
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.Close()
	}()
	for _, what := range []string{"Close", "SubscribeInitialize"} {
		select {
		case <-closed:
			closed = nil
		case err := <-ended:
			require.ErrorIs(t, err, tier.ErrCancelled)
		case <-time.After(2 * time.Second): // less than a call waits
			require.FailNow(t, what+" waits")
		}
	}
}
