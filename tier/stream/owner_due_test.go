package stream_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestOwnerTakesUpInOrder: what an owner before has parked further on is taken up again once this one has read up to it, and
// not before what stands between.
func TestOwnerTakesUpInOrder(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 5)
		c := f.cursor("c", stream.Head(), time.Minute)
		o := f.own(c)
		all := entriesOf(f.owned(o, 5))
		due := func() []codec.EntryID {
			taken, err := o.Due(f.ctx, 10)
			require.NoError(t, err)
			if len(taken.Leased) == 0 {
				require.GreaterOrEqual(t, taken.Next, 40*time.Millisecond, "it is asked again, and not all the time")
			}
			return entriesOf(taken.Leased)
		}
		for _, e := range []codec.EntryID{all[0], all[2], all[3]} {
			require.NoError(t, o.Commit(f.ctx, []tier.Ending{{Entry: e, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		}
		o = f.dies(c)
		require.Equal(t, all[:1], due(), "it stands at the checkpoint")
		require.Empty(t, due(), "the second is to be read first")
		require.Equal(t, all[1:2], entriesOf(f.owned(o, 1)))
		require.Equal(t, all[2:3], due(), "nothing stands before it")
		require.Empty(t, due())
		require.Equal(t, all[4:], entriesOf(f.owned(o, 1)))
		require.Equal(t, all[3:4], due())

		o = f.dies(c) // with three in its hands that were taken up: suspects
		require.Equal(t, all[:1], due())
		_, err := o.Settle(f.ctx, all[:1])
		require.NoError(t, err)
		require.Empty(t, due())
		require.Equal(t, all[1:2], entriesOf(f.owned(o, 1)))
		_, err = o.Settle(f.ctx, all[1:2])
		require.NoError(t, err)
		require.Equal(t, all[4:], entriesOf(f.owned(o, 1)))
		require.Equal(t, all[2:3], due())

		o = f.dies(c)
		f.do("XTRIM", f.log(), "MAXLEN", "0")
		taken, err := o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.NotEmpty(t, taken.Lost, "nothing is there to be read before it")
	})
}

// TestOwnerFindsParkedLost: what an owner before has parked at the end of the log, and somebody has trimmed, is found lost,
// though no read comes by it.
func TestOwnerFindsParkedLost(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 3)
		c := f.cursor("c", stream.Head(), time.Minute)
		o := f.own(c)
		all := entriesOf(f.owned(o, 3))
		require.NoError(t, o.Commit(f.ctx, []tier.Ending{{Entry: all[2], Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		o = f.dies(c)
		f.do("XDEL", f.log(), all[2].String())
		require.Equal(t, all[:2], entriesOf(f.owned(o, 2)))
		_, err := o.Read(f.ctx, 1, 10*time.Millisecond)
		require.NoError(t, err)
		taken, err := o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Equal(t, all[2:], taken.Lost)
	})
}

// TestOwnerListsForLong: what is parked may be so much that it takes longer than a lease to list it, and than connections last:
// the cursor stays with its owner, and the list goes on.
func TestOwnerListsForLong(t *testing.T) {
	t.Parallel()
	eachAlone(t, func(t *testing.T, s *tiertest.Server) {
		const n = 320
		f, proxy := setUpProxied(t, s)
		f.append(f.writer(stream.WriterConfig{}), n)
		c := f.cursor("c", stream.Head(), stream.MinLease)
		o := f.own(c)
		var list []tier.Ending
		for _, e := range entriesOf(f.owned(o, n)) {
			list = append(list, tier.Ending{Entry: e, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: time.Hour}}})
		}
		require.NoError(t, o.Commit(f.ctx, list))
		proxy.Delay(stream.MinLease / 10) // two of these for each of ten pages
		pages := 0
		proxy.DropRequests(2, func(cmd []string) bool {
			if cmd[0] == "HMGET" && strings.HasSuffix(cmd[1], ":open") {
				pages++
			}
			return cmd[0] == "HMGET" && pages%4 == 3
		})
		parked, err := o.Parked(f.ctx, func(ctx context.Context) error { _, err := o.Renew(ctx, nil); return err })
		require.NoError(t, err)
		require.Len(t, parked, n)
		proxy.Delay(0)
		require.False(t, f.own(c).Owns())
		require.Less(t, pages, n/32+3, "from the first page on only once")
	})
}

// TestOwnerLateDue: a call that the server makes long after its caller has made another, takes up what nobody knows of: who
// looks, or lists what is parked, finds it, and it is given out again.
func TestOwnerLateDue(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 2)
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		all := entriesOf(f.owned(o, 2))
		park := func(e codec.EntryID) {
			require.NoError(t, o.Commit(f.ctx, []tier.Ending{{Entry: e, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		}
		late := func(e codec.EntryID, find func()) {
			_, err := o.Due(f.ctx, 1) // nothing is left that this owner would look for by itself
			require.NoError(t, err)
			park(e)
			a, epoch := f.addr(), f.row("c", "epoch")
			_, err = f.client.Run(f.ctx, tier.Call{
				Script: script(t, "due_owned"), Keys: []string{a.LogKey(), a.CursorsKey(), a.RetryKey("c"), a.OpenKey("c")},
				Args: []string{"c", o.Name(), epoch, "1", "0", all[1].String(), ""},
			})
			require.NoError(t, err)
			find()
			taken, err := o.Due(f.ctx, 1)
			require.NoError(t, err)
			require.Equal(t, []codec.EntryID{e}, entriesOf(taken.Leased))
		}
		looks := func(news bool) {
			taken, err := o.TakeOver(f.ctx, 1, 0)
			require.NoError(t, err)
			require.Equal(t, news, taken.Next == 0)
		}
		late(all[0], func() {
			parked, err := o.Parked(f.ctx, nil)
			require.NoError(t, err)
			require.Len(t, parked, 1)
		})
		looks(false) // what it has taken up is no news
		late(all[1], func() { looks(true) })
		looks(false)
	})
}

// TestTakesUpTheFirst: of much that is due, what stands first in the log is not left to the end, since others may be parked
// behind it; nor is what is due for longest.
func TestTakesUpTheFirst(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		type holder interface {
			Commit(ctx context.Context, endings []tier.Ending) error
			Due(ctx context.Context, n int) (tier.Taken, error)
		}
		for name, hold := range map[string]func(f *fixture) (holder, []tier.Leased){
			"group": func(f *fixture) (holder, []tier.Leased) {
				m := f.join(f.group("c", stream.Head(), time.Minute))
				return m, f.read(m, 10)
			},
			"cursor": func(f *fixture) (holder, []tier.Leased) {
				o := f.own(f.cursor("c", stream.Head(), time.Minute))
				return o, f.owned(o, 10)
			},
		} {
			t.Run(name, func(t *testing.T) {
				f := setUp(t, s)
				f.append(f.writer(stream.WriterConfig{}), 10)
				h, leased := hold(f)
				all := entriesOf(leased)
				for i := range all { // the last one is due first
					e := all[len(all)-1-i]
					require.NoError(t, h.Commit(f.ctx, []tier.Ending{{Entry: e, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
					f.do("ZADD", f.addr().RetryKey("c"), strconv.Itoa(i), e.String())
				}
				for _, want := range [][]codec.EntryID{{all[0], all[9]}, {all[1], all[8]}} {
					taken, err := h.Due(f.ctx, 2)
					require.NoError(t, err)
					require.Equal(t, want, entriesOf(taken.Leased))
				}
			})
		}
	})
}
