package stream_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestTakeOverCountsOnce (B24, B26): five members look at the same moment for what a silent one held. Each entry goes to one of them, as its second
// delivery: an attempt that ended is counted, and leads to another, not to the dead letters.
func TestTakeOverCountsOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		sc := newScene(setUp(t, s))
		sc.age()
		var mu sync.Mutex
		var wg sync.WaitGroup
		deliveries := map[codec.EntryID][]int{}
		for range 5 {
			m := sc.f.join(sc.g)
			wg.Go(func() {
				taken, err := m.TakeOver(sc.f.ctx, 10, allSuspects)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				for _, l := range taken.Leased {
					deliveries[l.Entry] = append(deliveries[l.Entry], l.Deliveries)
				}
			})
		}
		wg.Wait()
		require.Equal(t, map[codec.EntryID][]int{sc.mine[0].Entry: {2}, sc.mine[1].Entry: {2}}, deliveries)
		for _, p := range sc.f.pending("g") {
			require.Equal(t, 2, p.deliveries)
		}
		require.Equal(t, "0", sc.f.text("XLEN", sc.f.addr().DeadKey("g")))
	})
}

// TestEntryOfNobody (B18, B22): a member that died between its read and anything else, without a row of its own, or with every other member
// dead as well, keeps nothing: whoever comes finds what it held.
func TestEntryOfNobody(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		sc := newScene(setUp(t, s))
		sc.f.do("DEL", sc.owners())
		sc.age()
		late := sc.f.join(sc.g)
		taken, err := late.TakeOver(sc.f.ctx, 10, allSuspects)
		require.NoError(t, err)
		require.Len(t, taken.Leased, 2)
		_, err = sc.me.Settle(sc.f.ctx, entriesOf(sc.mine))
		require.ErrorIs(t, err, tier.ErrFenced)
		n, err := late.Settle(sc.f.ctx, entriesOf(taken.Leased))
		require.NoError(t, err)
		require.Equal(t, 2, n)
	})
}

// TestRawClientInTheGroup: an entry that a raw client read and never acknowledged is taken over like any other.
func TestRawClientInTheGroup(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), lease)
		m := f.join(g)
		f.append(f.writer(stream.WriterConfig{}), 2)
		f.do("XREADGROUP", "GROUP", "g", "raw", "COUNT", "2", "STREAMS", f.log(), ">")
		held := f.pending("g")
		f.do("XACK", f.log(), "g", held[0].entry.String())
		f.do("XCLAIM", f.log(), "g", "raw", "0", held[1].entry.String(), "IDLE", "3600000", "JUSTID")
		taken, err := m.TakeOver(f.ctx, 10, allSuspects)
		require.NoError(t, err)
		require.Len(t, taken.Leased, 1)
		require.Equal(t, held[1].entry, taken.Leased[0].Entry)
	})
}

// allSuspects may be among what is taken over.
const allSuspects = 1000

// lettersOf gives entries up.
func lettersOf(held []tier.Held, reason string) (list []tier.Ending) {
	for _, h := range held {
		list = append(list, tier.Ending{Entry: h.Entry, Deliveries: h.Deliveries, Dead: []tier.Letter{{Index: -1, Reason: reason, Attempts: h.Deliveries}}})
	}
	return list
}

// returned hands entries back as they are.
func returned(held []tier.Held) (list []tier.Returned) {
	for _, h := range held {
		list = append(list, tier.Returned{Held: h})
	}
	return list
}
