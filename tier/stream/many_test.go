package stream_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// heap is what is alive in this process. A test that asks is not parallel, so that no other runs beside it.
func heap() int {
	runtime.GC()
	runtime.GC() // what the first one made finalizable, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// pipelined sends n commands past package tier, many in one write.
func (f *fixture) pipelined(n int, cmd func(i int) rueidis.Completed) {
	f.t.Helper()
	for at := 0; at < n; at += 1000 {
		cmds := make([]rueidis.Completed, 0, 1000)
		for i := at; i < min(n, at+1000); i++ {
			cmds = append(cmds, cmd(i))
		}
		for _, r := range f.raw().DoMulti(f.ctx, cmds...) {
			require.NoError(f.t, r.Error())
		}
	}
}

// TestManyStreams: a scope whose hash somebody has filled is listed whole and in order, by pages, and audited.
func TestManyStreams(t *testing.T) {
	const n, perCommand = 200_000, 500
	f := setUpUnaudited(t, tiertest.Private(t, tiertest.Valkey))
	name := func(i int) string { return fmt.Sprintf("s%07d", i*7919%n) }
	scope := f.addr().Scope
	f.pipelined(n/perCommand, func(at int) rueidis.Completed {
		args := make([]string, 0, 2*perCommand)
		for i := range perCommand {
			args = append(args, tier.StreamField(name(at*perCommand+i)), "AAA")
		}
		return f.raw().B().Arbitrary("HSET").Keys(tier.ScopeKey(scope)).Args(args...).Build()
	})
	f.do("HSET", tier.ScopeKey(scope), "stream:", "AAA", "stream:a/b", "AAA", "stream:"+strings.Repeat("x", 129), "AAA", "other", "x")
	f.do("XADD", tier.Address{Scope: scope, Stream: name(1)}.LogKey(), "5-5", "m", "x")

	before, most, listed, last := heap(), 0, 0, ""
	start := time.Now()
	for info, err := range stream.Streams(f.ctx, f.client, scope) {
		require.NoError(t, err)
		if info.Address.Stream <= last {
			t.Fatalf("%s after %s", info.Address.Stream, last)
		}
		last = info.Address.Stream
		if last == name(1) {
			require.Equal(t, stream.Info{Address: info.Address, Brand: "AAA", Length: 1, Added: 1, First: entryID(t, "5-5"), Last: entryID(t, "5-5")}, info)
		}
		if listed++; listed%50_000 == 1 {
			most = max(most, heap()-before)
		}
	}
	t.Logf("%d streams listed in %s, at most %d MB", listed, time.Since(start), most>>20)
	require.Equal(t, n, listed)
	require.Less(t, most, 30<<20)

	start = time.Now()
	err := stream.Check(f.ctx, f.client, scope)
	t.Logf("audited in %s", time.Since(start))
	findings := err.(interface{ Unwrap() []error }).Unwrap()
	require.Len(t, findings, 1001, "told one by one up to a bound")
	require.ErrorContains(t, findings[1000], "findings more")
}

// setUpUnaudited is setUp for a private server, with a scope that no audit would pass.
func setUpUnaudited(t *testing.T, s *tiertest.Server) *fixture {
	f := &fixture{t: t, ctx: testContext(t), server: s, client: tiertest.Dial(t, s), address: "hostile/orders"}
	c := raw(t, s)
	f.raw = func() rueidis.Client { return c }
	return f
}

// TestManyGroups: ten thousand groups on one stream, made by another program. They are listed in a bounded number of
// writes, and one more group works.
func TestManyGroups(t *testing.T) {
	const n = 10_000
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			f := setUp(t, tiertest.Private(t, kind))
			w := f.writer(stream.WriterConfig{})
			ids := f.append(w, 3)
			f.pipelined(n, func(i int) rueidis.Completed {
				from := "0"
				if i%2 == 1 {
					from = ids[1].ServerEntry().String()
				}
				return f.raw().B().XgroupCreate().Key(f.log()).Group(fmt.Sprintf("g%05d", i)).Id(from).Build()
			})
			start := time.Now()
			groups, err := stream.Groups(f.ctx, f.client, f.address)
			require.NoError(t, err)
			t.Logf("%d groups listed in %s", len(groups), time.Since(start))
			require.Len(t, groups, n)
			for i, g := range groups {
				if want := fmt.Sprintf("g%05d", i); g.Name != want || g.OldestUnread != ids[i%2*2].ServerEntry() {
					t.Fatalf("group %d is %s, unread from %s", i, g.Name, g.OldestUnread)
				}
			}

			g := f.group("zz", stream.Head(), lease)
			m := f.join(g)
			leased := f.read(m, 3)
			gone, err := m.Renew(f.ctx, entriesOf(leased))
			require.NoError(t, err)
			require.Empty(t, gone)
			acked, err := m.Settle(f.ctx, entriesOf(leased))
			require.NoError(t, err)
			require.Equal(t, 3, acked)
			require.NoError(t, m.Checkpoint(f.ctx))
			require.NoError(t, m.Retire(f.ctx))
			require.NoError(t, m.Leave(f.ctx))
			groups, err = stream.Groups(f.ctx, f.client, f.address)
			require.NoError(t, err)
			require.Len(t, groups, n+1)
			last := groups[n]
			require.Equal(t, stream.GroupInfo{Name: "zz", Lease: lease, LastDelivered: ids[2].ServerEntry(), LagExact: true}, last)
			require.Equal(t, codec.EntryID{}, last.OldestUnread)
		})
	}
}
