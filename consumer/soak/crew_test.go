package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const (
	groupName = "mailer"
	lease     = 2 * time.Second
	patience  = 90 * time.Second
	callers   = 4 // of Append, at one writer
)

// crew is who is at work: two writers and a group of three consumers, one of them in a process of its own.
type crew struct {
	t     testing.TB
	url   string
	addr  tier.Address
	book  *book
	child *child

	writers, consumers         conc.WaitGroup
	stopWriters, stopConsumers context.CancelFunc
}

// at is a server's address as tiertest.Dial takes it.
type at string

func (a at) URL() string { return string(a) }

func startCrew(t testing.TB, url string) *crew {
	c := &crew{t: t, url: url, addr: tier.Address{Scope: tiertest.Scope(t), Stream: "orders"}, book: newBook()}
	writing, stopWriters := context.WithCancel(context.Background())
	consuming, stopConsumers := context.WithCancel(context.Background())
	c.stopWriters, c.stopConsumers = stopWriters, stopConsumers
	t.Cleanup(c.stop)

	require.NoError(t, group(t, tiertest.Dial(t, at(url)), c.addr).Create(t.Context()))
	for range 2 {
		c.consume(consuming)
	}
	c.child = c.spawn()
	c.write(writing, "plain", 1)
	c.publish(writing, "packed", 20)
	return c
}

func (c *crew) stop() {
	c.stopWriters()
	c.writers.Wait()
	c.stopConsumers()
	c.consumers.Wait()
}

func group(t testing.TB, client *tier.Client, addr tier.Address) *stream.Group {
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: addr.String(), Name: groupName, Start: stream.Head(), Lease: lease})
	require.NoError(t, err)
	return g
}

func (c *crew) writer(pack int) *stream.Writer {
	cfg := stream.WriterConfig{Address: c.addr.String(), Brand: "ORD", Pack: pack}
	if pack > 1 {
		cfg.Compression = codec.Zstd
	}
	w, err := stream.NewWriter(tiertest.Dial(c.t, at(c.url)), cfg)
	require.NoError(c.t, err)
	return w
}

// write appends one message after another, from several goroutines.
func (c *crew) write(ctx context.Context, name string, pack int) {
	w := c.writer(pack)
	for g := range callers {
		c.writers.Go(func() {
			var last codec.ID
			for n := 0; tier.Pause(ctx, 5*time.Millisecond); n++ {
				key := fmt.Sprintf("%s-%d-%d", name, g, n)
				losses := c.book.begin()
				id, err := w.Append(context.WithoutCancel(ctx), codec.Message{Type: "order.placed", Key: key, Data: []byte(key)})
				c.book.wrote(key, losses, id, err)
				c.book.ascending(last, id)
				if err == nil {
					last = id
				}
			}
		})
	}
}

// publish hands messages over without waiting for each.
func (c *crew) publish(ctx context.Context, name string, pack int) {
	w := c.writer(pack)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c.writers.Go(func() {
		defer close(ended)
		if err := w.Run(running); err != nil {
			c.book.wrote(name, 0, codec.ID{}, err)
		}
	})
	c.writers.Go(func() {
		<-w.Ready()
		for n := 0; tier.Pause(ctx, 20*time.Millisecond); n++ {
			for i := range pack {
				key := fmt.Sprintf("%s-%d-%d", name, n, i)
				losses := c.book.begin()
				done := func(id codec.ID, err error) { c.book.wrote(key, losses, id, err) }
				if err := w.Publish(context.WithoutCancel(ctx), codec.Message{Type: "order.placed", Key: key}, done); err != nil {
					c.book.wrote(key, losses, codec.ID{}, err)
				}
			}
		}
		flush, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Flush(flush) // each message's outcome is in the book
		stop()
		<-ended
	})
}

var errMailbox = errors.New("mailbox full")

// consume is a consumer in this process. One message in a hundred fails at first.
func (c *crew) consume(ctx context.Context) {
	h := func(_ context.Context, d *consumer.Delivery) error {
		if d.Attempt == 1 && rand.N(100) == 0 {
			return errMailbox
		}
		c.book.delivered(d.Key)
		return nil
	}
	cons, err := consumer.New(consumer.Group(group(c.t, tiertest.Dial(c.t, at(c.url)), c.addr)), h, consumer.Config{Concurrency: 4, MaxInFlight: 200})
	require.NoError(c.t, err)
	c.consumers.Go(func() {
		if err := cons.Run(ctx); err != nil && ctx.Err() == nil {
			c.book.mu.Lock()
			defer c.book.mu.Unlock()
			c.book.violated("a consumer ended: %v", err)
		}
	})
}

// rest ends the writers and waits until the group has nothing left to do, then compares the book with the log.
func (c *crew) rest() {
	c.t.Helper()
	c.stopWriters()
	c.writers.Wait()
	client := tiertest.Dial(c.t, at(c.url))
	tiertest.Eventually(c.t, patience, func() (bool, string) {
		groups, err := stream.Groups(context.Background(), client, c.addr.String())
		if err != nil || len(groups) != 1 {
			return false, fmt.Sprint(groups, err)
		}
		return groups[0].Pending == 0 && groups[0].Parked == 0 && groups[0].OldestUnread.IsZero(), fmt.Sprintf("%+v", groups[0])
	})
	c.child.stop()
	c.stopConsumers()
	c.consumers.Wait()
	r, err := stream.NewReader(client, stream.ReaderConfig{Address: c.addr.String()})
	require.NoError(c.t, err)
	n, err := c.book.audit(context.Background(), r)
	require.NoError(c.t, err)
	require.NoError(c.t, stream.Check(context.Background(), client, c.addr.Scope))
	c.t.Logf("%d in the log; %s", n, c.book.sum())
	require.Empty(c.t, c.book.broken)
	require.Positive(c.t, n)
}
