package stream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// attempt is what a member is to know of an open message.
type attempt struct {
	key     string
	attempt int
}

func attempts(l tier.Leased) (list []attempt) {
	for i := range l.Records {
		n := l.Deliveries
		if l.Open != nil {
			n = l.Open[i].Attempt
		}
		list = append(list, attempt{l.Records[i].Key, n})
	}
	return list
}

// due takes what is due, which is one entry.
func (f *fixture) due(m *stream.Member) tier.Leased {
	f.t.Helper()
	taken, err := m.Due(f.ctx, 10)
	require.NoError(f.t, err)
	require.Len(f.t, taken.Leased, 1)
	return taken.Leased[0]
}

// TestParked: a parked entry is nobody's until it is due; it comes again at the attempt after the one that it had, of a pack
// with what is open only, through crashes and hand-backs, until all of it is done.
func TestParked(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), lease)
		f.keyed(f.writer(stream.WriterConfig{Pack: 4}), "a", "b", "c", "d")
		m, other := f.join(g), f.join(g)
		leased := f.read(m, 1)[0]
		aside := tier.Ending{Entry: leased.Entry, Deliveries: 1, Open: []tier.Open{{Index: 1, Attempt: 1}, {Index: 2, Attempt: 0}}}
		require.NoError(t, m.Commit(f.ctx, []tier.Ending{aside}))
		require.Empty(t, f.pending("g"), "a parked entry is not pending")

		again := f.due(other)
		require.Equal(t, []attempt{{"b", 2}, {"c", 1}}, attempts(again))
		require.Equal(t, 2, f.pending("g")[0].deliveries)
		taken, err := m.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Empty(t, taken.Leased, "taken up twice")

		crash := func(by *stream.Member) tier.Leased { // the one who holds it is silent past its lease
			f.do("XCLAIM", f.log(), "g", f.pending("g")[0].consumer, "0", leased.Entry.String(), "IDLE", "3600000", "JUSTID")
			taken, err := by.TakeOver(f.ctx, 10, 1)
			require.NoError(t, err)
			require.Len(t, taken.Leased, 1)
			return taken.Leased[0]
		}
		again = crash(m)
		require.Equal(t, []attempt{{"b", 3}, {"c", 2}}, attempts(again), "a crash counts")
		back := tier.Returned{Held: tier.Held{Entry: leased.Entry, Deliveries: again.Deliveries - 1}, Open: []tier.Open{{Index: 2, Attempt: 2}}}
		require.NoError(t, m.Release(f.ctx, []tier.Returned{back}, 0))
		again = crash(m)
		require.Equal(t, []attempt{{"c", 2}}, attempts(again), "a hand-back does not, and b was done")
		require.NoError(t, m.Commit(f.ctx, []tier.Ending{{Entry: leased.Entry, Deliveries: again.Deliveries}}))
		require.Empty(t, f.pending("g"))
		require.Equal(t, "0", f.text("HLEN", f.addr().OpenKey("g")))
		require.Equal(t, "0", f.text("ZCARD", f.addr().RetryKey("g")))
	})
}

// TestDueInTime: what is parked comes when it is due by the server's clock, the first first, and whoever looks is told how long that is.
func TestDueInTime(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		sc := newScene(setUp(t, s))
		f := sc.f
		park := func(l tier.Leased, delay time.Duration) {
			require.NoError(t, sc.me.Commit(f.ctx, []tier.Ending{{Entry: l.Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: delay}}}}))
		}
		park(sc.mine[0], time.Hour)
		taken, err := sc.other.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
		require.InDelta(t, time.Hour, taken.Next, float64(time.Minute))
		looked, err := sc.other.TakeOver(f.ctx, 10, 0)
		require.NoError(t, err)
		require.InDelta(t, time.Hour, looked.Next, float64(time.Minute))
		park(sc.mine[1], 0)
		taken, err = sc.other.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Len(t, taken.Leased, 1)
		require.Equal(t, sc.mine[1].Entry, taken.Leased[0].Entry)
		require.InDelta(t, time.Hour, taken.Next, float64(time.Minute))
		f.do("DEL", f.addr().RetryKey("g"), f.addr().OpenKey("g"))
		taken, err = sc.other.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Negative(t, taken.Next)
	})
}

// TestPartOfAPackIsDue: of a pack with several pauses the first decides; what is not due yet says how long it is.
func TestPartOfAPackIsDue(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.keyed(f.writer(stream.WriterConfig{Pack: 3}), "a", "b", "c", "a", "b", "c")
		m := f.join(f.group("g", stream.Head(), lease))
		for _, delays := range [][2]time.Duration{{time.Hour, 0}, {0, time.Hour}} {
			leased := f.read(m, 1)[0]
			require.NoError(t, m.Commit(f.ctx, []tier.Ending{{
				Entry: leased.Entry, Deliveries: 1, Open: []tier.Open{{Index: 0, Attempt: 1, Delay: delays[0]}, {Index: 2, Attempt: 1, Delay: delays[1]}},
			}}))
			again := f.due(m)
			require.Equal(t, []attempt{{"a", 2}, {"c", 2}}, attempts(again))
			for k, delay := range delays {
				require.InDelta(t, delay, again.Open[k].Delay, float64(time.Minute))
			}
		}
	})
}

// TestTrimmedWhileParked (B1): what was trimmed while it was parked is told of once, and leaves nothing behind.
func TestTrimmedWhileParked(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		sc := newScene(setUp(t, s))
		f := sc.f
		require.NoError(t, sc.me.Commit(f.ctx, []tier.Ending{{Entry: sc.mine[0].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		f.do("XDEL", f.log(), sc.mine[0].Entry.String())
		taken, err := sc.other.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
		require.Equal(t, []codec.EntryID{sc.mine[0].Entry}, taken.Lost)
		require.Equal(t, "0", f.text("HLEN", f.addr().OpenKey("g")))
		require.Len(t, f.pending("g"), 1, "the other one, which is not parked")
	})
}

// TestCommitTooLate (B16): a call that is repeated after its entry was taken up again, by another or by the same member, has no second effect.
func TestCommitTooLate(t *testing.T) {
	for _, by := range []string{"another", "the same"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				sc := newScene(setUp(t, s))
				f := sc.f
				list := []tier.Ending{{
					Entry: sc.mine[0].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}},
					Dead: []tier.Letter{{Index: -1, Reason: "r", Attempts: 1}},
				}}
				require.NoError(t, sc.me.Commit(f.ctx, list))
				next := sc.other
				if by == "the same" {
					next = sc.me
				}
				l := f.due(next)
				require.NoError(t, sc.me.Commit(f.ctx, list), "the repetition of a call whose reply was lost")
				require.Equal(t, "1", f.text("XLEN", f.addr().DeadKey("g")))
				require.Equal(t, "0", f.text("ZCARD", f.addr().RetryKey("g")))
				require.Equal(t, l.Entry, f.pending("g")[0].entry)
				require.NoError(t, next.Commit(f.ctx, []tier.Ending{{Entry: l.Entry, Deliveries: l.Deliveries}})) // as all that was parked ends
				require.Equal(t, "0", f.text("HLEN", f.addr().OpenKey("g")))
				require.Len(t, f.pending("g"), 1, "the one that nobody has settled")
			})
		})
	}
}

// TestDueLeavesWhatIsPending: after the group went back, a parked entry may be read anew; then its parking is void.
func TestDueLeavesWhatIsPending(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		sc := newScene(setUp(t, s))
		f := sc.f
		require.NoError(t, sc.me.Commit(f.ctx, []tier.Ending{{Entry: sc.mine[0].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		f.do("XGROUP", "SETID", f.log(), "g", "0-0")
		f.read(sc.other, 3)
		taken, err := sc.me.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
		require.Equal(t, sc.other.Name(), f.pending("g")[0].consumer)
	})
}

// TestResetForgetsWhatIsParked: and counts it.
func TestResetForgetsWhatIsParked(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		sc := newScene(setUp(t, s))
		f := sc.f
		require.NoError(t, sc.me.Commit(f.ctx, []tier.Ending{{Entry: sc.mine[0].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}))
		n, err := sc.g.Reset(f.ctx, stream.Head())
		require.NoError(t, err)
		require.Equal(t, 2, n)
		fresh := f.join(sc.g)
		require.Len(t, f.drain(fresh), 3)
		taken, err := fresh.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
	})
}

// TestSuspects: an entry that two consumers have let go of is taken alone; the others with it, as many as wanted.
func TestSuspects(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		sc := newScene(setUp(t, s))
		f := sc.f
		third := f.read(sc.me, 1)
		for i, l := range append(sc.mine, third...) {
			count := []string{"2", "5", "1"}[i]
			f.do("XCLAIM", f.log(), "g", sc.me.Name(), "0", l.Entry.String(), "IDLE", "3600000", "RETRYCOUNT", count, "JUSTID")
		}
		taken, err := sc.other.TakeOver(f.ctx, 10, 1)
		require.NoError(t, err)
		require.Equal(t, []codec.EntryID{sc.mine[0].Entry, third[0].Entry}, []codec.EntryID{taken.Leased[0].Entry, taken.Leased[1].Entry})
		require.Equal(t, 1, taken.Suspects)
		taken, err = sc.other.TakeOver(f.ctx, 10, 0)
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
		require.Equal(t, 1, taken.Suspects)
	})
}
