package stream_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// mint is that of a node lease, released with the test.
func (f *fixture) mint() *codec.Mint {
	f.t.Helper()
	l, err := f.client.LeaseNode(f.ctx)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, l.Release(f.ctx)) })
	return l.Mint()
}

func (f *fixture) exclusive(m stream.Minter, brand codec.Brand) *stream.Writer {
	f.t.Helper()
	return f.writer(stream.WriterConfig{Exclusive: true, Mint: m, Brand: brand})
}

// scripted is a mint that gives what it was told.
type scripted []string

func (s *scripted) Next(codec.Brand) (codec.ID, error) {
	if len(*s) == 0 {
		return codec.ID{}, codec.ErrNodeLease
	}
	id, err := codec.Parse((*s)[0])
	*s = (*s)[1:]
	return id, err
}

// rawEntries are those of the log as a raw client reads them: the entry id, then fields and values.
func rawEntries(t testing.TB, f *fixture) [][]string {
	t.Helper()
	m := f.do("XRANGE", f.log(), "-", "+")
	rows, err := m.ToArray()
	require.NoError(t, err)
	var entries [][]string
	for i := range rows {
		pair, err := rows[i].ToArray()
		require.NoError(t, err)
		id, err := pair[0].ToString()
		require.NoError(t, err)
		fields, err := pair[1].AsStrSlice()
		require.NoError(t, err)
		entries = append(entries, append([]string{id}, fields...))
	}
	return entries
}

// TestExclusiveWire: what an exclusive writer writes is, byte for byte, the entry of EchoMQ 3.0: at the place of its
// snowflake, with the field id and then the message.
func TestExclusiveWire(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.exclusive(&scripted{"EVT000xY9Wvvcd", "EVT0JZGkP8stH0"}, "EVT")
		m := codec.Message{Type: "a", Key: "1"}
		id, err := w.Append(f.ctx, m)
		require.NoError(t, err)
		require.Equal(t, "EVT000xY9Wvvcd", id.String())
		_, err = w.Append(f.ctx, m)
		require.NoError(t, err)
		bytes := "\x95\x01\xa1a\xa11\x80\xc4\x00"
		require.Equal(t, [][]string{
			{"1704117200000-1620567", "id", "EVT000xY9Wvvcd", "m", bytes},
			{"1767225600000-28714", "id", "EVT0JZGkP8stH0", "m", bytes},
		}, rawEntries(t, f))
		require.Equal(t, "EVT exclusive", f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:orders"))
		got, err := f.reader().Get(f.ctx, id)
		require.NoError(t, err)
		require.Equal(t, m.Key, got.Key)
		list, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
		require.NoError(t, err)
		require.True(t, list[0].Exclusive)
		require.Equal(t, codec.Brand("EVT"), list[0].Brand)
	})
}

// TestExclusivePeer: what an Elixir peer writes into an exclusive stream, an entry at the place of its snowflake with the
// field id and fields of its own or m, is read with its id by a reader and by a group; ours go on above it.
func TestExclusivePeer(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		mint := f.mint()
		w := f.exclusive(mint, "EVT")
		_, err := w.Declare(f.ctx)
		require.NoError(t, err)
		elixir, err := codec.NewMint(77, time.Now().Add(-time.Minute).UnixMilli(), time.Now().UnixMilli(), func() time.Time { return time.Now().Add(-time.Minute) })
		require.NoError(t, err)
		var want []codec.ID
		peer := func(fields ...string) codec.ID {
			id, err := elixir.Next("EVT")
			require.NoError(t, err)
			f.do("XADD", append([]string{f.log(), id.HostEntry().String(), "id", id.String()}, fields...)...)
			want = append(want, id)
			return id
		}
		peer("m", encoded(t, "k1"))
		own := peer("kind", "order.placed", "total", "3")
		peer("m", encoded(t, "k2"))
		want = append(want, f.append(w, 2)...)

		all := f.all()
		require.Len(t, all, 5)
		for i := range all {
			require.Equal(t, want[i].HostEntry(), all[i].Addr)
			if want[i] == own { // without a message of ours: raw, not dropped
				require.Equal(t, []string{"id", own.String(), "kind", "order.placed", "total", "3"}, all[i].Fields)
				continue
			}
			require.Equal(t, want[i], all[i].ID)
			require.NoError(t, all[i].Err)
		}
		require.Equal(t, []string{"k1", "", "k2", "k", "k"}, keysOf(all))
		leased := f.read(f.join(f.group("g", stream.Head(), lease)), 5)
		for i := range leased {
			require.Equal(t, all[i], leased[i].Records[0])
		}
		for _, id := range []codec.ID{want[0], want[2], want[4]} {
			got, err := f.reader().Get(f.ctx, id)
			require.NoError(t, err)
			require.Equal(t, id, got.ID)
		}
		group := f.group("from", stream.FromEntry(want[3].HostEntry()), lease)
		require.Equal(t, want[3], f.read(f.join(group), 2)[0].Records[0].ID)
		require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
	})
}

// TestExclusiveRefusals: a call whose ids are not all above the top is refused whole, unless it is the repetition of one
// that went in.
func TestExclusiveRefusals(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		const a, b, c, d = "EVT000xY9Wvvcd", "EVT000xY9Wvvce", "EVT000xY9Wvvcf", "EVT000xY9Wvvcg"
		write := func(n int, ids ...string) error {
			m := scripted(ids)
			_, err := f.exclusive(&m, "EVT").AppendBatch(f.ctx, messages(n))
			return err
		}
		require.NoError(t, write(2, b, c))
		before := f.text("DUMP", f.log())
		require.NoError(t, write(2, b, c), "the same again is what stands there")
		for _, ids := range [][]string{{a}, {a, b}, {a, d}, {c, d}, {c}} {
			err := write(len(ids), ids...)
			require.ErrorIs(t, err, stream.ErrNonMonotonic, ids)
			require.False(t, tier.OutcomeUnknown(err))
		}
		require.ErrorIs(t, write(2, d, d), stream.ErrNonMonotonic)
		require.ErrorIs(t, write(1, "ORD000xY9Wvvcg"), stream.ErrBadCall)
		require.ErrorIs(t, write(2, d), codec.ErrNodeLease)
		require.Equal(t, before, f.text("DUMP", f.log()))

		// What was trimmed was there: a top that is an entry no more.
		f.do("XTRIM", f.log(), "MAXLEN", "0")
		require.ErrorIs(t, write(1, a), stream.ErrNonMonotonic)
		require.NoError(t, write(1, d))
	})
}

// TestExclusiveTrimmedInPart: a repetition of which the first entries were trimmed meanwhile was appended.
func TestExclusiveTrimmedInPart(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.exclusive(f.mint(), "EVT")
	f.append(w, 1)
	for _, keep := range []string{"1", "0"} {
		proxy.DropReplies(1, appendsExclusive)
		proxy.DropRequests(1, func(cmd []string) bool { // before it is repeated
			if appendsExclusive(cmd) {
				f.do("XTRIM", f.log(), "MAXLEN", keep)
				return true
			}
			return false
		})
		_, err := w.AppendBatch(f.ctx, messages(2))
		if keep == "1" {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, stream.ErrNonMonotonic)
			require.True(t, tier.OutcomeUnknown(err), "nothing tells that it was there")
		}
		require.Equal(t, keep, f.length())
	}
	f.append(w, 1)
}

func appendsExclusive(cmd []string) bool { return cmd[0] == "EVALSHA" && cmd[2] == "2" && len(cmd) > 6 }

// TestKindDiffers: the two orders do not share a stream, whoever was first, and whether or not the other writer has begun.
func TestKindDiffers(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		mint := f.mint()
		server, host := f.writer(stream.WriterConfig{}), f.exclusive(mint, "")
		f.append(server, 1)
		var differs *stream.KindDiffersError
		_, err := host.Append(f.ctx, codec.Message{})
		require.ErrorAs(t, err, &differs)
		require.Equal(t, stream.KindDiffersError{Stream: f.address, Ask: "exclusive"}, *differs)
		require.False(t, tier.OutcomeUnknown(err))

		e := f.at("events")
		e.append(e.exclusive(mint, ""), 1)
		for _, pack := range []int{1, 2} {
			_, err = e.writer(stream.WriterConfig{Pack: pack}).Append(f.ctx, codec.Message{})
			require.ErrorAs(t, err, &differs)
			require.Equal(t, "exclusive", differs.Have)
		}
		_, err = e.exclusive(mint, "NEW").Declare(f.ctx)
		require.ErrorAs(t, err, new(*stream.BrandDiffersError))
		require.Equal(t, "1", f.length())
		require.Equal(t, "1", e.length())

		// The declaration changes under writers at work.
		key := tier.ScopeKey(f.addr().Scope)
		brand := f.text("HGET", key, "stream:orders")
		f.do("HSET", key, "stream:orders", brand+" exclusive")
		_, err = server.Append(f.ctx, codec.Message{})
		require.ErrorAs(t, err, &differs)
		f.do("HSET", key, "stream:orders", brand+" sideways")
		_, err = server.Append(f.ctx, codec.Message{})
		require.ErrorAs(t, err, &differs)
		require.ErrorContains(t, stream.Check(f.ctx, f.client, f.addr().Scope), "sideways")
		_, err = f.reader().Last(f.ctx, 1)
		require.ErrorContains(t, err, "upgrade")
		f.do("HSET", key, "stream:orders", brand)
		f.append(server, 1)
	})
}

// TestExclusiveRemoved: a removed exclusive stream ends its writer, and its name can be declared under either order.
func TestExclusiveRemoved(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		mint := f.mint()
		w := f.exclusive(mint, "EVT")
		f.append(w, 1)
		key := tier.ScopeKey(f.addr().Scope)
		f.do("HSET", key, "stream:orders", "-EVT exclusive")
		f.do("DEL", f.log())
		_, err := w.Append(f.ctx, codec.Message{})
		require.ErrorIs(t, err, stream.ErrStreamRemoved)
		_, err = f.reader().Last(f.ctx, 1)
		require.ErrorIs(t, err, stream.ErrStreamRemoved)
		list, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
		require.NoError(t, err)
		require.True(t, list[0].Removed && list[0].Exclusive)
		require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
		require.Equal(t, codec.Brand("EVT"), f.append(f.writer(stream.WriterConfig{}), 1)[0].Brand())
		require.Equal(t, "EVT", f.text("HGET", key, "stream:orders"))
	})
}

// TestExclusiveFlushed: after the server has lost everything the writer declares its stream again, as exclusive and with
// its brand, and goes on.
func TestExclusiveFlushed(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	_, err := f.exclusive(f.mint(), "XYZ").Declare(f.ctx)
	require.NoError(t, err)
	w := f.exclusive(f.mint(), "")
	before := f.append(w, 2)
	f.do("FLUSHALL")
	after := f.append(w, 2)
	require.Equal(t, "XYZ exclusive", f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:orders"))
	require.Less(t, before[1].String(), after[0].String())
	require.Equal(t, after, idsOf(f.all()))
}

// TestExclusiveOrder (B90): many goroutines share an exclusive writer, by Append, in batches and by Publish, with replies
// lost, while the clock of the mint steps back: ids are unique and ascend, each message stands once, and what one goroutine
// wrote stands in its order.
func TestExclusiveOrder(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Shared(t, kind))
			var mu sync.Mutex
			at := time.Now()
			mint, err := codec.NewMint(600, at.Add(-time.Hour).UnixMilli(), at.Add(time.Hour).UnixMilli(), func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				at = at.Add(-time.Second)
				return at
			})
			require.NoError(t, err)
			w := f.exclusive(mint, "EVT")
			f.append(w, 1)
			f.run(w)
			proxy.DropReplies(3, nth(2, appendsExclusive))
			published := f.publish(w, 3000)
			ids := make([][]codec.ID, 8)
			var wg sync.WaitGroup
			for g := range ids {
				wg.Go(func() {
					for i := range 50 {
						ms := make([]codec.Message, 1+i%3)
						for k := range ms {
							ms[k] = codec.Message{Key: strconv.Itoa(g)}
						}
						got, err := w.AppendBatch(f.ctx, ms)
						if err != nil {
							t.Error(err)
							return
						}
						ids[g] = append(ids[g], got...)
					}
				})
			}
			wg.Wait()
			require.NoError(t, w.Flush(f.ctx))
			require.NotZero(t, proxy.Dropped())
			require.Equal(t, make([]error, 3000), published.errs)
			all := f.all()
			requireOrdered(t, all)
			byKey := map[string][]codec.ID{}
			for _, r := range all[1:] {
				byKey[r.Key] = append(byKey[r.Key], r.ID)
			}
			require.Equal(t, published.ids, byKey["k"])
			for g := range ids {
				require.Equal(t, ids[g], byKey[strconv.Itoa(g)])
				require.True(t, slices.IsSortedFunc(ids[g], codec.ID.Compare))
			}
		})
	}
}

// TestExclusiveConfig: what an exclusive writer cannot do is refused when it is made, with the reason.
func TestExclusiveConfig(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := &scripted{}
	for _, tt := range []struct {
		cfg  stream.WriterConfig
		want string
	}{
		{stream.WriterConfig{Exclusive: true}, "LeaseNode"},
		{stream.WriterConfig{Mint: m}, "Exclusive"},
		{stream.WriterConfig{Exclusive: true, Mint: m, Pack: 2}, "no packs"},
		{stream.WriterConfig{Exclusive: true, Mint: m, Producer: "p"}, "Producer p"},
	} {
		tt.cfg.Address = f.address
		_, err := stream.NewWriter(f.client, tt.cfg)
		require.ErrorIs(t, err, stream.ErrBadCall)
		require.ErrorContains(t, err, tt.want, fmt.Sprintf("%+v", tt.cfg))
	}
}
