package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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
	chaosEnv  = "CHAOS" // messages of each mode
	chaosKeys = 2000
	chaosWait = 40 * time.Minute
)

// chaos is one mode of TestChaos: what was written, and who handles it.
type chaos struct {
	t        testing.TB
	name     string
	pack     int
	server   *tiertest.Server
	proxy    *tiertest.Proxy
	client   *tier.Client
	addr     tier.Address
	order    consumer.Order
	log      []codec.Message // what was written, in this order; its data are its place
	poison   map[string]bool // data of those that no handler can handle
	crew     []*undying
	faults   map[string]int
	suffered int
	began    time.Time
	took     time.Duration // until all was through; 0: it is not
	deaths   int
}

// TestChaos: handlers fail in every way that there is, among them kill -9 of their process, over CHAOS messages of 2,000 keys and
// three processes, in each order, plain and packed, while connections are cut, replies lost, and processes frozen past
// their leases. Each message has its effects exactly once, those of one key in order, and the dead letters hold those
// that nobody can handle, and nothing else.
func TestChaos(t *testing.T) {
	n := setting(t, chaosEnv, 500, strconv.Atoi)
	var modes []*chaos
	for _, order := range []consumer.Order{consumer.None, consumer.ByKey, consumer.Strict} {
		for _, pack := range []int{1, 20} {
			c := newChaos(t, fmt.Sprintf("%s-%d", order, pack), order, n, pack)
			modes = append(modes, c)
			c.start()
		}
	}
	for began, open := time.Now(), modes; len(open) > 0; {
		require.Less(t, time.Since(began), chaosWait, "not through")
		pause(time.Duration(rand.IntN(1500/len(open))) * time.Millisecond)
		if c := open[rand.IntN(len(open))]; !c.through() && c.suffered < 20+n/100 { // so that a slow machine comes to an end
			c.suffer()
		}
		open = slices.DeleteFunc(slices.Clone(open), func(c *chaos) bool { return c.took > 0 })
	}
	for _, c := range modes {
		t.Run(c.name, func(t *testing.T) {
			c.t = t
			c.audit()
		})
	}
}

func newChaos(t testing.TB, name string, order consumer.Order, n, pack int) *chaos {
	server := tiertest.Private(t, tiertest.Valkey)
	c := &chaos{
		t: t, name: name, pack: pack, server: server, proxy: tiertest.NewProxy(t, server), client: tiertest.Dial(t, server),
		addr: tier.Address{Scope: tiertest.AuditedScope(t, server), Stream: "orders"}, order: order, poison: map[string]bool{}, faults: map[string]int{},
	}
	w, err := stream.NewWriter(c.client, stream.WriterConfig{Address: c.addr.String(), Brand: "ORD", Pack: pack})
	require.NoError(t, err)
	kills := max(1, n/50_000) // each costs many leases
	for i := range n {
		m := codec.Message{Type: fineMessage, Key: fmt.Sprintf("key-%d", rand.IntN(chaosKeys)), Data: []byte(strconv.Itoa(i))}
		switch {
		case i%(n/kills) == n/kills/2:
			m.Type = killsAlways
		case i%500 == 250:
			m.Type = failsAlways
		}
		if m.Type != fineMessage {
			c.poison[string(m.Data)] = true
		}
		c.log = append(c.log, m)
	}
	for i := 0; i < n; i += 1000 {
		_, err := w.AppendBatch(t.Context(), c.log[i:min(n, i+1000)])
		require.NoError(t, err)
	}
	return c
}

func (c *chaos) start() {
	rate := 20 // one failure in so many messages
	if c.order == consumer.Strict {
		rate = 300 // each holds all others up
	}
	for range 3 {
		c.crew = append(c.crew, keepAlive(c.t, fmt.Sprintf("%s=%s %s %s %d", chaosChildEnv, c.proxy.URL(), c.addr, c.order, rate)))
	}
	c.began = time.Now()
}

// suffer lets one fault happen.
func (c *chaos) suffer() {
	u := c.crew[rand.IntN(len(c.crew))]
	faults := map[string]func(){
		"connections killed": func() {
			tell(c.t, c.server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		},
		"connections cut": c.proxy.Cut,
		"replies lost": func() {
			c.proxy.DropReplies(3, func(cmd []string) bool { return strings.HasPrefix(cmd[0], "EVAL") && rand.IntN(3) == 0 })
		},
		"frozen": u.freeze,
		"killed": func() { u.signal(9, false) },
	}
	for name, do := range faults { // in any order
		do()
		c.faults[name]++
		c.suffered++
		return
	}
}

// through tells whether all is handled, or given up; then its processes end.
func (c *chaos) through() bool {
	open := 0
	for _, u := range c.crew {
		u.mu.Lock()
		require.Empty(c.t, u.failed)
		u.mu.Unlock()
	}
	ask := func(f func(ctx context.Context) error) {
		tiertest.Eventually(c.t, patience, func() (bool, string) { // its own connections are killed as well
			err := f(context.Background())
			return err == nil, errText(err)
		})
	}
	ask(func(ctx context.Context) error {
		if c.order == consumer.None {
			list, err := stream.Groups(ctx, c.client, c.addr.String())
			if err != nil || len(list) == 0 {
				open = 1
				return err
			}
			open = int(list[0].Pending+list[0].Parked) + len(c.log)*btoi(!list[0].OldestUnread.IsZero())
			return nil
		}
		list, err := stream.Cursors(ctx, c.client, c.addr.String())
		if err != nil || len(list) == 0 {
			open = 1
			return err
		}
		open = int(list[0].Lag + list[0].Parked)
		return nil
	})
	if open > 0 {
		return false
	}
	c.took = time.Since(c.began)
	for _, u := range c.crew {
		died, failed := u.end()
		require.Empty(c.t, failed)
		c.deaths += died
	}
	return true
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// audit compares what there is with what was written.
func (c *chaos) audit() {
	ctx := context.Background()
	dead := map[string]bool{}
	for letter, err := range stream.DeadLetters(ctx, c.client, c.addr.String(), groupName) {
		require.NoError(c.t, err)
		at := string(letter.Record.Data)
		require.True(c.t, c.poison[at], "%q (%s) is in the dead letters: %s", at, letter.Record.Type, letter.Reason)
		require.False(c.t, dead[at], "%s is there twice", at)
		dead[at] = true
	}
	require.Len(c.t, dead, len(c.poison))
	r, err := stream.NewReader(c.client, stream.ReaderConfig{Address: c.addr.Scope + "/" + outStream})
	require.NoError(c.t, err)
	seen, last, newest := map[string]bool{}, map[string]int{}, -1
	for rec, err := range r.Range(ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(c.t, err)
		place, err := strconv.Atoi(string(rec.Data))
		require.NoError(c.t, err)
		require.Equal(c.t, c.log[place].Key, rec.Key)
		require.False(c.t, seen[string(rec.Data)], "%s twice", rec.Data)
		seen[string(rec.Data)] = true
		before, ok := last[rec.Key]
		if c.order == consumer.ByKey {
			require.True(c.t, !ok || before < place, "of %s, %d came after %d", rec.Key, place, before)
		}
		if c.order == consumer.Strict {
			require.Greater(c.t, place, newest)
		}
		last[rec.Key], newest = place, place
	}
	counts := map[string]int{}
	for _, m := range c.log {
		if at := string(m.Data); c.poison[at] == seen[at] {
			require.Fail(c.t, "lost, or handled though it cannot be", "%s of %s, %s", at, m.Key, m.Type)
		}
		if m.Type == fineMessage {
			counts[m.Key]++
		}
	}
	require.Equal(c.t, strconv.Itoa(len(seen)), c.state(totalState)["n"])
	for key, n := range c.state(countsState) {
		require.Equal(c.t, strconv.Itoa(counts[key]), n, key)
		delete(counts, key)
	}
	require.Empty(c.t, counts)
	c.t.Logf("%d messages of %d keys in %s, %d of them poison; %d processes died; faults %v",
		len(c.log), chaosKeys, c.took.Round(time.Second), len(c.poison), c.deaths, c.faults)
}

// state reads a state that is a hash.
func (c *chaos) state(name string) map[string]string {
	key := tier.StateKey(c.addr.Scope, name)
	m, err := c.client.Do(context.Background(), key, c.client.B().Hgetall().Key(key).Build())
	require.NoError(c.t, err)
	state, err := m.AsStrMap()
	require.NoError(c.t, err)
	return state
}
