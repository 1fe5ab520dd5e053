package stream_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// many is a settle that goes without a script.
const many = 200

// Many entries are settled by XACK itself, and still only while nothing of the member's was taken over.
func TestSettlingManyIsFenced(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), lease)
		f.append(f.writer(stream.WriterConfig{}), 3*many)
		me, other := f.join(g), f.join(g)
		mine := entriesOf(f.read(me, many))
		n, err := me.Settle(f.ctx, mine)
		require.NoError(t, err)
		require.Equal(t, many, n)
		require.Empty(t, f.pending("g"))
		n, err = me.Settle(f.ctx, mine) // as after a lost reply
		require.NoError(t, err)
		require.Zero(t, n)

		mine = entriesOf(f.read(me, many))
		f.do("XCLAIM", f.log(), "g", me.Name(), "0", mine[0].String(), "IDLE", "3600000", "RETRYCOUNT", "1", "JUSTID")
		taken, err := other.TakeOver(f.ctx, 1, allSuspects)
		require.NoError(t, err)
		require.Len(t, taken.Leased, 1)
		_, err = me.Settle(f.ctx, mine)
		require.ErrorIs(t, err, tier.ErrFenced)
		require.Len(t, f.pending("g"), many, "nothing was settled")
		held, err := me.Sync(f.ctx)
		require.NoError(t, err)
		require.Len(t, held, many-1)
		n, err = me.Settle(f.ctx, mine[1:])
		require.NoError(t, err)
		require.Equal(t, many-1, n)
		require.Equal(t, other.Name(), f.pending("g")[0].consumer)
	})
}

// Other members that show that they are alive, or join and leave, get in the way of a settle without a script; the script
// does it then.
func TestSettlingManyWhileOthersBeat(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), lease)
		f.append(f.writer(stream.WriterConfig{}), 20*many)
		me, other := f.join(g), f.join(g)
		stop := make(chan struct{})
		var beats sync.WaitGroup
		beats.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := other.Renew(f.ctx, nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		for range 20 {
			n, err := me.Settle(f.ctx, entriesOf(f.read(me, many)))
			require.NoError(t, err)
			require.Equal(t, many, n)
		}
		close(stop)
		beats.Wait()
		require.Empty(t, f.pending("g"))
	})
}

// A user that may not watch settles by the script.
func TestSettlingManyWithoutTheRightToWatch(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), many)
		user := tiertest.NewUser(t, []*tiertest.Server{s}, "+@all", "~*", "&*", "-watch", "-multi")
		client, err := tier.Dial(f.ctx, user.At(s), tier.Options{})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		g, err := stream.NewGroup(client, stream.GroupConfig{Address: f.address, Name: "g", Start: stream.Head()})
		require.NoError(t, err)
		me, err := g.Join(f.ctx, "me")
		require.NoError(t, err)
		leased, err := me.Read(f.ctx, many, 0)
		require.NoError(t, err)
		n, err := me.Settle(f.ctx, entriesOf(leased))
		require.NoError(t, err)
		require.Equal(t, many, n)
	})
}

// What ReadAgain returned is good until the next call.
func TestReadAgainUsesItsMemoryAgain(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		f.append(w, 3)
		f.do("XADD", f.log(), "*", "foreign", "1")
		f.append(f.writer(stream.WriterConfig{Pack: 5}), 5)
		f.append(w, 3)
		me, other := f.join(f.group("again", stream.Head(), lease)), f.join(f.group("once", stream.Head(), lease))
		for _, n := range []int{2, 3, 1, 2} {
			again, err := me.ReadAgain(f.ctx, n, 0)
			require.NoError(t, err)
			require.Len(t, again, n)
			require.Equal(t, f.read(other, n), again)
		}
		again, err := me.ReadAgain(f.ctx, 1, 0)
		require.NoError(t, err)
		require.Empty(t, again)
	})
}

// What an owner's ReadAgain returned is good until the third call after it: one batch is read while the one before it is at work, and
// the one before that committed.
func TestOwnersReadAgainUsesItsMemoryAgain(t *testing.T) {
	const n = 20
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 4*n)
	me, other := f.own(f.cursor("c", stream.Head(), lease)), f.own(f.cursor("other", stream.Head(), lease))
	f.owned(other, 1) // both own now
	var batches [][]tier.Leased
	for range 4 {
		batch, err := me.ReadAgain(f.ctx, n, 0)
		require.NoError(t, err)
		require.Len(t, batch, n)
		batches = append(batches, batch)
	}
	require.Same(t, &batches[0][0].Records[0], &batches[3][0].Records[0], "the memory is used again")
	kept := f.owned(other, 4*n-1)
	for i := n; i < 4*n; i++ {
		require.Equal(t, kept[i-1], batches[i/n][i%n])
	}
}
