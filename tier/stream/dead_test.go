package stream_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// dead are the dead letters of group g.
func (f *fixture) dead() []stream.DeadLetter { return f.deadOf("g") }

func (f *fixture) deadOf(name string) []stream.DeadLetter {
	f.t.Helper()
	letters, err := collected(stream.DeadLetters(f.ctx, f.client, f.address, name))
	require.NoError(f.t, err)
	return letters
}

func letterIDs(letters []stream.DeadLetter) []codec.EntryID {
	ids := make([]codec.EntryID, len(letters))
	for i := range letters {
		ids[i] = letters[i].ID
	}
	return ids
}

func (f *fixture) redrive(letters ...stream.DeadLetter) stream.RedriveResult {
	f.t.Helper()
	r, err := stream.Redrive(f.ctx, f.client, f.address, "g", letterIDs(letters))
	require.NoError(f.t, err)
	return r
}

// parked are the parked entries of group g, ascending.
func (f *fixture) parked() []codec.EntryID {
	f.t.Helper()
	m := f.do("ZRANGE", f.addr().RetryKey("g"), "0", "-1")
	texts, err := m.AsStrSlice()
	require.NoError(f.t, err)
	ids := make([]codec.EntryID, len(texts))
	for i, text := range texts {
		ids[i], err = codec.ParseEntryID(text)
		require.NoError(f.t, err)
	}
	slices.SortFunc(ids, codec.EntryID.Compare)
	return ids
}

// takesDue takes up what is due, which must be n entries.
func (f *fixture) takesDue(m *stream.Member, n int) []tier.Leased {
	f.t.Helper()
	taken, err := m.Due(f.ctx, max(1, n))
	require.NoError(f.t, err)
	require.Len(f.t, taken.Leased, n)
	return taken.Leased
}

// TestDeadLetters (B112): what is given up is among the dead letters once, as the message that it was: a plain one, one
// that another program wrote, one of a pack. They can be deleted.
func TestDeadLetters(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		require.ErrorIs(t, func() error {
			_, err := collected(stream.DeadLetters(f.ctx, f.client, f.address, "g"))
			return err
		}(), stream.ErrNoStream)
		m := f.join(f.group("g", stream.Head(), lease))
		plain := f.append(f.writer(stream.WriterConfig{}), 1)
		packed := f.append(f.writer(stream.WriterConfig{Pack: 10, Compression: codec.Zstd}), 10)
		f.do("XADD", f.log(), "*", "reason", "1", "index", "\xff")
		require.Empty(t, f.dead())
		leased := f.read(m, 3)
		list := lettersOf(heldOf(leased), "poison: \xff")
		list[1].Dead = []tier.Letter{{Index: 2, Reason: "two", Attempts: 3}, {Index: 9, Reason: "", Attempts: 1}}
		for range 2 { // as when the first reply is lost
			require.NoError(t, m.Commit(f.ctx, list))
		}
		letters := f.dead()
		require.Len(t, letters, 4)
		all := f.all()
		for i, want := range []struct {
			record   codec.Record
			index    int
			reason   string
			attempts int
		}{{all[0], -1, "poison: \xff", 1}, {all[3], 2, "two", 3}, {all[10], 9, "", 1}, {all[11], -1, "poison: \xff", 1}} {
			l := letters[i]
			require.Equal(t, want.record, l.Record)
			require.Equal(t, want.record.Position.Entry, l.Entry)
			require.Equal(t, want.index, l.Index)
			require.Equal(t, want.reason, l.Reason)
			require.Equal(t, want.attempts, l.Attempts)
		}
		require.Equal(t, plain[0], letters[0].Record.ID)
		require.Equal(t, []codec.ID{packed[2], packed[9]}, []codec.ID{letters[1].Record.ID, letters[2].Record.ID})

		n, err := stream.DropLetters(f.ctx, f.client, f.address, "g", append(letterIDs(letters[1:3]), letterIDs(letters[1:2])...))
		require.NoError(t, err)
		require.Equal(t, 2, n)
		n, err = stream.DropLetters(f.ctx, f.client, f.address, "g", letterIDs(letters[1:3]))
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, []stream.DeadLetter{letters[0], letters[3]}, f.dead())
		require.Empty(t, f.parked())
	})
}

// TestDeadLettersOfOthers: what is no letter of ours, or damaged, is shown raw, and stays where it is.
func TestDeadLettersOfOthers(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.group("g", stream.Head(), lease))
	f.append(f.writer(stream.WriterConfig{Pack: 2}), 2)
	entry := f.read(m, 1)[0].Entry.String()
	_, err := m.Settle(f.ctx, f.entries())
	require.NoError(t, err)
	odd := [][]string{
		{"a", "b"},
		{"entry", "x", "reason", "r"},
		{"entry", "18446744073709551616-1", "reason", "r"},
		{"reason", "r", "entry", entry},
		{"entry", entry, "index", "-1"},
		{"entry", entry, "index", "12345"},
		{"entry", entry, "index", "1 1 1"},
	}
	for _, fields := range odd {
		f.do("XADD", append([]string{f.addr().DeadKey("g"), "*"}, fields...)...)
	}
	letters := f.dead()
	require.Len(t, letters, len(odd))
	for i, l := range letters {
		require.True(t, l.Record.Foreign(), "%q", odd[i])
	}
	require.Equal(t, stream.RedriveResult{Foreign: letterIDs(letters)}, f.redrive(letters...))
	require.Len(t, f.dead(), len(odd))
	require.Empty(t, f.parked())
	f.do("DEL", f.addr().DeadKey("g")) // the audit at the end would find them
}

// entries are those of the log.
func (f *fixture) entries() (ids []codec.EntryID) {
	for _, r := range f.all() {
		ids = append(ids, r.Position.Entry)
	}
	return slices.Compact(ids)
}

// TestRedrivePack (B114): of two dead messages of a pack one is redriven while a third message is parked, and the other
// one must wait while the entry is being handled. Each comes at its own attempt.
func TestRedrivePack(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		m := f.join(f.group("g", stream.Head(), lease))
		f.append(f.writer(stream.WriterConfig{Pack: 10}), 10)
		entry := f.read(m, 1)[0].Entry
		require.NoError(t, m.Commit(f.ctx, []tier.Ending{{
			Entry: entry, Deliveries: 1, Open: []tier.Open{{Index: 7, Attempt: 1, Delay: time.Hour}},
			Dead: []tier.Letter{{Index: 2, Reason: "r", Attempts: 1}, {Index: 5, Reason: "r", Attempts: 1}},
		}}))
		letters := f.dead()
		f.takesDue(m, 0)
		require.Equal(t, stream.RedriveResult{Redriven: 1}, f.redrive(letters[0]))
		require.Equal(t, stream.RedriveResult{Gone: 1}, f.redrive(letters[0]))
		require.Equal(t, letters[1:], f.dead())

		l := f.takesDue(m, 1)[0]
		require.Equal(t, 2, l.Deliveries)
		require.Len(t, l.Open, 2)
		require.Equal(t, tier.Open{Index: 2, Attempt: 1}, l.Open[0])
		require.Equal(t, 7, l.Open[1].Index)
		require.Equal(t, 2, l.Open[1].Attempt)
		require.Positive(t, l.Open[1].Delay)
		require.Equal(t, stream.RedriveResult{Busy: letterIDs(letters[1:])}, f.redrive(letters[1]))
		require.Equal(t, letters[1:], f.dead())

		// The first is handled, the third waits on.
		require.NoError(t, m.Commit(f.ctx, []tier.Ending{{Entry: entry, Deliveries: 2, Open: []tier.Open{{Index: 7, Attempt: 1, Delay: time.Hour}}}}))
		require.Equal(t, stream.RedriveResult{Redriven: 1}, f.redrive(letters[1]))
		l = f.takesDue(m, 1)[0]
		require.Len(t, l.Open, 2)
		require.Equal(t, tier.Open{Index: 5, Attempt: 1}, l.Open[0])
		require.Equal(t, 7, l.Open[1].Index)
		require.Empty(t, f.dead())

		// A message that is given up again is there once (B112), and what was settled does not come with it.
		for range 2 {
			require.NoError(t, m.Commit(f.ctx, []tier.Ending{{Entry: entry, Deliveries: 3, Dead: []tier.Letter{{Index: 5, Reason: "again", Attempts: 1}}}}))
		}
		require.Len(t, f.dead(), 1)
		require.Equal(t, stream.RedriveResult{Redriven: 1}, f.redrive(f.dead()...))
		l = f.takesDue(m, 1)[0]
		require.Equal(t, []tier.Open{{Index: 5, Attempt: 1}}, l.Open)
		require.Len(t, l.Records, 1)
	})
}

// TestRedriveUndecodable: of a pack that could not be read and was redriven, all comes, for a newer program may read it.
func TestRedriveUndecodable(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.group("g", stream.Head(), lease))
	f.append(f.writer(stream.WriterConfig{Pack: 3}), 3)
	leased := f.read(m, 1)
	require.NoError(t, m.Commit(f.ctx, lettersOf(heldOf(leased), "as an older program says")))
	letters := f.dead()
	require.Len(t, letters[0].Fields, 2)
	require.Equal(t, codec.Record{Position: codec.Position{Entry: leased[0].Entry}, Addr: leased[0].Entry, Fields: letters[0].Fields}, letters[0].Record)
	require.Equal(t, stream.RedriveResult{Redriven: 1}, f.redrive(letters...))
	require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
	l := f.takesDue(m, 1)[0]
	require.Equal(t, leased[0].Records, l.Records)
	require.Nil(t, l.Open)
	require.Equal(t, 1, l.Deliveries)
	require.Equal(t, "0", f.text("EXISTS", f.addr().OpenKey("g")), "a row that nobody would delete")
}

// TestRedriveParked: a message that is parked already, since a letter of it was restored by hand, is parked once.
func TestRedriveParked(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.group("g", stream.Head(), lease))
	f.append(f.writer(stream.WriterConfig{Pack: 3}), 3)
	entry := f.read(m, 1)[0].Entry
	require.NoError(t, m.Commit(f.ctx, []tier.Ending{{Entry: entry, Deliveries: 1, Dead: []tier.Letter{{Index: 1}, {Index: 1}, {Index: 2}}}}))
	// A row of an entry that is not parked tells nothing.
	f.do("HSET", f.addr().OpenKey("g"), entry.String(), "7 0 3 0")
	require.Equal(t, stream.RedriveResult{Redriven: 3}, f.redrive(f.dead()...))
	require.Equal(t, "0 1 0 0 2 0 0", f.text("HGET", f.addr().OpenKey("g"), entry.String()))
	require.Equal(t, []tier.Open{{Index: 1, Attempt: 1}, {Index: 2, Attempt: 1}}, f.takesDue(m, 1)[0].Open)
}

// TestRedriveStays: a letter that cannot be redriven stays what it is: of an entry that was trimmed, of one that the group
// is still to be given, and of a group that is no more.
func TestRedriveStays(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newScene(setUp(t, srv))
		f := s.f
		require.NoError(t, s.me.Commit(f.ctx, lettersOf(heldOf(s.mine), "r")))
		letters := f.dead()
		f.do("XTRIM", f.log(), "MAXLEN", "=", "2")
		_, err := s.g.Reset(f.ctx, stream.Head())
		require.NoError(t, err)
		ids := letterIDs(letters)
		require.Equal(t, stream.RedriveResult{Trimmed: ids[:1], Ahead: ids[1:]}, f.redrive(letters...))
		require.Equal(t, letters, f.dead())
		_, err = s.me.Sync(f.ctx)
		require.NoError(t, err)
		f.read(s.me, 2)
		require.Equal(t, stream.RedriveResult{Trimmed: ids[:1], Busy: ids[1:]}, f.redrive(letters...))
		_, err = s.me.Settle(f.ctx, entriesOf(s.mine))
		require.NoError(t, err)

		require.NoError(t, s.g.Delete(f.ctx))
		_, err = stream.Redrive(f.ctx, f.client, f.address, "g", ids)
		require.ErrorIs(t, err, tier.ErrNoGroup)
		require.ErrorContains(t, err, f.addr().GroupKey("g"))
		require.Equal(t, letters, f.dead())
	})
}

// TestRedriveRefused: while the group's keys cannot be written, or are none, nothing changes.
func TestRedriveRefused(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newScene(setUp(t, tiertest.Private(t, kind)))
			f := s.f
			require.NoError(t, s.me.Commit(f.ctx, lettersOf(heldOf(s.mine), "r")))
			letters := f.dead()
			refused := func(want error) {
				t.Helper()
				_, err := stream.Redrive(f.ctx, f.client, f.address, "g", letterIDs(letters))
				require.ErrorIs(t, err, want)
				require.False(t, tier.OutcomeUnknown(err))
				require.Equal(t, letters, f.dead())
			}
			for _, right := range []string{"zadd", "hset", "xdel", "zscore", "xpending"} {
				f.do("ACL", "SETUSER", "default", "-"+right)
				refused(tier.ErrPermission)
				f.do("ACL", "SETUSER", "default", "+"+right)
				require.Empty(t, f.parked(), right)
			}
			for _, key := range []string{f.addr().RetryKey("g"), f.addr().OpenKey("g")} {
				f.do("SET", key, "x")
				refused(tier.ErrWrongType)
				f.do("DEL", key)
				require.Empty(t, f.parked(), key)
			}
			require.Equal(t, stream.RedriveResult{Redriven: 2}, f.redrive(letters...))
		})
	}
}

// TestRedriveCutShort (B114): a redrive of 1,000 whose connection is cut again and again, before a call or after it, leaves
// each message in exactly one place every time; repeated, it gets to its end and does nothing twice.
func TestRedriveCutShort(t *testing.T) {
	const n = 1000
	tiertest.EachPrivate(t, func(t *testing.T, s *tiertest.Server) {
		f, proxy := setUpProxied(t, s)
		m := f.join(f.group("g", stream.Head(), lease))
		f.append(f.writer(stream.WriterConfig{}), n)
		leased := f.read(m, n)
		require.NoError(t, m.Commit(f.ctx, lettersOf(heldOf(leased), "r")))
		letters := f.dead()
		require.Len(t, letters, n)
		src := sources(t)["redrive"]
		f.load(src)
		calls := 0
		third := func(cmd []string) bool {
			if !runs(src)(cmd) {
				return false
			}
			calls++
			return calls%3 == 0
		}
		cuts, done := 0, 0
		for {
			if cuts%2 == 0 {
				proxy.DropReplies(1, third)
			} else {
				proxy.DropRequests(1, third)
			}
			r, err := stream.Redrive(f.ctx, f.client, f.address, "g", letterIDs(letters))
			places := f.parked()
			require.GreaterOrEqual(t, len(places), done)
			done = len(places)
			for _, l := range f.dead() {
				places = append(places, l.Entry)
			}
			slices.SortFunc(places, codec.EntryID.Compare)
			require.Equal(t, entriesOf(leased), places)
			require.Empty(t, f.pending("g"))
			if err == nil {
				require.Equal(t, len(letters), r.Redriven+r.Gone)
				break
			}
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			cuts++
			letters = append(f.dead(), letters[:min(10, len(letters))]...) // some of those that are gone, too
			if len(f.dead()) == 0 {
				break
			}
		}
		require.Positive(t, cuts)
		require.Len(t, f.parked(), n)
		for _, l := range f.takesDue(m, n) {
			require.Equal(t, 1, l.Deliveries)
			require.Nil(t, l.Open)
		}
	})
}

// TestDeadLetterBlocksNothing (B117): a message that was appended once under a key and is dead now keeps nobody from
// appending under the key again, when its window is over; and one that was redriven can die again.
func TestDeadLetterBlocksNothing(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		f := setUp(t, srv)
		m := f.join(f.group("g", stream.Head(), lease))
		w := f.writer(stream.WriterConfig{})
		first, fresh, err := w.AppendOnce(f.ctx, "nightly", 10*time.Millisecond, codec.Message{})
		require.NoError(t, err)
		require.True(t, fresh)
		leased := f.read(m, 1)
		for i := range 3 {
			require.NoError(t, m.Commit(f.ctx, lettersOf(heldOf(leased), strconv.Itoa(i))))
			letters := f.dead()
			require.Len(t, letters, 1)
			require.Equal(t, first, letters[0].Record.ID)
			require.Equal(t, strconv.Itoa(i), letters[0].Reason)
			if i < 2 {
				require.Equal(t, stream.RedriveResult{Redriven: 1}, f.redrive(letters...))
				leased = f.takesDue(m, 1)
			}
		}
		tiertest.Eventually(t, time.Minute, func() (bool, string) {
			_, fresh, err := w.AppendOnce(f.ctx, "nightly", 10*time.Millisecond, codec.Message{})
			require.NoError(t, err)
			return fresh, "still seen"
		})
		f.read(m, 1)
	})
}
