package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

const (
	partitionsOfTest = 4
	keysOfTest       = 24
	shortLease       = 600 * time.Millisecond
)

// troupe is members that share partitions while they join, leave, die and freeze. What a handler does is a message in the effects
// of its partition, which is committed with the message that it is of.
type troupe struct {
	t       *testing.T
	ctx     context.Context
	client  *tier.Client
	scope   string
	dial    func() (*tier.Client, *tiertest.Proxy)
	members []*actor
	leaving sync.WaitGroup
	worst   time.Duration // that a partition was idle after a death or a freeze
}

// actor is a member with a connection of its own.
type actor struct {
	client *tier.Client
	proxy  *tiertest.Proxy // nil: its connection cannot be frozen
	stop   context.CancelFunc
	done   chan error
	killed bool
}

func newTroupe(t *testing.T, server interface{ URL() string }, dial func() (*tier.Client, *tiertest.Proxy)) *troupe {
	c := &troupe{t: t, ctx: t.Context(), client: tiertest.Dial(t, server), scope: tiertest.AuditedScope(t, server), dial: dial}
	require.NoError(t, stream.Partition(c.ctx, c.client, c.scope, partitionsOfTest))
	for _, name := range []string{"orders", "effects"} {
		_, err := c.writer(name).Declare(c.ctx)
		require.NoError(t, err)
	}
	return c
}

func (c *troupe) writer(name string) *stream.PartitionedWriter {
	w, err := stream.NewPartitionedWriter(c.client, stream.WriterConfig{Address: c.scope + "/" + name})
	require.NoError(c.t, err)
	return w
}

func (c *troupe) effects(k int) string {
	return tier.Address{Scope: tier.PartitionScope(c.scope, k), Stream: "effects"}.String()
}

func (c *troupe) join() {
	a := &actor{done: make(chan error, 1)}
	a.client, a.proxy = c.dial()
	cursor, err := stream.NewPartitionedCursor(a.client, stream.CursorConfig{Address: c.scope + "/orders", Name: groupName, Start: stream.Head(), Lease: shortLease})
	require.NoError(c.t, err)
	p, err := consumer.NewPartitioned(cursor, func(_ context.Context, d *consumer.Delivery) error {
		d.Emit(tier.AppendTo(c.effects(codec.Partition(d.Key, partitionsOfTest)), codec.Message{Key: d.Key, Data: d.Data}))
		return nil
	}, consumer.Config{Order: consumer.ByKey, Concurrency: 4, MaxDeliveries: -1, DrainTimeout: time.Second})
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	go func() { a.done <- p.Run(ctx) }()
	<-p.Ready()
	c.members = append(c.members, a)
}

// take takes a member out of those that are there.
func (c *troupe) take() *actor {
	i := rand.IntN(len(c.members))
	a := c.members[i]
	c.members = append(c.members[:i:i], c.members[i+1:]...)
	return a
}

// leave ends a member in order.
func (c *troupe) leave(a *actor) {
	a.stop()
	c.leaving.Go(func() {
		if err := <-a.done; err != nil && !a.killed {
			c.t.Errorf("a member that left in order: %v", err)
		}
	})
}

// kill ends a member so that it can say nothing more.
func (c *troupe) kill(a *actor) {
	a.killed = true
	if a.proxy == nil {
		a.client.Close()
	} else {
		a.proxy.Refuse(true)
		a.proxy.Cut()
	}
	c.leave(a)
}

// lengths are how many effects each partition has.
func (c *troupe) lengths() (n [partitionsOfTest]int64) {
	for k := range n {
		for info, err := range stream.Streams(c.ctx, c.client, tier.PartitionScope(c.scope, k)) {
			require.NoError(c.t, err)
			if info.Address.Stream == "effects" {
				n[k] = info.Length
			}
		}
	}
	return n
}

// moves waits until each partition has gone on, and notes how long that took.
func (c *troupe) moves() {
	start, before := time.Now(), c.lengths()
	tiertest.Eventually(c.t, patience, func() (bool, string) {
		for k, n := range c.lengths() {
			if n <= before[k] {
				return false, fmt.Sprintf("partition %d stands still at %d", k, n)
			}
		}
		return true, ""
	})
	c.worst = max(c.worst, time.Since(start))
}

// play makes so many random changes while messages come, and then sees that the effects of each key are what was appended, once
// each and in order.
func (c *troupe) play(changes int) {
	writing, stopWriting := context.WithCancel(c.ctx)
	written := make(chan int, 1)
	go func() { written <- c.write(writing) }()
	c.join()
	c.join()
	c.moves()
	c.worst = 0
	pace := c.pace()
	for range changes {
		switch action := rand.IntN(4); {
		case len(c.members) < 2 || action == 0 && len(c.members) < 5:
			c.join()
		case action == 1:
			c.leave(c.take())
		case action == 2:
			c.kill(c.take())
			c.moves()
		default:
			c.freeze()
		}
	}
	stopWriting()
	n := <-written
	require.Positive(c.t, n)
	c.settled(n)
	for _, a := range c.members {
		c.leave(a)
	}
	c.leaving.Wait()
	c.t.Logf("%d changes, %d messages a key; a partition was idle for %s at most", changes, n, c.worst.Round(time.Millisecond))
	// Who stands by asks once a second; and where a single question to the server waits, a change of owner, which takes some, does.
	slack := 1500*time.Millisecond + 20*pace()
	require.Less(c.t, c.worst, shortLease+shortLease/3+slack)
}

// pace asks the server all the time how late it is, and tells how long one answer took at most.
func (c *troupe) pace() (worst func() time.Duration) {
	ctx, stop := context.WithCancel(c.ctx)
	longest := make(chan time.Duration, 1)
	go func() {
		most := time.Duration(0)
		for last := time.Now(); tier.Pause(ctx, 10*time.Millisecond); last = time.Now() {
			if _, err := c.client.Now(ctx, tier.ScopeKey(c.scope)); err == nil {
				most = max(most, time.Since(last))
			}
		}
		longest <- most
	}()
	return func() time.Duration { stop(); return <-longest }
}

// freeze cuts a member off for longer than its lease, without its connections ending; then it goes on.
func (c *troupe) freeze() {
	i := rand.IntN(len(c.members))
	if c.members[i].proxy == nil {
		return
	}
	c.members[i].proxy.Freeze()
	since := time.Now()
	c.moves()
	tier.Pause(c.ctx, shortLease*3/2-time.Since(since))
	c.members[i].proxy.Thaw()
}

// write appends a message of each key at a time, and answers how many times.
func (c *troupe) write(ctx context.Context) (n int) {
	w := c.writer("orders")
	for ctx.Err() == nil {
		n++
		batch := make([]codec.Message, keysOfTest)
		for i := range batch {
			batch[i] = codec.Message{Key: "key-" + strconv.Itoa(i), Data: []byte(strconv.Itoa(n))}
		}
		if _, err := w.AppendBatch(c.ctx, batch); err != nil {
			c.t.Error(err)
			return n
		}
		tier.Pause(ctx, 10*time.Millisecond)
	}
	return n
}

// settled waits until there are as many effects as messages, and looks at them.
func (c *troupe) settled(n int) {
	tiertest.Eventually(c.t, patience, func() (bool, string) {
		total := int64(0)
		for _, l := range c.lengths() {
			total += l
		}
		return total >= int64(n*keysOfTest), fmt.Sprintf("%d effects of %d messages", total, n*keysOfTest)
	})
	last := map[string]int{}
	for k := range partitionsOfTest {
		r, err := stream.NewReader(c.client, stream.ReaderConfig{Address: c.effects(k)})
		require.NoError(c.t, err)
		for record, err := range r.Range(c.ctx, codec.EntryID{}, codec.MaxEntryID) {
			require.NoError(c.t, err)
			require.Equal(c.t, strconv.Itoa(last[record.Key]+1), string(record.Data), "the next effect of %s", record.Key)
			last[record.Key]++
		}
	}
	for key, got := range last {
		require.Equal(c.t, n, got, key)
	}
	require.Len(c.t, last, keysOfTest)
}

// changesOf is how many changes a test makes: PIPELINE_CHANGES, or so many.
func changesOf(t *testing.T, n int) int {
	if text := os.Getenv("PIPELINE_CHANGES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	return n
}

// TestPartitionedOwnership: whoever joins, leaves, dies or is cut off for longer than a lease, a partition has one effective owner at a
// time: each message has its effect once, those of a key in order. And none is idle for longer than a lease and a beat.
func TestPartitionedOwnership(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			newTroupe(t, s, func() (*tier.Client, *tiertest.Proxy) {
				p := tiertest.NewProxy(t, s)
				return tiertest.Dial(t, p), p
			}).play(changesOf(t, 50))
		})
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		s := tiertest.NewCluster(t, tiertest.Valkey)
		newTroupe(t, s, func() (*tier.Client, *tiertest.Proxy) { return tiertest.Dial(t, s), nil }).play(changesOf(t, 20))
	})
}

// TestPartitionedEnds: without partitions it ends at once and says so; it runs once.
func TestPartitionedEnds(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		cursor, err := stream.NewPartitionedCursor(tiertest.Dial(t, s), stream.CursorConfig{Address: tiertest.Scope(t) + "/orders", Name: groupName, Start: stream.Head()})
		require.NoError(t, err)
		p, err := consumer.NewPartitioned(cursor, func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{})
		require.NoError(t, err)
		err = p.Run(t.Context())
		require.True(t, errors.Is(err, stream.ErrNotPartitioned), "%v", err)
		require.ErrorIs(t, p.Run(t.Context()), consumer.ErrRan)
		_, err = consumer.NewPartitioned(nil, nil, consumer.Config{})
		require.ErrorIs(t, err, consumer.ErrConfig)
		_, err = consumer.NewPartitioned(cursor, func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{BatchSize: 2})
		require.ErrorIs(t, err, consumer.ErrConfig, "a batch size, of which no consumer of a partition would make use")
	})
}

// TestPartitionedThroughRepartition: the number of partitions grows and shrinks while members are at work and writers go on: nothing is
// lost, and no message of a key comes before an earlier one, though keys move.
func TestPartitionedThroughRepartition(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	c := newTroupe(t, s, nil)
	var mu sync.Mutex
	last, broken := map[string]int{}, []string{}
	handler := func(_ context.Context, d *consumer.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		n, _ := strconv.Atoi(string(d.Data))
		if n > last[d.Key]+1 {
			broken = append(broken, fmt.Sprintf("%s: %d after %d", d.Key, n, last[d.Key]))
		}
		last[d.Key] = max(last[d.Key], n)
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var members sync.WaitGroup
	for range 2 {
		cursor, err := stream.NewPartitionedCursor(c.client, stream.CursorConfig{Address: c.scope + "/orders", Name: groupName, Start: stream.Head(), Lease: shortLease})
		require.NoError(t, err)
		p, err := consumer.NewPartitioned(cursor, handler, consumer.Config{Order: consumer.ByKey})
		require.NoError(t, err)
		members.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		<-p.Ready()
	}
	writing, stopWriting := context.WithCancel(t.Context())
	written := make(chan int, 1)
	go func() { written <- c.write(writing) }()
	reached := func(n int) {
		tiertest.Eventually(t, patience, func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			least := n
			for i := range keysOfTest {
				least = min(least, last["key-"+strconv.Itoa(i)])
			}
			return least >= n, fmt.Sprintf("a key is at %d, want %d", least, n)
		})
	}
	reached(20)
	for i, count := range []int{7, 2, 3} {
		require.NoError(t, stream.Repartition(t.Context(), c.client, c.scope, count, nil))
		reached(40 + 40*i)
	}
	stopWriting()
	reached(<-written)
	stop()
	members.Wait()
	require.Empty(t, broken[:min(5, len(broken))])
}

// TestPartitionedShares: a member that is alone owns all partitions; one that joins is handed its share, and hands it back when it
// leaves.
func TestPartitionedShares(t *testing.T) {
	const partitions = 16
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	client, scope := tiertest.Dial(t, s), tiertest.AuditedScope(t, s)
	require.NoError(t, stream.Partition(t.Context(), client, scope, partitions))
	w, err := stream.NewPartitionedWriter(client, stream.WriterConfig{Address: scope + "/orders"})
	require.NoError(t, err)
	_, err = w.Declare(t.Context())
	require.NoError(t, err)
	begin := func(name string) (stop func()) {
		cursor, err := stream.NewPartitionedCursor(client, stream.CursorConfig{Address: scope + "/orders", Name: groupName, Start: stream.Head(), Lease: shortLease})
		require.NoError(t, err)
		p, err := consumer.NewPartitioned(cursor, func(context.Context, *consumer.Delivery) error { return nil }, consumer.Config{Name: name, Concurrency: 1})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		<-p.Ready()
		return func() {
			cancel()
			require.NoError(t, <-done)
		}
	}
	owns := func() map[string]int {
		n := map[string]int{}
		for k := range partitions {
			list, err := stream.Cursors(t.Context(), client, fmt.Sprintf("%s/orders@%d", scope, k))
			require.NoError(t, err)
			for _, c := range list {
				name, _, _ := strings.Cut(c.Owner, "-")
				n[name]++
			}
		}
		return n
	}
	until := func(want func(map[string]int) bool) {
		tiertest.Eventually(t, patience, func() (bool, string) { n := owns(); return want(n), fmt.Sprint(n) })
	}
	stopOne := begin("one")
	until(func(n map[string]int) bool { return n["one"] == partitions })
	stopTwo := begin("two")
	until(func(n map[string]int) bool { return n["one"]+n["two"] == partitions && n["one"] > 0 && n["two"] > 0 })
	stopTwo()
	until(func(n map[string]int) bool { return n["one"] == partitions })
	stopOne()
	require.Equal(t, map[string]int{"": partitions}, owns(), "all were handed over")
}
