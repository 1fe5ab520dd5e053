package stream_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRead: new entries, as many as were asked for, with a first delivery; nothing when there is nothing.
func TestRead(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.group("g", stream.Head(), 0))
		require.Empty(t, f.read(m, 0))
		w := f.writer(stream.WriterConfig{})
		packed := f.writer(stream.WriterConfig{Pack: 3})
		f.keyed(w, "a", "b")
		f.keyed(packed, "c", "d", "e", "f")
		f.do("XADD", f.log(), "*", "payload", "x")
		f.do("XADD", f.log(), "*", "m", "\xc1")
		leased := f.read(m, 2)
		require.Equal(t, "a", leased[0].Records[0].Key)
		require.Equal(t, 1, leased[0].Deliveries)
		leased = f.read(m, 4)
		require.Equal(t, []string{"c", "d", "e"}, keysOf(leased[0].Records))
		require.Equal(t, []string{"f"}, keysOf(leased[1].Records))
		require.True(t, leased[2].Records[0].Foreign())
		require.Equal(t, []string{"payload", "x"}, leased[2].Records[0].Fields)
		require.Error(t, leased[3].Records[0].Err)
		require.Len(t, f.pending("g"), 6)
		for _, p := range f.pending("g") {
			require.Equal(t, m.Name(), p.consumer)
			require.Equal(t, 1, p.deliveries)
		}
	})
}

// TestReadWaits: a read waits on the server, without holding up other calls of the client (B48, B53), returns when
// something comes, and ends with its time; the end of its context is seen before it starts, and not while it waits.
func TestReadWaits(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.group("g", stream.Head(), 0))
		w := f.writer(stream.WriterConfig{})
		f.append(w, 1)
		held := f.read(m, 1)

		began := time.Now()
		got, err := m.Read(f.ctx, 1, 100*time.Millisecond)
		require.NoError(t, err)
		require.Empty(t, got)
		require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)

		ctx, cancel := context.WithCancel(f.ctx)
		ended := make(chan []tier.Leased)
		go func() {
			got, err := m.Read(ctx, 1, time.Minute/2)
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
		tiertest.Eventually(t, soon, func() (bool, string) {
			clients := f.text("CLIENT", "LIST")
			return strings.Contains(clients, "cmd=xreadgroup") && strings.Contains(clients, "flags=b"), clients
		})
		began = time.Now()
		_, err = m.Renew(f.ctx, entriesOf(held))
		require.NoError(t, err)
		_, err = m.Settle(f.ctx, entriesOf(held))
		require.NoError(t, err)
		require.Less(t, time.Since(began), soon/2)
		cancel()
		f.keyed(w, "comes")
		got = <-ended
		require.Len(t, got, 1)
		require.Equal(t, "comes", got[0].Records[0].Key)

		f.append(w, 1)
		for _, wait := range []time.Duration{0, time.Second} {
			_, err = m.Read(ctx, 1, wait)
			require.ErrorIs(t, err, context.Canceled, "wait %s", wait)
		}
		require.Len(t, f.pending("g"), 1)
	})
}

// TestReadWaitsLongerThanCalls (B44): the time that a call may take does not cut a wait short.
func TestReadWaitsLongerThanCalls(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	const call, wait = time.Second, 1500 * time.Millisecond
	f.client = patient(t, f.server, call)
	m := f.join(f.group("g", stream.Head(), 0))
	began := time.Now()
	got, err := m.Read(f.ctx, 1, wait)
	require.NoError(t, err)
	require.Empty(t, got)
	require.GreaterOrEqual(t, time.Since(began), wait)
}

// TestCancelledReadsLoseNothing (B46): however reads end, each entry is with its reader, or with Sync, or still unread.
func TestCancelledReadsLoseNothing(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.group("g", stream.Head(), 0))
	w := f.writer(stream.WriterConfig{})
	seen := map[codec.EntryID]bool{}
	for i := range 200 {
		ctx, cancel := context.WithCancel(f.ctx)
		ended := make(chan []tier.Leased)
		go func() {
			wait := time.Duration(i%3) * 5 * time.Millisecond
			leased, err := m.Read(ctx, 5, wait)
			if err != nil {
				leased = nil
			}
			ended <- leased
		}()
		go cancel()
		f.append(w, 1)
		for _, l := range <-ended {
			seen[l.Entry] = true
		}
	}
	held, err := m.Sync(f.ctx)
	require.NoError(t, err)
	for _, h := range held {
		seen[h.Entry] = true
	}
	for {
		leased, err := m.Read(f.ctx, 100, 0)
		require.NoError(t, err)
		if len(leased) == 0 {
			break
		}
		for _, l := range leased {
			require.False(t, seen[l.Entry])
			seen[l.Entry] = true
		}
	}
	require.Len(t, seen, 200)
	require.Len(t, f.pending("g"), 200)
}

// fencedCalls are those that compare the member's number.
func fencedCalls(f *fixture, m *stream.Member, leased []tier.Leased) map[string]func() error {
	return map[string]func() error{
		"Settle":   func() error { _, err := m.Settle(f.ctx, entriesOf(leased)); return err },
		"Renew":    func() error { _, err := m.Renew(f.ctx, entriesOf(leased)); return err },
		"beat":     func() error { _, err := m.Renew(f.ctx, nil); return err },
		"Release":  func() error { return m.Release(f.ctx, returned(heldOf(leased)), 0) },
		"Bury":     func() error { return m.Commit(f.ctx, lettersOf(heldOf(leased), "r")) },
		"TakeOver": func() error { _, err := m.TakeOver(f.ctx, 10, allSuspects); return err },
	}
}

// TestFence (B16): once an entry of a member was taken over, or its record is gone, each of its calls is refused whole
// with nothing changed; so after the entry came back to it. After Sync it goes on with what it has.
func TestFence(t *testing.T) {
	causes := map[string]struct {
		cause func(s *scene)
		holds int // after Sync
	}{
		"one entry was taken over": {func(s *scene) {
			s.idle(0)
			s.takes(s.other, 1)
		}, 1},
		"all were taken over": {func(s *scene) {
			s.age()
			s.takes(s.other, 2)
		}, 0},
		"it was taken over and back": {func(s *scene) {
			s.age()
			s.takes(s.other, 2)
			_, err := s.me.Sync(s.f.ctx)
			require.NoError(s.f.t, err)
			s.age()
			s.takes(s.me, 2)
			_, err = s.other.Sync(s.f.ctx)
			require.NoError(s.f.t, err)
			s.age()
			s.takes(s.other, 2)
		}, 0},
		"one after the other": {func(s *scene) {
			s.age()
			s.takes(s.other, 1)
			s.takes(s.other, 1)
		}, 0},
		"its record is gone": {func(s *scene) { s.f.do("HDEL", s.owners(), s.me.Name()) }, 2},
		"the record of all is gone": {func(s *scene) {
			s.f.do("DEL", s.owners())
			_, err := s.other.Sync(s.f.ctx)
			require.NoError(s.f.t, err)
		}, 2},
	}
	for name, tt := range causes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
				s := newScene(setUp(t, srv))
				tt.cause(s)
				before := s.f.text("DUMP", s.owners())
				pending := s.f.pending("g")
				for call, do := range fencedCalls(s.f, s.me, s.mine) {
					require.ErrorIs(t, do(), tier.ErrFenced, call)
				}
				after := s.f.pending("g")
				for i := range pending { // they have become older, that is all
					require.GreaterOrEqual(t, after[i].idle, pending[i].idle)
					after[i].idle = pending[i].idle
				}
				require.Equal(t, pending, after)
				require.Equal(t, before, s.f.text("DUMP", s.owners()))
				require.Equal(t, "0", s.f.text("EXISTS", s.f.addr().DeadKey("g")))

				held, err := s.me.Sync(s.f.ctx)
				require.NoError(t, err)
				require.Len(t, held, tt.holds)
				for call, do := range fencedCalls(s.f, s.other, nil) {
					require.NoError(t, do(), call) // who took over is not fenced
				}
				n, err := s.me.Settle(s.f.ctx, idsHeld(held))
				require.NoError(t, err)
				require.Equal(t, tt.holds, n)
				require.NoError(t, fencedCalls(s.f, s.me, nil)["TakeOver"]())
			})
		})
	}
}

func idsHeld(held []tier.Held) []codec.EntryID {
	var ids []codec.EntryID
	for _, h := range held {
		ids = append(ids, h.Entry)
	}
	return ids
}

// idle lets the lease of one entry end, by its place in the log.
func (s *scene) idle(i int) {
	s.f.t.Helper()
	for _, p := range s.f.pending("g") {
		if p.entry == s.ids[i] {
			s.f.do("XCLAIM", s.f.log(), "g", p.consumer, "0", p.entry.String(), "IDLE", strconv.FormatInt(lease.Milliseconds(), 10), "RETRYCOUNT", strconv.Itoa(p.deliveries), "JUSTID")
			return
		}
	}
	s.f.t.Fatalf("entry %d is not pending", i)
}

// takes: the member takes n over.
func (s *scene) takes(m *stream.Member, n int) []tier.Leased {
	s.f.t.Helper()
	taken, err := m.TakeOver(s.f.ctx, n, allSuspects)
	require.NoError(s.f.t, err)
	require.Len(s.f.t, taken.Leased, n)
	return taken.Leased
}

// TestTakeOverCountsAndFences: what was taken has one more delivery, and fences only those who lost something.
func TestTakeOverCountsAndFences(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newScene(setUp(t, srv))
		f := s.f
		third := f.join(s.g)
		f.read(third, 1)
		s.age()
		mine := s.takes(s.me, 3) // two of its own and one of the third
		for _, l := range mine {
			require.Equal(t, 2, l.Deliveries)
			require.Len(t, l.Records, 1)
		}
		_, err := s.me.Renew(f.ctx, entriesOf(mine)) // nobody took anything from it
		require.NoError(t, err)
		_, err = third.Renew(f.ctx, nil)
		require.ErrorIs(t, err, tier.ErrFenced)
		_, err = s.other.Renew(f.ctx, nil)
		require.NoError(t, err)
		for want := 3; want < 6; want++ {
			s.age()
			for _, l := range s.takes(s.other, 3) {
				require.Equal(t, want, l.Deliveries)
			}
		}
		for _, p := range f.pending("g") {
			require.Equal(t, 5, p.deliveries)
			require.Equal(t, s.other.Name(), p.consumer)
			require.Less(t, p.idle, lease)
		}
	})
}

// TestTakeOverPages (B4, B5): an old entry behind 2000 young ones is found in a bounded number of looks; a page walk over
// old ones takes each once and ends.
func TestTakeOverPages(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		g := f.group("g", stream.Head(), lease)
		ids := f.append(f.writer(stream.WriterConfig{}), 2001)
		me, other := f.join(g), f.join(g)
		f.read(me, 2001)
		old := ids[2000].ServerEntry()
		f.do("XCLAIM", f.log(), "g", me.Name(), "0", old.String(), "IDLE", "3600000", "JUSTID")
		looks := 0
		var found []codec.EntryID
		for done := false; !done; {
			taken, err := other.TakeOver(f.ctx, 10, allSuspects)
			require.NoError(t, err)
			require.Empty(t, taken.Lost)
			found = append(found, entriesOf(taken.Leased)...)
			done = taken.Done
			looks++
			require.LessOrEqual(t, looks, 4)
		}
		require.Equal(t, []codec.EntryID{old}, found)

		args := []string{f.log(), "g", me.Name(), "0"}
		for _, id := range ids[:5] {
			args = append(args, id.ServerEntry().String())
		}
		f.do("XCLAIM", append(args, "IDLE", "3600000", "RETRYCOUNT", "1", "JUSTID")...)
		found = nil
		for looks, done := 0, false; !done; looks++ {
			require.LessOrEqual(t, looks, 6)
			taken, err := other.TakeOver(f.ctx, 2, allSuspects)
			require.NoError(t, err)
			require.LessOrEqual(t, len(taken.Leased), 2)
			for _, l := range taken.Leased {
				require.Equal(t, 2, l.Deliveries)
			}
			found = append(found, entriesOf(taken.Leased)...)
			done = taken.Done
		}
		require.Len(t, found, 5)
		require.Len(t, slices.Compact(found), 5)
		taken, err := other.TakeOver(f.ctx, 2, allSuspects) // and begins anew
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
	})
}

// TestTakeOverBehindUnrescuable (B20): entries that are taken and never settled do not starve those behind them.
func TestTakeOverBehindUnrescuable(t *testing.T) {
	t.Parallel()
	s := newScene(setUp(t, tiertest.Shared(t, tiertest.Valkey)))
	f := s.f
	f.append(f.writer(stream.WriterConfig{}), 50)
	f.read(s.me, 51)
	seen := map[codec.EntryID]bool{}
	for range 30 {
		s.age() // all is old again, also what was just taken
		taken, err := s.other.TakeOver(f.ctx, 2, allSuspects)
		require.NoError(t, err)
		for _, l := range taken.Leased {
			seen[l.Entry] = true
		}
		if taken.Done {
			break
		}
	}
	require.Len(t, seen, 53)
}

// TestTrimmedWhilePending (B1, B2): what was trimmed while it was pending is reported once and cleared, whoever asks, and
// never given to anybody.
func TestTrimmedWhilePending(t *testing.T) {
	find := map[string]func(t *testing.T, s *scene) (lost, left []codec.EntryID){
		"by TakeOver of another": func(t *testing.T, s *scene) (lost, left []codec.EntryID) {
			taken, err := s.other.TakeOver(s.f.ctx, 10, allSuspects)
			require.NoError(t, err)
			require.True(t, taken.Done)
			return taken.Lost, entriesOf(taken.Leased)
		},
		"by TakeOver of its own": func(t *testing.T, s *scene) (lost, left []codec.EntryID) {
			taken, err := s.me.TakeOver(s.f.ctx, 10, allSuspects)
			require.NoError(t, err)
			return taken.Lost, entriesOf(taken.Leased)
		},
		"by Renew": func(t *testing.T, s *scene) (lost, left []codec.EntryID) {
			gone, err := s.me.Renew(s.f.ctx, entriesOf(s.mine))
			require.NoError(t, err)
			return gone, s.ids[3:5]
		},
	}
	for name, do := range find {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
				s := newScene(setUp(t, srv))
				f := s.f
				for _, id := range f.append(f.writer(stream.WriterConfig{}), 2) {
					s.ids = append(s.ids, id.ServerEntry())
				}
				s.mine = append(s.mine, f.read(s.me, 3)...)
				s.age()
				f.do("XTRIM", f.log(), "MAXLEN", "2")
				held, err := s.me.Sync(f.ctx)
				require.NoError(t, err)
				require.Len(t, held, 5) // it holds them still
				lost, left := do(t, s)
				require.ElementsMatch(t, s.ids[:3], lost)
				require.Equal(t, s.ids[3:], left)
				require.Len(t, f.pending("g"), 2)
				for range 10 {
					s.age()
					taken, err := s.other.TakeOver(f.ctx, 10, allSuspects)
					if err != nil {
						require.ErrorIs(t, err, tier.ErrFenced)
						_, err = s.other.Sync(f.ctx)
						require.NoError(t, err)
						continue
					}
					require.Empty(t, taken.Lost)
					require.Equal(t, s.ids[3:], entriesOf(taken.Leased))
				}
			})
		})
	}
}

// TestRelease: an entry that was handed back is anyone's, at once or after a delay, and counts no delivery that its
// holder does not count.
func TestRelease(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newScene(setUp(t, srv))
		f := s.f
		require.NoError(t, s.me.Release(f.ctx, returned([]tier.Held{{Entry: s.mine[0].Entry, Deliveries: 0}, {Entry: s.mine[1].Entry, Deliveries: 7}}), 0))
		got := s.takes(s.other, 2) // B105
		require.Equal(t, 1, got[0].Deliveries)
		require.Equal(t, 8, got[1].Deliveries)
		_, err := s.me.Settle(f.ctx, entriesOf(got))
		require.ErrorIs(t, err, tier.ErrFenced)

		for _, delay := range []time.Duration{time.Millisecond, 10 * time.Second, lease, 2 * lease} {
			require.NoError(t, s.other.Release(f.ctx, returned(heldOf(got)), delay))
			taken, err := s.other.TakeOver(f.ctx, 10, allSuspects)
			require.NoError(t, err)
			if delay > time.Millisecond { // a millisecond may be over
				require.Empty(t, taken.Leased)
				for i, p := range f.pending("g") {
					require.InDelta(t, (lease - min(delay, lease)).Milliseconds(), p.idle.Milliseconds(), 5000)
					require.Equal(t, got[i].Deliveries, p.deliveries)
				}
			}
		}
		require.NoError(t, s.other.Release(f.ctx, nil, 0))
		require.NoError(t, s.other.Release(f.ctx, returned([]tier.Held{{Entry: s.ids[2]}}), 0)) // held by nobody: still so
		require.Len(t, f.pending("g"), 2)

		held, err := s.me.Sync(f.ctx)
		require.NoError(t, err)
		require.Empty(t, held)
		require.NoError(t, s.other.Release(f.ctx, returned(heldOf(got)), 0))
		require.Len(t, s.takes(s.other, 2), 2) // its own again
	})
}

// TestReleaseOfALongLease: what is handed back is free at once, however long the lease.
func TestReleaseOfALongLease(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	g := f.group("g", stream.Head(), 1000*time.Hour)
	f.append(f.writer(stream.WriterConfig{}), 1)
	me, other := f.join(g), f.join(g)
	require.NoError(t, me.Release(f.ctx, returned(heldOf(f.read(me, 1))), 0))
	taken, err := other.TakeOver(f.ctx, 1, allSuspects)
	require.NoError(t, err)
	require.Len(t, taken.Leased, 1)
}

// TestReleaseAfterADelay: the delay ends by the server's clock.
func TestReleaseAfterADelay(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		g := f.group("g", stream.Head(), time.Minute)
		f.append(f.writer(stream.WriterConfig{}), 1)
		me, other := f.join(g), f.join(g)
		leased := f.read(me, 1)
		const delay = 300 * time.Millisecond
		before := time.Now()
		require.NoError(t, me.Release(f.ctx, returned(heldOf(leased)), delay))
		tiertest.Eventually(t, soon, func() (bool, string) {
			taken, err := other.TakeOver(f.ctx, 1, allSuspects)
			require.NoError(t, err)
			return len(taken.Leased) == 1, "not handed over"
		})
		require.GreaterOrEqual(t, time.Since(before), delay-2*time.Millisecond)
	})
}

// TestLease (B25): an entry is taken over when its lease has ended, not before, and not while it is renewed (B6).
func TestLease(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		const short = stream.MinLease
		g := f.group("g", stream.Head(), short)
		f.append(f.writer(stream.WriterConfig{}), 1)
		me, other := f.join(g), f.join(g)
		leased := f.read(me, 1)
		var renewed time.Time
		slow := false // this machine, too slow to renew
		tiertest.Eventually(t, soon, func() (bool, string) {
			if before := time.Now(); before.Sub(renewed) > short/8 {
				gone, err := me.Renew(f.ctx, entriesOf(leased))
				require.NoError(t, err)
				require.Empty(t, gone)
				renewed = before
			}
			taken, err := other.TakeOver(f.ctx, 1, allSuspects)
			require.NoError(t, err)
			if len(taken.Leased) > 0 {
				require.GreaterOrEqual(t, time.Since(renewed), short, "taken while it was renewed")
				slow = true
			}
			return slow || time.Since(leased[0].Records[0].ID.Time()) > 2*short, ""
		})
		if slow {
			return
		}
		tiertest.Eventually(t, soon, func() (bool, string) {
			taken, err := other.TakeOver(f.ctx, 1, allSuspects)
			require.NoError(t, err)
			return len(taken.Leased) == 1, "not taken over"
		})
		require.GreaterOrEqual(t, time.Since(renewed), short-2*time.Millisecond)
	})
}

// TestBury: the dead letters keep the entry as it was, why, and how often it was tried; it is settled in the same step,
// and once.
func TestBury(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newScene(setUp(t, srv))
		f := s.f
		f.do("XADD", f.log(), "*", "a", "1", "a", "\x00\xff", "", "")
		s.mine = append(s.mine, f.read(s.me, 2)...)
		held := heldOf(s.mine)
		for range 2 {
			require.NoError(t, s.me.Commit(f.ctx, lettersOf(held[1:], "poison: \xff")))
		}
		require.NoError(t, s.me.Commit(f.ctx, lettersOf(nil, "nothing")))
		require.Len(t, f.pending("g"), 1)
		m := f.do("XRANGE", f.addr().DeadKey("g"), "-", "+")
		letters, err := m.AsXRangeSlices()
		require.NoError(t, err)
		require.Len(t, letters, 3)
		for i, l := range letters {
			var flat []string
			for _, fv := range l.FieldValues {
				flat = append(flat, fv.Field, fv.Value)
			}
			require.Equal(t, []string{"entry", held[i+1].Entry.String(), "reason", "poison: \xff", "attempts", fmt.Sprint(held[i+1].Deliveries)}, flat[:6])
			original := f.do("XRANGE", f.log(), held[i+1].Entry.String(), held[i+1].Entry.String())
			entries, err := original.AsXRangeSlices()
			require.NoError(t, err)
			var want []string
			for _, fv := range entries[0].FieldValues {
				want = append(want, fv.Field, fv.Value)
			}
			require.Equal(t, want, flat[6:])
		}
		f.do("XTRIM", f.log(), "MAXLEN", "0")
		require.NoError(t, s.me.Commit(f.ctx, lettersOf(held[:1], "trimmed meanwhile")))
		require.Empty(t, f.pending("g"))
		require.Equal(t, "4", f.text("XLEN", f.addr().DeadKey("g")))
	})
}

// TestBuryRefused (B68, B116): while the dead letters cannot be written, the entry stays pending.
func TestBuryRefused(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newScene(setUp(t, tiertest.Private(t, kind)))
			f := s.f
			refused := func(want error) {
				t.Helper()
				err := s.me.Commit(f.ctx, lettersOf(heldOf(s.mine), "r"))
				require.ErrorIs(t, err, want)
				require.False(t, tier.OutcomeUnknown(err))
				require.Equal(t, sceneStart, strings.Replace(s.state(), "dead 1", "dead 0", 1))
			}
			f.fill(true)
			refused(tier.ErrStoreFull)
			f.fill(false)
			f.do("ACL", "SETUSER", "default", "-xadd")
			refused(tier.ErrPermission)
			f.do("ACL", "SETUSER", "default", "+xadd")
			f.do("SET", f.addr().DeadKey("g"), "x")
			err := s.me.Commit(f.ctx, lettersOf(heldOf(s.mine), "r"))
			require.ErrorIs(t, err, tier.ErrWrongType)
			require.ErrorContains(t, err, f.addr().DeadKey("g"))
			require.Len(t, f.pending("g"), 2)
			f.do("DEL", f.addr().DeadKey("g"))
			require.NoError(t, s.me.Commit(f.ctx, lettersOf(heldOf(s.mine), "r")))
			require.Empty(t, f.pending("g"))
		})
	}
}

// TestLeaveAndRetire (B32, B33, B34): a member that holds entries is not removed, whoever asks; one that holds none is;
// consumers of raw clients are left alone.
func TestLeaveAndRetire(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newScene(setUp(t, srv))
		f := s.f
		consumers := func() (names []string) {
			m := f.do("XINFO", "CONSUMERS", f.log(), "g")
			rows, err := m.ToArray()
			require.NoError(t, err)
			for _, row := range rows {
				c, err := row.AsMap()
				require.NoError(t, err)
				name := c["name"]
				text, err := name.ToString()
				require.NoError(t, err)
				names = append(names, text)
			}
			return names
		}
		silent := func(m *stream.Member, leases int) {
			ms := f.now().Add(-time.Duration(leases) * lease).UnixMilli()
			f.do("HSET", s.owners(), m.Name()+":beat", strconv.FormatInt(ms, 10))
		}
		f.do("XGROUP", "CREATECONSUMER", f.log(), "g", "raw")
		f.do("XGROUP", "CREATECONSUMER", f.log(), "g", s.other.Name())

		require.NoError(t, s.me.Leave(f.ctx))
		silent(s.me, 100)
		silent(s.other, 9)
		require.NoError(t, s.other.Retire(f.ctx))
		require.ElementsMatch(t, []string{"raw", s.me.Name(), s.other.Name()}, consumers())
		require.Equal(t, sceneStart, s.state())
		_, err := s.me.Renew(f.ctx, entriesOf(s.mine)) // and it goes on, with a fresh beat
		require.NoError(t, err)

		_, err = s.me.Settle(f.ctx, entriesOf(s.mine))
		require.NoError(t, err)
		require.NoError(t, s.other.Retire(f.ctx))
		require.Contains(t, consumers(), s.me.Name())
		silent(s.me, 11)
		require.NoError(t, s.other.Retire(f.ctx))
		require.ElementsMatch(t, []string{"raw", s.other.Name()}, consumers())

		// One that was retired while it slept is refused, and comes back.
		_, err = s.me.Renew(f.ctx, nil)
		require.ErrorIs(t, err, tier.ErrFenced)
		leased := f.read(s.me, 1)
		_, err = s.me.Settle(f.ctx, entriesOf(leased))
		require.ErrorIs(t, err, tier.ErrFenced)
		held, err := s.me.Sync(f.ctx)
		require.NoError(t, err)
		require.Equal(t, heldOf(leased), held)
		n, err := s.me.Settle(f.ctx, entriesOf(leased))
		require.NoError(t, err)
		require.Equal(t, 1, n)

		for range 100 {
			m := f.join(s.g)
			f.read(m, 0)
			require.NoError(t, m.Leave(f.ctx))
			require.NoError(t, m.Leave(f.ctx))
		}
		require.ElementsMatch(t, []string{"raw", s.me.Name(), s.other.Name()}, consumers())
		require.Equal(t, "4", f.text("HLEN", s.owners()))
	})
}

// TestLeaveRacesWithRead (B33): a member that reads while it leaves loses nothing.
func TestLeaveRacesWithRead(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	g := f.group("g", stream.Head(), lease)
	f.append(f.writer(stream.WriterConfig{}), 50)
	for range 50 {
		m := f.join(g)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := m.Read(f.ctx, 1, 0); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := m.Leave(f.ctx); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
	}
	require.Len(t, f.pending("g"), 50)
}

// TestRawClients (the seam): what a raw client acknowledges is settled, and what it reads is taken over from it.
func TestRawClients(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newScene(setUp(t, srv))
		f := s.f
		f.do("XACK", f.log(), "g", s.ids[0].String())
		n, err := s.me.Settle(f.ctx, entriesOf(s.mine[:1]))
		require.NoError(t, err)
		require.Zero(t, n)
		gone, err := s.me.Renew(f.ctx, entriesOf(s.mine))
		require.NoError(t, err)
		require.Equal(t, s.ids[:1], gone)
		require.NoError(t, s.me.Commit(f.ctx, lettersOf(heldOf(s.mine[:1]), "r")))
		require.NoError(t, s.me.Release(f.ctx, returned(heldOf(s.mine[:1])), 0))
		require.Equal(t, "1:me:1 lag 1 dead 0 members 2", s.state())

		f.do("XREADGROUP", "GROUP", "g", "raw", "COUNT", "1", "STREAMS", f.log(), ">")
		s.idle(2)
		got := s.takes(s.me, 1)
		require.Equal(t, s.ids[2], got[0].Entry)
		require.Equal(t, 2, got[0].Deliveries)
	})
}

// TestSync (B14): a member learns all that it holds, in order, up to 4096 entries, without any of it being counted as a
// delivery; the next ones when those are settled.
func TestSync(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		m := f.join(f.group("g", stream.Head(), lease))
		w := f.writer(stream.WriterConfig{})
		ids := append(f.append(w, 4096), f.append(w, 904)...)
		leased := f.read(m, 5000)
		for range 2 {
			held, err := m.Sync(f.ctx)
			require.NoError(t, err)
			requireSame(t, heldOf(leased)[:4096], held)
		}
		n, err := m.Settle(f.ctx, entriesOf(leased[:4096]))
		require.NoError(t, err)
		require.Equal(t, 4096, n)
		gone, err := m.Renew(f.ctx, entriesOf(leased[904:]))
		require.NoError(t, err)
		require.Len(t, gone, 3192)
		held, err := m.Sync(f.ctx)
		require.NoError(t, err)
		requireSame(t, heldOf(leased)[4096:], held)
		require.Equal(t, ids[4999].ServerEntry(), held[903].Entry)
	})
}

// TestMemberLimits: more than 4096 entries in a call are refused before they are sent, with nothing done.
func TestMemberLimits(t *testing.T) {
	t.Parallel()
	s := newScene(setUp(t, tiertest.Shared(t, tiertest.Valkey)))
	f := s.f
	var many []tier.Leased
	for i := range 4097 {
		many = append(many, tier.Leased{Entry: codec.EntryID{Ms: 1, Seq: uint64(i)}})
	}
	for name, do := range fencedCalls(f, s.me, many) {
		if name != "TakeOver" && name != "beat" {
			require.ErrorIs(t, do(), stream.ErrBadCall, name)
		}
	}
	for name, do := range fencedCalls(f, s.me, many[:4096]) {
		require.NoError(t, do(), name)
	}
	require.Equal(t, sceneStart, s.state())
	for _, n := range []int{0, -1} {
		s.age()
		taken, err := s.other.TakeOver(f.ctx, n, allSuspects)
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
		leased, err := s.other.Read(f.ctx, n, 0)
		require.NoError(t, err)
		require.Empty(t, leased)
	}
}

// TestTakeOverOnce: of members that look for the same entries at once, one gets each.
func TestTakeOverOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		g := f.group("g", stream.Head(), lease)
		f.append(f.writer(stream.WriterConfig{}), 200)
		dead := f.join(g)
		leased := f.read(dead, 200)
		require.NoError(t, dead.Release(f.ctx, returned(heldOf(leased)), 0))
		var mu sync.Mutex
		got := map[codec.EntryID]int{}
		var wg sync.WaitGroup
		for range 4 {
			m := f.join(g)
			wg.Go(func() {
				for range 100 {
					taken, err := m.TakeOver(f.ctx, 7, allSuspects)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, l := range taken.Leased {
						got[l.Entry]++
					}
					mu.Unlock()
					if taken.Done {
						return
					}
				}
			})
		}
		wg.Wait()
		require.Len(t, got, 200)
		for id, n := range got {
			require.Equal(t, 1, n, id)
		}
	})
}
