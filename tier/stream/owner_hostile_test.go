package stream_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestDueReplyLost: an entry that was taken up by a call whose reply was lost comes again, to the same owner.
func TestDueReplyLost(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Private(t, kind))
			f.append(f.writer(stream.WriterConfig{}), 3)
			o := f.own(f.cursor("c", stream.Head(), time.Minute))
			all := entriesOf(f.owned(o, 3))
			park := func(e codec.EntryID) {
				require.NoError(t, o.Commit(f.ctx, []tier.Ending{{Entry: e, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
			}
			park(all[0])
			taken, err := o.Due(f.ctx, 10)
			require.NoError(t, err)
			require.Len(t, taken.Leased, 1, "which it goes on to hold")
			park(all[1])
			proxy.DropNextReply(func(cmd []string) bool { return cmd[0] == "EVALSHA" && cmd[2] == "4" })
			_, err = o.Due(f.ctx, 10)
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			_, err = o.Sync(f.ctx) // as the runtime does after any call that failed
			require.NoError(t, err)
			tiertest.Eventually(t, 10*time.Second, func() (bool, string) {
				taken, err = o.Due(f.ctx, 10)
				require.NoError(t, err)
				return len(taken.Leased) > 0, "nothing is due"
			})
			require.Len(t, taken.Leased, 1)
			require.Equal(t, all[1], taken.Leased[0].Entry)
			n, err := o.Settle(f.ctx, all)
			require.NoError(t, err)
			require.Equal(t, 3, n)
			require.Equal(t, "0", f.text("ZCARD", f.addr().RetryKey("c")))
			require.Equal(t, all[2].String(), f.row("c", "at"))
		})
	}
}

// TestStopsWhileItAcquires: who is stopped while it asks for the ownership knows what it was given, and hands it over.
func TestStopsWhileItAcquires(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 1)
	c := f.cursor("c", stream.Head(), time.Hour)
	stopped, stop := context.WithCancel(f.ctx)
	before := proxy.Commands()["EVALSHA"]
	proxy.Delay(100 * time.Millisecond)
	var o *stream.Owner
	joined := make(chan error, 1)
	go func() {
		var err error
		o, err = c.Join(stopped, "m")
		joined <- err
	}()
	tiertest.Eventually(t, 10*time.Second, func() (bool, string) { return proxy.Commands()["EVALSHA"] > before, "it has not asked" })
	stop()
	require.NoError(t, <-joined)
	require.True(t, o.Owns())
	require.NoError(t, o.Leave(f.ctx))
	f.own(f.cursor("c", stream.Head(), time.Hour))
	_, err := c.Join(stopped, "m")
	require.ErrorIs(t, err, tier.ErrCancelled)
}

// TestOwnershipEndsWithinALease: an end that lies further ahead than a lease is of a clock that was set back; it does not keep
// others waiting until that time has come.
func TestOwnershipEndsWithinALease(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 1)
		c := f.cursor("c", stream.Head(), stream.MinLease)
		dead := f.own(c)
		require.True(t, dead.Owns())
		f.do("HSET", f.addr().CursorsKey(), "c:until", "9000000000000")
		require.Len(t, f.owned(f.own(c), 1), 1)
	})
}

// TestOutputsToSeveralLost: streams that outputs go to, and that the server does not know any more as they were, are declared
// again, all of those of a commit.
func TestOutputsToSeveralLost(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 2)
		m := f.join(f.group("g", stream.Head(), lease))
		names := []string{"a", "b", "c"}
		commit := func() {
			end := tier.Ending{Entry: f.read(m, 1)[0].Entry, Deliveries: 1}
			for _, name := range names {
				end.Outputs = append(end.Outputs, tier.AppendTo(f.addr().Scope+"/"+name, codec.Message{Key: "k"}))
			}
			require.NoError(t, m.Commit(f.ctx, []tier.Ending{end}))
		}
		commit()
		for _, name := range names {
			brand := f.text("HGET", tier.ScopeKey(f.addr().Scope), tier.StreamField(name))
			f.do("HDEL", tier.ScopeKey(f.addr().Scope), tier.StreamField(name), tier.BrandField(brand))
		}
		commit()
		for _, name := range names {
			require.Equal(t, "2", f.text("XLEN", tier.Address{Scope: f.addr().Scope, Stream: name}.LogKey()))
		}
	})
}

// TestOutputBeyondIDs: an output to a stream that would begin beyond the last id is refused, and not lost.
func TestOutputBeyondIDs(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 2)
		m := f.join(f.group("g", stream.Head(), lease))
		out := f.addr().Scope + "/out"
		commit := func() error {
			return m.Commit(f.ctx, []tier.Ending{{Entry: f.read(m, 1)[0].Entry, Deliveries: 1, Outputs: []tier.Output{tier.AppendTo(out, codec.Message{})}}})
		}
		require.NoError(t, commit())
		f.do("DEL", tier.Address{Scope: f.addr().Scope, Stream: "out"}.LogKey())
		f.do("HSET", tier.ScopeKey(f.addr().Scope), "top:out", "3903090455551-0")
		require.ErrorIs(t, commit(), stream.ErrIDSpace)
		require.Len(t, f.pending("g"), 1)
	})
}

// TestOutputsByHand: an output that is none of those that there are is refused before the call, with no effect of another.
func TestOutputsByHand(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 1)
		m := f.join(f.group("g", stream.Head(), lease))
		entry := f.read(m, 1)[0].Entry
		for _, bad := range []tier.Output{
			{Kind: "rename", Target: "total"},
			{Kind: "index", Target: "total"},
			{Kind: tier.OutputHashIncrement, Target: "total", Member: "n", Value: "one"},
			{Kind: tier.OutputHashIncrement, Target: "total", Member: "n", Value: "1.5"},
			{Kind: tier.OutputHashIncrement, Target: "total", Member: "n", Value: "-0"},
			{Kind: tier.OutputHashIncrement, Target: "total", Member: "n", Value: "+1"},
			{Kind: tier.OutputSortedAdd, Target: "ranks", Member: "m", Value: "0x_1p4"},
			{Kind: tier.OutputSortedAdd, Target: "ranks", Member: "m", Value: "1e-400"},
			{Kind: tier.OutputSortedAdd, Target: "ranks", Member: "m", Value: ""},
		} {
			err := m.Commit(f.ctx, []tier.Ending{{Entry: entry, Deliveries: 1, Outputs: []tier.Output{tier.HashIncrement("other", "n", 1), bad}}})
			var refused *tier.OutputError
			require.ErrorAs(t, err, &refused, "%+v", bad)
			require.Equal(t, 1, refused.Output)
			require.Equal(t, "0", f.text("EXISTS", tier.StateKey(f.addr().Scope, "other")), "%+v", bad)
		}
		require.Len(t, f.pending("g"), 1)
	})
}

// TestMembersWithinALease: who is there by a beat that lies ahead of the clock, which was set back, is not taken for alive
// until that time has come.
func TestMembersWithinALease(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.partition(2)
		c, err := stream.NewPartitionedCursor(f.client, stream.CursorConfig{Address: f.address, Name: "c", Start: stream.Head()})
		require.NoError(t, err)
		f.do("ZADD", tier.Address{Scope: tier.PartitionScope(f.addr().Scope, 0), Stream: f.addr().Stream}.MembersKey("c"), "9000000000000", "ghost")
		there, n, err := c.Attend(f.ctx, "me")
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []string{"me"}, there)
	})
}

// TestOwnerStaysNear: while an entry is not through, its owner goes on, but not for ever: what is through above the checkpoint
// stands in every commit.
func TestOwnerStaysNear(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		for range 10 {
			_, err := w.AppendBatch(f.ctx, messages(2000))
			require.NoError(t, err)
		}
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		first := f.owned(o, 1)[0].Entry
		total := 0
		for {
			some, err := o.Read(f.ctx, 1000, 50*time.Millisecond)
			require.NoError(t, err)
			if len(some) == 0 {
				break
			}
			total += len(some)
			_, err = o.Settle(f.ctx, entriesOf(some))
			require.NoError(t, err)
		}
		require.Less(t, total, 12_000)
		require.Greater(t, total, 4_000)
		require.Equal(t, total, len(strings.Fields(f.row("c", "above"))))
		_, err := o.Settle(f.ctx, []codec.EntryID{first})
		require.NoError(t, err)
		require.Len(t, f.owned(o, 19_999-total), 19_999-total)
	})
}
