package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// drain reads what a member is given, to the end, and settles it. It returns the keys of the messages.
func (f *fixture) drain(m *stream.Member) (keys []string) {
	f.t.Helper()
	return f.drainBy(m, m.Read)
}

// unpacking is a member's way to read that leaves its packs, which are decoded here.
func unpacking(m *stream.Member) func(context.Context, int, time.Duration) ([]tier.Leased, error) {
	m.LeavePacks()
	return func(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
		leased, err := m.ReadAgain(ctx, n, wait)
		for i := range leased {
			if l := &leased[i]; l.Pack != nil {
				l.Pack.Unpack(func(n int) func(int) *codec.Record {
					l.Records = make([]codec.Record, n)
					return func(i int) *codec.Record { return &l.Records[i] }
				})
			}
		}
		return leased, err
	}
}

func (f *fixture) drainBy(m *stream.Member, read func(context.Context, int, time.Duration) ([]tier.Leased, error)) (keys []string) {
	f.t.Helper()
	for {
		leased, err := read(f.ctx, 100, 0)
		require.NoError(f.t, err)
		if len(leased) == 0 {
			return keys
		}
		for _, l := range leased {
			keys = append(keys, keysOf(l.Records)...)
		}
		_, err = m.Settle(f.ctx, entriesOf(leased))
		require.NoError(f.t, err)
	}
}

// keyed appends messages with these keys in one call.
func (f *fixture) keyed(w *stream.Writer, keys ...string) []codec.ID {
	f.t.Helper()
	ms := make([]codec.Message, len(keys))
	for i, k := range keys {
		ms[i].Key = k
	}
	ids, err := w.AppendBatch(f.ctx, ms)
	require.NoError(f.t, err)
	return ids
}

// TestGroupStarts: a group reads from its declared start on, also when that lies inside a pack.
func TestGroupStarts(t *testing.T) {
	for _, pack := range []int{1, 2, 4} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				w := f.writer(stream.WriterConfig{Pack: pack})
				early := f.keyed(w, "a", "b", "c", "d")
				tiertest.Eventually(t, soon, func() (bool, string) {
					return f.now().After(early[3].Time().Add(3 * time.Millisecond)), "the clock stands still"
				})
				late := f.keyed(w, "e", "f", "g", "h")
				tests := []struct {
					name  string
					start stream.Start
					want  []string // of those that are there, then "new" comes
				}{
					{"head", stream.Head(), []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
					{"new", stream.New(), nil},
					{"first", stream.FromID(early[0]), []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
					{"second", stream.FromID(early[1]), []string{"b", "c", "d", "e", "f", "g", "h"}},
					{"third", stream.FromID(early[2]), []string{"c", "d", "e", "f", "g", "h"}},
					{"fourth", stream.FromID(early[3]), []string{"d", "e", "f", "g", "h"}},
					{"last", stream.FromID(late[3]), []string{"h"}},
					{"after the last", stream.FromEntry(late[3].ServerEntry().Next()), nil},
					{"time of the first", stream.FromTime(early[0].Time()), []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
					{"time between", stream.FromTime(late[0].Time().Add(-time.Millisecond)), []string{"e", "f", "g", "h"}},
					{"time of the last", stream.FromTime(late[0].Time()), []string{"e", "f", "g", "h"}},
					{"1970", stream.FromTime(time.Unix(0, 0)), []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
					{"before 1970", stream.FromTime(time.Time{}), []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
				}
				groups := make([]*stream.Group, 2*len(tests))
				for i := range groups {
					groups[i] = f.group(fmt.Sprint("g", i), tests[i/2].start, 0)
					require.NoError(t, groups[i].Create(f.ctx))
				}
				f.keyed(w, "new")
				for i, tt := range tests {
					require.Equal(t, append(tt.want, "new"), f.drain(f.join(groups[2*i])), tt.name)
					leaves := f.join(groups[2*i+1])
					require.Equal(t, append(tt.want, "new"), f.drainBy(leaves, unpacking(leaves)), "%s, packs are left", tt.name)
				}
				infos, err := stream.Groups(f.ctx, f.client, f.address)
				require.NoError(t, err)
				for _, g := range infos {
					require.Zero(t, g.Lag, g.Name)
					require.Zero(t, g.Pending, g.Name)
				}
			})
		})
	}
}

// TestGroupKeepsItsPlace (B40): a group that was created at "new" and whose members left before the first message gets
// what came meanwhile; creating it again, with another start, changes nothing.
func TestGroupKeepsItsPlace(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.New(), 0)
		m := f.join(g) // of a stream that does not exist yet
		require.Empty(t, f.drain(m))
		require.NoError(t, m.Leave(f.ctx))
		f.keyed(f.writer(stream.WriterConfig{}), "1", "2", "3", "4", "5")
		for _, start := range []stream.Start{stream.New(), stream.Head(), stream.FromTime(time.Now().Add(time.Hour))} {
			require.NoError(t, f.group("g", start, 0).Create(f.ctx))
		}
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, f.drain(f.join(f.group("g", stream.New(), 0))))
		require.NoError(t, f.group("g", stream.Head(), 0).Create(f.ctx))
		require.Empty(t, f.drain(f.join(g)))
	})
}

// TestGroupInTheFuture: a group does not begin beyond the server's clock and the stream's end, where it would skip without
// a word; what is a little ahead of the clock, or within the stream, is fine.
func TestGroupInTheFuture(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.keyed(f.writer(stream.WriterConfig{}), "1")
		now := f.now()
		g := f.group("g", stream.Head(), 0)
		require.NoError(t, g.Create(f.ctx))
		far := []stream.Start{
			stream.FromTime(now.Add(time.Hour)), stream.FromTime(now.AddDate(50, 0, 0)), stream.FromEntry(codec.FloorEntry(now.Add(2 * time.Minute))), stream.FromEntry(codec.MaxEntryID),
		}
		for _, start := range far {
			var future *stream.FutureStartError
			require.ErrorAs(t, f.group("new", start, 0).Create(f.ctx), &future)
			require.Equal(t, f.all()[0].Addr, future.End)
			_, err := f.group("new", start, 0).Join(f.ctx, "m")
			require.ErrorIs(t, err, stream.ErrBadCall)
			require.ErrorContains(t, err, `take "new" for what is appended from now on, or a time that has come`)
			_, err = g.Reset(f.ctx, start)
			require.ErrorIs(t, err, stream.ErrBadCall)
		}
		groups, err := stream.Groups(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Len(t, groups, 1)
		require.Zero(t, groups[0].LastDelivered, "it was not moved")

		_, err = g.Reset(f.ctx, stream.FromTime(f.now().Add(50*time.Second)))
		require.NoError(t, err)
		ahead := codec.FloorEntry(now.Add(time.Hour)) // another program's
		f.do("XADD", f.log(), ahead.String(), "a", "b")
		for _, start := range []stream.Start{stream.FromTime(now.Add(30 * time.Minute)), stream.FromEntry(ahead), stream.FromEntry(ahead.Next())} {
			_, err = g.Reset(f.ctx, start)
			require.NoError(t, err)
		}
		_, err = g.Reset(f.ctx, stream.FromEntry(ahead.Next().Next()))
		require.ErrorIs(t, err, stream.ErrBadCall)
	})
}

// TestPlanReset: messages that would come again or be skipped are counted, of packs too, as far as they are there.
func TestPlanReset(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), 0)
		_, err := g.PlanReset(f.ctx, stream.Head())
		require.ErrorIs(t, err, stream.ErrNoStream)
		ids := f.append(f.writer(stream.WriterConfig{Pack: 4}), 8)
		ids = append(ids, f.append(f.writer(stream.WriterConfig{}), 4)...)
		_, err = g.PlanReset(f.ctx, stream.Head())
		require.ErrorIs(t, err, tier.ErrNoGroup)
		m := f.join(g)
		f.read(m, 3) // both packs, and one of the others
		before := f.scopeState()
		at := func(i int) codec.EntryID { return ids[i].ServerEntry() }
		for _, tt := range []struct {
			start stream.Start
			want  stream.Move
		}{
			{stream.Head(), stream.Move{Again: 9, Next: at(0)}},
			{stream.FromID(ids[2]), stream.Move{Again: 7, Next: at(2)}},
			{stream.FromID(ids[8]), stream.Move{Again: 1, Next: at(8)}},
			{stream.FromID(ids[9]), stream.Move{Next: at(9)}},
			{stream.FromID(ids[11]), stream.Move{Skipped: 2, Next: at(11)}},
			{stream.New(), stream.Move{Skipped: 3}},
		} {
			move, err := g.PlanReset(f.ctx, tt.start)
			require.NoError(t, err)
			require.Equal(t, tt.want, move)
		}
		require.Equal(t, before, f.scopeState())
		f.do("XTRIM", f.log(), "MAXLEN", "3")
		move, err := g.PlanReset(f.ctx, stream.FromID(ids[2]))
		require.NoError(t, err)
		require.Equal(t, stream.Move{Next: at(9)}, move, "what is gone does not come again")
		_, err = g.PlanReset(f.ctx, stream.FromTime(f.now().Add(time.Hour)))
		require.ErrorIs(t, err, stream.ErrBadCall)
	})
}

// TestGroupIsCreatedOnce (B38: no text of a refusal is looked at): many who create it at once agree on its terms.
func TestGroupIsCreatedOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		var wg sync.WaitGroup
		var mu sync.Mutex
		leases := map[time.Duration]int{}
		for i := range 10 {
			wg.Go(func() {
				g, err := stream.NewGroup(tiertest.Dial(t, s), stream.GroupConfig{Address: f.address, Name: "g", Start: stream.Head(), Lease: time.Duration(i+1) * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				m, err := g.Join(f.ctx, "m")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					leases[m.Lease()]++
					return
				}
				var differs *stream.LeaseDiffersError
				if !errorsAs(err, &differs) {
					t.Error(err)
					return
				}
				leases[differs.Have]++
			})
		}
		wg.Wait()
		require.Len(t, leases, 1)
		m := f.join(f.group("g", stream.Head(), 0)) // whoever asks for none gets the group's
		require.Contains(t, leases, m.Lease())
		require.Equal(t, 10, leases[m.Lease()])
	})
}

// TestGroupConfig: what is out of bounds is refused before any traffic; a lease is kept to the millisecond.
func TestGroupConfig(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	tests := []struct {
		name string
		cfg  stream.GroupConfig
		want error
	}{
		{"fine", stream.GroupConfig{Address: "s/a", Name: "g", Start: stream.Head()}, nil},
		{"no start", stream.GroupConfig{Address: "s/a", Name: "g"}, stream.ErrBadCall},
		{"no name", stream.GroupConfig{Address: "s/a", Start: stream.Head()}, tier.ErrName},
		{"colon", stream.GroupConfig{Address: "s/a", Name: "g:owners", Start: stream.Head()}, tier.ErrName}, // B89
		{"address", stream.GroupConfig{Address: "s", Name: "g", Start: stream.Head()}, tier.ErrName},
		{"lease too short", stream.GroupConfig{Address: "s/a", Name: "g", Start: stream.Head(), Lease: stream.MinLease - 1}, stream.ErrBadCall},
		{"negative lease", stream.GroupConfig{Address: "s/a", Name: "g", Start: stream.Head(), Lease: -1}, stream.ErrBadCall},
		{"shortest lease", stream.GroupConfig{Address: "s/a", Name: "g", Start: stream.Head(), Lease: stream.MinLease}, nil},
	}
	for _, tt := range tests {
		_, err := stream.NewGroup(f.client, tt.cfg)
		if tt.want == nil {
			require.NoError(t, err, tt.name)
		} else {
			require.ErrorIs(t, err, tt.want, tt.name)
		}
	}
	_, err := f.group("g", stream.Head(), 0).Reset(f.ctx, stream.Start{})
	require.ErrorIs(t, err, stream.ErrBadCall)
	_, err = f.group("g", stream.Head(), 0).Join(f.ctx, "a:b")
	require.ErrorIs(t, err, tier.ErrName)

	odd := 550*time.Millisecond + 700*time.Microsecond
	for range 2 {
		require.NoError(t, f.group("odd", stream.Head(), odd).Create(f.ctx))
	}
}

// TestLeaseBelowTheFloor (B8): a lease so short that two would take the same message is refused, that of a group which
// another made, too.
func TestLeaseBelowTheFloor(t *testing.T) {
	t.Parallel()
	f := setUpUnaudited(t, tiertest.Private(t, tiertest.Valkey))
	_, err := stream.NewGroup(f.client, stream.GroupConfig{Address: f.address, Name: "g", Start: stream.Head(), Lease: stream.MinLease - 1})
	require.ErrorIs(t, err, stream.ErrBadCall)
	g := f.group("g", stream.Head(), 0)
	require.NoError(t, g.Create(f.ctx))
	f.do("HSET", f.addr().GroupKey("g"), tier.LeaseField, "499")
	_, err = g.Join(f.ctx, "m")
	require.ErrorContains(t, err, "its lease of 499ms is below 500ms")
}

// TestGroupReset: the group goes back, what was pending is forgotten and counted, and its members go on after being
// refused once.
func TestGroupReset(t *testing.T) {
	for _, pack := range []int{1, 2} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				g := f.group("g", stream.Head(), 0)
				_, err := g.Reset(f.ctx, stream.Head())
				require.ErrorIs(t, err, tier.ErrNoGroup)
				f.keyed(f.writer(stream.WriterConfig{Pack: pack}), "a", "b", "c", "d")
				m := f.join(g)
				leased := f.read(m, 2/pack)
				forgotten, err := g.Reset(f.ctx, stream.Head())
				require.NoError(t, err)
				require.Equal(t, 2/pack, forgotten)
				require.Empty(t, f.pending("g"))
				_, err = m.Settle(f.ctx, entriesOf(leased))
				require.ErrorIs(t, err, tier.ErrFenced)
				held, err := m.Sync(f.ctx)
				require.NoError(t, err)
				require.Empty(t, held)
				require.Equal(t, []string{"a", "b", "c", "d"}, f.drain(m))
				_, err = g.Reset(f.ctx, stream.New())
				require.NoError(t, err)
				_, err = m.Sync(f.ctx)
				require.NoError(t, err)
				require.Empty(t, f.drain(m))
			})
		})
	}
}

// TestGroupResetIsSeenByMembers: members that joined at a start inside a pack get whole packs after a reset to an earlier
// one, and messages from the new start on after one to a later one.
func TestGroupResetIsSeenByMembers(t *testing.T) {
	for name, leaves := range map[string]bool{"packs are decoded": false, "packs are left": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) { groupResetIsSeen(t, s, leaves) })
		})
	}
}

func groupResetIsSeen(t *testing.T, s *tiertest.Server, leaves bool) {
	f := setUp(t, s)
	w := f.writer(stream.WriterConfig{Pack: 3})
	ids := f.keyed(w, "a", "b", "c", "d", "e", "f", "g", "h", "i")
	g := f.group("g", stream.FromID(ids[4]), 0)
	m := f.join(g)
	read := m.Read
	if leaves {
		read = unpacking(m)
	}
	require.Equal(t, []string{"e", "f", "g", "h", "i"}, f.drainBy(m, read))
	_, err := g.Reset(f.ctx, stream.Head())
	require.NoError(t, err)

	// A member that was not refused yet reads, too.
	leased, err := read(f.ctx, 2, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, keysOf(leased[0].Records))
	require.Equal(t, []string{"d", "e", "f"}, keysOf(leased[1].Records))
	_, err = m.Settle(f.ctx, entriesOf(leased))
	require.ErrorIs(t, err, tier.ErrFenced)
	held, err := m.Sync(f.ctx)
	require.NoError(t, err)
	require.Len(t, held, 2)
	require.Equal(t, []string{"g", "h", "i"}, f.drainBy(m, read))

	_, err = g.Reset(f.ctx, stream.FromID(ids[7]))
	require.NoError(t, err)
	_, err = m.Sync(f.ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"h", "i"}, f.drainBy(m, read))
}

// TestGroupOfAnotherProgram: a group that was made by XGROUP CREATE is joined as it is: where it stands, whole packs.
func TestGroupOfAnotherProgram(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.keyed(f.writer(stream.WriterConfig{Pack: 3}), "a", "b", "c", "d", "e", "f")
		f.do("XGROUP", "CREATE", f.log(), "g", "0")
		infos, err := stream.Groups(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Zero(t, infos[0].Lease)
		require.EqualValues(t, 2, infos[0].Lag)
		require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
		m := f.join(f.group("g", stream.FromID(ids[5]), 0))
		require.Equal(t, stream.DefaultLease, m.Lease())
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, f.drain(m))
	})
}

// TestGroupDelete: every call of a member of a deleted group says that there is none, and so does every call when the
// whole log is gone; the dead letters stay.
func TestGroupDelete(t *testing.T) {
	for _, gone := range []string{"group", "log"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				g := f.group("g", stream.Head(), 0)
				f.append(f.writer(stream.WriterConfig{}), 4)
				m := f.join(g)
				leased := f.read(m, 3)
				require.NoError(t, m.Commit(f.ctx, lettersOf(heldOf(leased[:1]), "r")))
				if gone == "log" {
					f.do("DEL", f.log())
				} else {
					require.NoError(t, g.Delete(f.ctx))
					require.NoError(t, g.Delete(f.ctx))
					require.Equal(t, "1", f.text("HLEN", f.addr().GroupKey("g")), "more than the mark")
					require.Equal(t, "0", f.text("EXISTS", f.addr().OwnersKey("g")))
				}
				require.Equal(t, "1", f.text("XLEN", f.addr().DeadKey("g")))
				refused := tier.ErrFenced // the owner's number is looked at first
				if gone == "log" {
					refused = nil
				}
				calls := map[string]func() error{
					"Read":     func() error { _, err := m.Read(f.ctx, 1, 0); return err },
					"Wait":     func() error { _, err := m.Read(f.ctx, 1, 50*time.Millisecond); return err },
					"Sync":     func() error { _, err := m.Sync(f.ctx); return err },
					"Settle":   func() error { _, err := m.Settle(f.ctx, entriesOf(leased)); return err },
					"Renew":    func() error { _, err := m.Renew(f.ctx, entriesOf(leased)); return err },
					"TakeOver": func() error { _, err := m.TakeOver(f.ctx, 1, allSuspects); return err },
					"Release":  func() error { return m.Release(f.ctx, returned(heldOf(leased)), 0) },
					"Bury":     func() error { return m.Commit(f.ctx, lettersOf(heldOf(leased), "r")) },
					"Retire":   func() error { return m.Retire(f.ctx) },
					"Leave":    func() error { return m.Leave(f.ctx) },
				}
				fenced := map[string]bool{"Settle": true, "Renew": true, "TakeOver": true, "Release": true, "Bury": true}
				for _, name := range []string{"Settle", "Renew", "TakeOver", "Release", "Bury", "Read", "Wait", "Sync", "Retire", "Leave"} {
					err := calls[name]()
					if fenced[name] && refused != nil {
						require.ErrorIs(t, err, refused, name)
						continue
					}
					if name == "Settle" && gone == "log" {
						require.NoError(t, err) // XACK has nothing to acknowledge
						continue
					}
					require.ErrorIs(t, err, tier.ErrNoGroup, name)
					require.False(t, tier.OutcomeUnknown(err), name)
				}
			})
		})
	}
}

// TestLag (B73): what the listing says about unread entries is the truth where it says that it is exact, at least the
// truth elsewhere, and never negative.
func TestLag(t *testing.T) {
	tests := []struct {
		name  string
		run   func(f *fixture, ids []codec.ID)
		exact bool
	}{
		{"nothing read", func(f *fixture, ids []codec.ID) {}, true},
		{"some read", func(f *fixture, ids []codec.ID) { f.read(f.join(f.group("g", stream.Head(), 0)), 4) }, true},
		{"all read", func(f *fixture, ids []codec.ID) { f.read(f.join(f.group("g", stream.Head(), 0)), 10) }, true},
		{"trimmed, none read", func(f *fixture, ids []codec.ID) { f.do("XTRIM", f.log(), "MAXLEN", "3") }, true},
		{"trimmed beyond what was read", func(f *fixture, ids []codec.ID) {
			f.read(f.join(f.group("g", stream.Head(), 0)), 4)
			f.do("XTRIM", f.log(), "MAXLEN", "3")
		}, true},
		{"trimmed below what was read", func(f *fixture, ids []codec.ID) {
			f.read(f.join(f.group("g", stream.Head(), 0)), 4)
			f.do("XTRIM", f.log(), "MAXLEN", "8")
		}, true},
		{"trimmed to nothing", func(f *fixture, ids []codec.ID) { f.do("XTRIM", f.log(), "MAXLEN", "0") }, true},
		{"deleted, unread", func(f *fixture, ids []codec.ID) {
			f.read(f.join(f.group("g", stream.Head(), 0)), 4)
			f.do("XDEL", f.log(), ids[6].ServerEntry().String())
		}, false},
		{"deleted, read", func(f *fixture, ids []codec.ID) {
			f.read(f.join(f.group("g", stream.Head(), 0)), 4)
			f.do("XDEL", f.log(), ids[1].ServerEntry().String())
		}, true},
		{"deleted, the last", func(f *fixture, ids []codec.ID) { f.do("XDEL", f.log(), ids[9].ServerEntry().String()) }, true},
		{"deleted, the last, after all was read", func(f *fixture, ids []codec.ID) {
			f.read(f.join(f.group("g", stream.Head(), 0)), 10)
			f.do("XDEL", f.log(), ids[9].ServerEntry().String())
		}, true},
		{"made in mid-stream", func(f *fixture, ids []codec.ID) {
			require.NoError(f.t, f.group("g", stream.Head(), 0).Delete(f.ctx))
			require.NoError(f.t, f.group("g", stream.FromID(ids[5]), 0).Create(f.ctx))
		}, false},
		{"made at the end", func(f *fixture, ids []codec.ID) {
			require.NoError(f.t, f.group("g", stream.Head(), 0).Delete(f.ctx))
			require.NoError(f.t, f.group("g", stream.New(), 0).Create(f.ctx))
		}, true},
		{"top moved on by XSETID", func(f *fixture, ids []codec.ID) {
			f.read(f.join(f.group("g", stream.Head(), 0)), 4)
			f.do("XSETID", f.log(), fmt.Sprintf("%d-0", ids[9].ServerEntry().Ms+1))
		}, true},
	}
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				f := setUp(t, s)
				require.NoError(t, f.group("g", stream.Head(), 0).Create(f.ctx))
				ids := f.append(f.writer(stream.WriterConfig{}), 10)
				tt.run(f, ids)
				infos, err := stream.Groups(f.ctx, f.client, f.address)
				require.NoError(t, err)
				require.Len(t, infos, 1)
				g := infos[0]
				m := f.do("XRANGE", f.log(), "("+g.LastDelivered.String(), "+")
				unread, err := m.ToArray()
				require.NoError(t, err)
				if g.LagExact {
					require.EqualValues(t, len(unread), g.Lag)
				} else {
					require.GreaterOrEqual(t, g.Lag, int64(len(unread)))
				}
				require.True(t, g.LagExact || !tt.exact, "only an estimate: %d", g.Lag)
				require.Equal(t, len(unread) == 0, g.OldestUnread.IsZero())
			})
		}
	})
}

// TestGroupListing: places, counts and ages, by the server's clock.
func TestGroupListing(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		empty, err := stream.Groups(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Empty(t, empty)
		w := f.writer(stream.WriterConfig{Brand: "ORD"})
		ids := f.append(w, 6)
		entries := make([]codec.EntryID, len(ids))
		for i := range ids {
			entries[i] = ids[i].ServerEntry()
		}
		b := f.group("b", stream.FromID(ids[1]), 2*time.Second)
		m := f.join(b)
		leased := f.read(m, 3)
		require.NoError(t, m.Commit(f.ctx, lettersOf(heldOf(leased[:1]), "r")))
		require.NoError(t, f.group("a", stream.New(), 0).Create(f.ctx))

		infos, err := stream.Groups(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Len(t, infos, 2)
		got := infos[1]
		age := f.now().Sub(ids[4].Time())
		require.InDelta(t, age.Seconds(), got.OldestUnreadAge.Seconds(), 5)
		require.InDelta(t, age.Seconds(), got.OldestPendingAge.Seconds(), 5)
		require.InDelta(t, 0, got.OldestDeadAge.Seconds(), 5)
		got.OldestUnreadAge, got.OldestPendingAge, got.OldestDeadAge = 0, 0, 0
		require.GreaterOrEqual(t, got.Lag, int64(2))
		got.Lag, got.LagExact = 0, false
		require.Equal(t, stream.GroupInfo{
			Name: "b", Start: entries[1], Lease: 2 * time.Second, Consumers: 1, LastDelivered: entries[3],
			OldestUnread: entries[4], Pending: 2, OldestPending: entries[2], Dead: 1, OldestDead: f.deadOf("b")[0].ID,
		}, got)
		got = infos[0]
		got.Consumers = 0
		require.Equal(t, stream.GroupInfo{Name: "a", Lease: stream.DefaultLease, LastDelivered: entries[5], LagExact: true}, got)

		streams, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
		require.NoError(t, err)
		require.Equal(t, []stream.Info{{Address: f.addr(), Brand: "ORD", Length: 6, Added: 6, First: entries[0], Last: entries[5], Groups: 2}}, streams)
	})
}

// TestGroupOfARemovedStream is not made again (B30).
func TestGroupOfARemovedStream(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := f.group("g", stream.Head(), 0)
		f.append(f.writer(stream.WriterConfig{Brand: "ORD"}), 1)
		m := f.join(g)
		f.do("DEL", f.log())
		f.do("HSET", tier.ScopeKey(f.addr().Scope), "stream:orders", "-ORD")
		require.ErrorIs(t, g.Create(f.ctx), stream.ErrStreamRemoved)
		_, err := g.Join(f.ctx, "m")
		require.ErrorIs(t, err, stream.ErrStreamRemoved)
		_, err = m.Read(f.ctx, 1, 0)
		require.ErrorIs(t, err, tier.ErrNoGroup)
		require.Equal(t, "0", f.text("EXISTS", f.log()))
		streams, err := collected(stream.Streams(f.ctx, f.client, f.addr().Scope))
		require.NoError(t, err)
		require.Equal(t, []stream.Info{{Address: f.addr(), Brand: "ORD", Removed: true}}, streams)
	})
}
