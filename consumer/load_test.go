package consumer_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// load is one stream of a deployment, with authors that append all the time and two consumers of a group that handle.
type load struct {
	*stage
	seen     *tally
	appended atomic.Int64
	authors  sync.WaitGroup
	enough   chan struct{}

	mu   sync.Mutex
	acks []ack // in the order of each author
}

type ack struct {
	author int
	key    string
	id     codec.ID
	err    error
}

const authors = 4

func startLoad(t testing.TB, at interface{ URL() string }) *load {
	s := &stage{
		t: t, lease: lease, client: tiertest.Dial(t, at),
		addr: tier.Address{Scope: tiertest.AuditedScope(t, at), Stream: "orders"},
	}
	l := &load{stage: s, seen: newTally(), enough: make(chan struct{})}
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.addr.String(), Brand: "ORD"})
	require.NoError(t, err)
	_, err = w.Declare(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.group(s.client).Create(t.Context()))
	for range 2 {
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			l.seen.add(d.Key)
			return nil
		}, consumer.Config{Concurrency: 4})
	}
	stop := func() { close(l.enough); l.authors.Wait() }
	t.Cleanup(stop)
	for author := range authors {
		l.authors.Go(func() { l.write(w, author) })
	}
	l.flows("at the start")
	return l
}

// write appends one message after the other, so that what it is told is in the order of the log.
func (l *load) write(w *stream.Writer, author int) {
	for n := 0; ; n++ {
		select {
		case <-l.enough:
			return
		default:
		}
		a := ack{author: author, key: fmt.Sprintf("%d-%d", author, n)}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		a.id, a.err = w.Append(ctx, codec.Message{Type: "order.placed", Key: a.key})
		cancel()
		l.mu.Lock()
		l.acks = append(l.acks, a)
		l.mu.Unlock()
		l.appended.Add(1)
	}
}

// flows returns when messages that were appended from now on have gone all the way.
func (l *load) flows(when string) {
	l.t.Helper()
	from, seen := l.appended.Load(), l.seen.distinct()
	tiertest.Eventually(l.t, patience, func() (bool, string) {
		a, s := l.appended.Load(), l.seen.distinct()
		return a >= from+100 && s >= seen+100, fmt.Sprintf("%s: %d appended and %d seen since %d and %d; failed: %v", when, a, s, from, seen, l.failure())
	})
}

func (l *load) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.acks) == 0 {
		return nil
	}
	return l.acks[len(l.acks)-1].err
}

// ends stops the authors and compares: what exists was delivered, ids are unique and ascend, in the log and for each
// author. Whole says that nothing that was acknowledged may be missing, and nothing may be there twice.
func (l *load) ends(whole bool) {
	l.t.Helper()
	close(l.enough)
	l.authors.Wait()
	l.enough = make(chan struct{}) // for the clean-up
	r, err := stream.NewReader(l.client, stream.ReaderConfig{Address: l.addr.String()})
	require.NoError(l.t, err)
	log := map[string]codec.ID{}
	var last codec.ID
	entries := 0
	for record, err := range r.Range(l.t.Context(), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(l.t, err)
		require.Less(l.t, last.String(), record.ID.String())
		last = record.ID
		log[record.Key] = record.ID
		entries++
	}
	require.Len(l.t, log, entries, "a message is there twice")
	latest := map[int]codec.ID{}
	told := map[codec.ID]bool{}
	lost := 0
	for _, a := range l.acks {
		if a.err != nil {
			require.False(l.t, whole, "%s: %v", a.key, a.err)
			require.True(l.t, tier.OutcomeUnknown(a.err), "%s: %v", a.key, a.err)
			continue
		}
		require.Less(l.t, latest[a.author].String(), a.id.String(), "ids of one author")
		latest[a.author] = a.id
		require.False(l.t, told[a.id], "%s was told twice", a.id)
		told[a.id] = true
		switch id, ok := log[a.key]; {
		case ok:
			require.Equal(l.t, a.id, id, a.key)
		default:
			require.False(l.t, whole, "%s was acknowledged and is gone", a.key)
			lost++
		}
	}
	tiertest.Eventually(l.t, patience, func() (bool, string) {
		for key := range log {
			if l.seen.count(key) == 0 {
				return false, fmt.Sprintf("%s was not delivered; %d of %d seen", key, l.seen.distinct(), len(log))
			}
		}
		return true, ""
	})
	l.settled(patience)
	l.t.Logf("%d appended, %d in the log, %d acknowledged ones lost, %d deliveries", len(l.acks), entries, lost, l.seen.deliveries())
}

// TestCluster: three masters with a replica each, under load.
func TestCluster(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := tiertest.NewCluster(t, kind)
			t.Run("streams on all masters", func(t *testing.T) { onAllMasters(t, c) }) // B41
			t.Run("promoted replica", func(t *testing.T) {
				l := startLoad(t, c)
				for range 2 {
					c.Failover(t, l.addr.LogKey())
					l.flows("after a failover")
				}
				l.ends(true)
			})
			t.Run("moved slot", func(t *testing.T) { // B145
				l := startLoad(t, c)
				for range 2 {
					c.Move(t, l.addr.LogKey(), func() { <-time.After(100 * time.Millisecond) })
					l.flows("after the slot has moved")
				}
				c.WaitWhole(t)
				l.ends(true)
			})
			t.Run("waiting readers", func(t *testing.T) { // B145
				waitingReaders(t, c, func(key string) { c.Move(t, key, nil) })
				c.WaitWhole(t)
				waitingReaders(t, c, func(key string) { c.Failover(t, key) })
			})
			t.Run("frozen master", func(t *testing.T) { // B57
				l := startLoad(t, c)
				master := c.Master(t, l.addr.LogKey())
				next := c.Replica(t, master)
				require.NoError(t, master.Freeze())
				tiertest.Eventually(t, patience, func() (bool, string) { return c.Master(t, l.addr.LogKey()) == next, "no failover" })
				began := time.Now()
				l.flows("after the failover")
				t.Log("flows after", time.Since(began))
				require.NoError(t, master.Thaw())
				c.WaitWhole(t)
				l.flows("after its return")
				l.ends(false)
			})
			t.Run("killed master", func(t *testing.T) { // B37
				l := startLoad(t, c)
				master := c.Master(t, l.addr.LogKey())
				next := c.Replica(t, master)
				master.Kill()
				l.flows("after the death of the master")
				require.Equal(t, next, c.Master(t, l.addr.LogKey()))
				require.NoError(t, master.Restart(t.Context()))
				c.WaitWhole(t)
				l.flows("after its return")
				l.ends(false)
			})
		})
	}
}

// waitingReaders: the place of a stream changes while nobody appends and a reader waits on the server; it goes on at the
// new one.
func waitingReaders(t *testing.T, c *tiertest.Cluster, change func(key string)) {
	s := &stage{t: t, client: tiertest.Dial(t, c), lease: lease, addr: tier.Address{Scope: tiertest.AuditedScope(t, c), Stream: "orders"}}
	s.append(1, 1)
	seen := newTally()
	s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
		seen.add(d.Position.String())
		return nil
	}, consumer.Config{})
	seen.reach(t, 1, patience)
	master := c.Master(t, s.addr.LogKey())
	tiertest.Eventually(t, patience, func() (bool, string) {
		info := master.Command(t, "INFO", "clients")
		return strings.Contains(info.String(), "blocked_clients:1"), info.String()
	})
	change(s.addr.LogKey())
	require.NotEqual(t, master, c.Master(t, s.addr.LogKey()))
	s.append(20, 1)
	seen.reach(t, 21, patience)
	s.settled(patience)
	require.Equal(t, 21, seen.deliveries())
}

// onAllMasters: one client writes to and reads from streams on each of the masters.
func onAllMasters(t *testing.T, c *tiertest.Cluster) {
	client := tiertest.Dial(t, c)
	var stages []*stage
	at := map[*tiertest.Server]bool{}
	for len(at) < 3 {
		s := &stage{t: t, client: client, lease: lease, addr: tier.Address{Scope: tiertest.AuditedScope(t, c), Stream: "orders"}}
		at[c.Master(t, s.addr.LogKey())] = true
		stages = append(stages, s)
	}
	for _, s := range stages {
		s.append(20, 1)
		seen := newTally()
		s.run(s.source(), func(_ context.Context, d *consumer.Delivery) error {
			seen.add(d.Key)
			return nil
		}, consumer.Config{})
		seen.reach(t, 20, patience)
		s.settled(patience)
	}
}

// TestSentinels: failovers by sentinels, on request and after a death, under load. (B37)
func TestSentinels(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.NewSentinel(t, kind)
			l := startLoad(t, s)
			s.Failover(t)
			l.flows("after a failover")
			s.WaitFollowing(t)
			primary := s.Now()
			primary.Kill()
			s.WaitOther(t, primary)
			l.flows("after the death of the primary")
			l.ends(false)
		})
	}
}

// TestFailoversLeaveNothingBehind (B58): after many failovers there are as many goroutines as after a few. It runs alone,
// since it counts them.
func TestFailoversLeaveNothingBehind(t *testing.T) {
	r := tiertest.NewReplicated(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, r.Primary)
	l := startLoad(t, proxy)
	few := 0
	const rounds = 50
	for round := 1; round <= rounds; round++ {
		r.Promote(t)
		proxy.Switch(r.Primary)
		proxy.Cut()
		l.flows(fmt.Sprint("after failover ", round))
		if round == rounds/5 {
			few = runtime.NumGoroutine()
		}
	}
	tiertest.Eventually(t, patience, func() (bool, string) {
		n := runtime.NumGoroutine()
		return n <= few+10, fmt.Sprintf("%d goroutines after %d failovers, %d after a fifth of them", n, rounds, few)
	})
	l.ends(false)
}
