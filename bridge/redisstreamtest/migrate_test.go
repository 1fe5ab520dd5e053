package redisstreamtest

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// desk is who publishes and who receives while a topic is migrated.
type desk struct {
	mu        sync.Mutex
	publish   func(id string) error // with the publisher of the day
	published map[string]bool
	received  map[string]int
}

func (d *desk) switchTo(p message.Publisher, topic string) {
	d.mu.Lock() // when it is held, nothing is on its way
	defer d.mu.Unlock()
	d.publish = func(id string) error { return p.Publish(topic, message.NewMessage(id, []byte(id))) }
}

// traffic publishes until ctx ends.
func (d *desk) traffic(ctx context.Context, t *testing.T) {
	for i := 0; ctx.Err() == nil; i++ {
		d.mu.Lock()
		if err := d.publish(strconv.Itoa(i)); err != nil {
			t.Error(err)
		}
		d.published[strconv.Itoa(i)] = true
		d.mu.Unlock()
		tier.Pause(ctx, time.Millisecond)
	}
}

// receive acks what comes until the channel is closed.
func (d *desk) receive(out <-chan *message.Message) {
	for m := range out {
		d.mu.Lock()
		d.received[m.UUID]++
		d.mu.Unlock()
		m.Ack()
	}
}

// more waits until n more messages have come.
func (d *desk) more(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.received)
	}
	want := count() + n
	tiertest.Eventually(t, patience, func() (bool, string) { return count() >= want, "too few messages come" })
}

// TestMigration is the recipe of docs/migrating-from-watermill-redisstream.md, step by step, on a topic that is published to all
// along. Nothing is lost.
func TestMigration(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		topic := tiertest.Scope(t)
		native := bridge.Topics{Scope: tiertest.AuditedScope(t, f.server)}
		config := consumer.Config{DrainTimeout: time.Second}
		d := &desk{published: map[string]bool{}, received: map[string]int{}}
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		subscribe := func(s message.Subscriber) {
			out, err := s.Subscribe(t.Context(), topic)
			require.NoError(t, err)
			wg.Go(func() { d.receive(out) })
		}

		// As it was.
		theirs := f.theirSubscriber(t, "billing")
		subscribe(theirs)
		d.switchTo(f.theirPublisher(t), topic)
		wg.Go(func() { d.traffic(ctx, t) })
		d.more(t, 50)

		// 1. Subscribers: the same topic and group by ours, beside theirs, which then go.
		onOld, err := bridge.NewSubscriber(f.client, bridge.SubscriberConfig{Topics: wire, Group: "billing", Lease: time.Second, MaxInFlight: 4, Consumer: config})
		require.NoError(t, err)
		subscribe(onOld)
		d.more(t, 50)
		require.NoError(t, theirs.Close())
		d.more(t, 50)

		// 2. Publishers: the same topic by ours.
		d.switchTo(f.ourPublisher(t), topic)
		d.more(t, 50)

		// 3. The native wire: subscribers to both first, and then publishers.
		onNew, err := bridge.NewSubscriber(f.client, bridge.SubscriberConfig{Topics: native, Group: "billing", MaxInFlight: 4, Consumer: config})
		require.NoError(t, err)
		subscribe(onNew)
		p, err := bridge.NewPublisher(f.client, bridge.PublisherConfig{Topics: native})
		require.NoError(t, err)
		d.switchTo(p, topic)
		d.more(t, 50)

		// 4. When nothing is left in the old topic, its subscriptions go, and the key.
		tiertest.Eventually(t, patience, func() (bool, string) {
			groups, err := stream.Groups(t.Context(), f.client, tier.KeyAddress(topic))
			require.NoError(t, err)
			g := groups[0]
			return g.Lag == 0 && g.Pending == 0 && g.Parked == 0 && g.Dead == 0, "the old topic is not empty"
		})
		require.NoError(t, onOld.Close())
		f.server.Command(t, "DEL", topic)
		d.more(t, 50)

		end()
		tiertest.Eventually(t, patience, func() (bool, string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.received) == len(d.published), "messages are missing"
		})
		require.NoError(t, onNew.Close())
		wg.Wait()
		repeated := 0
		for id, n := range d.received {
			require.True(t, d.published[id])
			repeated += n - 1
		}
		require.LessOrEqual(t, repeated, 1, "what the other backend had when it was closed may come again, nothing else")
	})
}
