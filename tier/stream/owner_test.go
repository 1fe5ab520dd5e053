package stream_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
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

func (f *fixture) cursor(name string, start stream.Start, lease time.Duration) *stream.Cursor {
	f.t.Helper()
	c, err := stream.NewCursor(f.client, stream.CursorConfig{Address: f.address, Name: name, Start: start, Lease: lease})
	require.NoError(f.t, err)
	return c
}

func (f *fixture) own(c *stream.Cursor) *stream.Owner {
	f.t.Helper()
	o, err := c.Join(f.ctx, "me")
	require.NoError(f.t, err)
	return o
}

// row is a value of the cursor's as the server has it.
func (f *fixture) row(cursor, value string) string {
	return f.text("HGET", f.addr().CursorsKey(), tier.CursorField(cursor, value))
}

// owned reads until n entries have come.
func (f *fixture) owned(o *stream.Owner, n int) (leased []tier.Leased) {
	f.t.Helper()
	tiertest.Eventually(f.t, time.Minute, func() (bool, string) {
		some, err := o.Read(f.ctx, n-len(leased), 10*time.Millisecond)
		if !errors.Is(err, tier.ErrFenced) { // with which it says that it has come to own the cursor
			require.NoError(f.t, err)
		}
		leased = append(leased, some...)
		return len(leased) >= n, strconv.Itoa(len(leased))
	})
	return leased
}

// TestOwnerHandsOver: the second member stands by until the first leaves, and goes on where it was; what was through out of
// order is not read again.
func TestOwnerHandsOver(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 10)
		c := f.cursor("c", stream.Head(), time.Minute)
		first, second := f.own(c), f.own(c)
		require.True(t, first.Owns())
		require.False(t, second.Owns())
		all := entriesOf(f.owned(first, 10))
		n, err := first.Settle(f.ctx, []codec.EntryID{all[0], all[1], all[4], all[7]})
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Equal(t, all[1].String(), f.row("c", "at"))
		require.Equal(t, all[4].String()+" "+all[7].String(), f.row("c", "above"))
		require.NoError(t, first.Release(f.ctx, handedBack(all[2], all[3], all[5], all[6], all[8], all[9]), 0))
		require.NoError(t, first.Leave(f.ctx))

		rest := entriesOf(f.owned(second, 6))
		require.Equal(t, []codec.EntryID{all[2], all[3], all[5], all[6], all[8], all[9]}, rest)
		_, err = first.Settle(f.ctx, all[:1])
		require.ErrorIs(t, err, tier.ErrFenced)
		_, err = second.Settle(f.ctx, rest)
		require.NoError(t, err)
		require.Equal(t, all[9].String(), f.row("c", "at"))
		require.Empty(t, f.row("c", "above"))
	})
}

func handedBack(entries ...codec.EntryID) (list []tier.Returned) {
	for _, e := range entries {
		list = append(list, tier.Returned{Held: tier.Held{Entry: e}})
	}
	return list
}

// TestOwnerReadsWhileItCommits: what comes next is read while a commit waits at the server, and what was through before stays so.
func TestOwnerReadsWhileItCommits(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	f := setUp(t, s)
	f.append(f.writer(stream.WriterConfig{}), 6)
	c := f.cursor("c", stream.Head(), time.Minute)
	first := f.own(c)
	all := entriesOf(f.owned(first, 6))
	_, err := first.Settle(f.ctx, []codec.EntryID{all[0], all[3]})
	require.NoError(t, err)
	require.NoError(t, first.Release(f.ctx, handedBack(all[1], all[2], all[4], all[5]), 0))
	require.NoError(t, first.Leave(f.ctx))

	me := f.own(c)
	require.Equal(t, all[1:2], entriesOf(f.owned(me, 1)))
	_, err = me.Settle(f.ctx, all[1:2])
	require.NoError(t, err)
	require.Equal(t, all[2:3], entriesOf(f.owned(me, 1)))
	s.Command(t, "CLIENT", "PAUSE", "60000", "WRITE")
	done := make(chan error, 1)
	go func() {
		_, err := me.Settle(context.Background(), all[2:3])
		done <- err
	}()
	tiertest.Eventually(t, time.Minute, func() (bool, string) {
		m := s.Command(t, "INFO", "clients")
		text, err := m.ToString()
		return err == nil && !strings.Contains(text, "blocked_clients:0\r"), text
	})
	require.Equal(t, all[4:5], entriesOf(f.owned(me, 1)), "which the fourth, through before, was read with")
	require.Empty(t, done)
	s.Command(t, "CLIENT", "UNPAUSE")
	require.NoError(t, <-done)
	require.Equal(t, all[2].String(), f.row("c", "at"))
	require.Equal(t, all[3].String(), f.row("c", "above"))
	require.Equal(t, all[5:], entriesOf(f.owned(me, 1)))
	_, err = me.Settle(f.ctx, all[5:])
	require.NoError(t, err)
	require.Equal(t, all[3].String(), f.row("c", "at"), "of what is through above the checkpoint nothing was forgotten")
	require.Equal(t, all[5].String(), f.row("c", "above"))
	require.Equal(t, "4", f.row("c", "passed"))
}

// TestOwnerFrozen (B8): one that was silent past its lease commits nothing any more, and is told so.
func TestOwnerFrozen(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 3)
		c := f.cursor("c", stream.Head(), stream.MinLease)
		frozen := f.own(c)
		held := entriesOf(f.owned(frozen, 3))
		next := f.own(c)
		require.Equal(t, held, entriesOf(f.owned(next, 3)), "taken over once the lease has ended")
		for name, call := range map[string]func() error{
			"settle": func() error { _, err := frozen.Settle(f.ctx, held); return err },
			"commit": func() error {
				return frozen.Commit(f.ctx, []tier.Ending{{Entry: held[0], Outputs: []tier.Output{tier.HashIncrement("total", "n", 1)}}})
			},
			"renew": func() error { _, err := frozen.Renew(f.ctx, nil); return err },
			"read":  func() error { _, err := frozen.Read(f.ctx, 1, 0); return err },
			"due":   func() error { _, err := frozen.Due(f.ctx, 1); return err },
		} {
			require.ErrorIs(t, call(), tier.ErrFenced, name)
		}
		require.Equal(t, "0-0", f.row("c", "at"))
		left, err := frozen.Sync(f.ctx)
		require.NoError(t, err)
		require.Empty(t, left)
		require.False(t, frozen.Owns())
	})
}

// TestOwnerCommits: parked, given up and settled in one step with the checkpoint, whatever the outcome of the call was.
func TestOwnerCommits(t *testing.T) {
	t.Parallel()
	eachAlone(t, func(t *testing.T, s *tiertest.Server) {
		f, proxy := setUpProxied(t, s)
		f.append(f.writer(stream.WriterConfig{}), 4)
		c := f.cursor("c", stream.Head(), time.Minute)
		o := f.own(c)
		all := entriesOf(f.owned(o, 4))
		endings := []tier.Ending{
			{Entry: all[0], Deliveries: 1, Outputs: []tier.Output{tier.HashIncrement("total", "n", 2), tier.AppendTo(f.addr().Scope+"/out", codec.Message{Key: "k"})}},
			{Entry: all[1], Deliveries: 1, Open: []tier.Open{{Attempt: 1}}},
			{Entry: all[3], Deliveries: 1, Dead: []tier.Letter{{Index: -1, Reason: "no", Attempts: 1}}},
		}
		called := sourceSHA(t, "commit")
		f.load(sources(t)["commit"])
		proxy.DropNextReply(func(cmd []string) bool { return cmd[0] == "EVALSHA" && cmd[1] == called })
		err := o.Commit(f.ctx, endings)
		require.True(t, tier.OutcomeUnknown(err), "%v", err)
		require.NoError(t, o.Commit(f.ctx, endings))
		require.Equal(t, "2", f.text("HGET", tier.StateKey(f.addr().Scope, "total"), "n"))
		require.Equal(t, "1", f.text("XLEN", tier.Address{Scope: f.addr().Scope, Stream: "out"}.LogKey()))
		require.Equal(t, "1", f.text("XLEN", f.addr().DeadKey("c")))
		require.Equal(t, all[1].String(), f.row("c", "at"))
		require.Equal(t, all[3].String(), f.row("c", "above"))

		taken, err := o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Equal(t, []codec.EntryID{all[1]}, entriesOf(taken.Leased))
		require.Equal(t, 2, taken.Leased[0].Deliveries)
		again, err := o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Empty(t, again.Leased, "it is in flight")
		_, err = o.Settle(f.ctx, []codec.EntryID{all[1], all[2]})
		require.NoError(t, err)
		require.Equal(t, all[3].String(), f.row("c", "at"))
		require.Equal(t, "0", f.text("ZCARD", f.addr().RetryKey("c")))
		require.Equal(t, "0", f.text("HLEN", f.addr().OpenKey("c")))
	})
}

// TestOutputsRefused: one bad output refuses the call whole, and is named.
func TestOutputsRefused(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 1)
		scope := f.addr().Scope
		f.do("HSET", tier.StateKey(scope, "hash"), "text", "7a", "big", "9223372036854775807", "small", "-9223372036854775808", "n", "41", "padded", "007")
		f.do("SET", tier.StateKey(scope, "string"), "x")
		f.do("SADD", tier.StateKey(scope, "set"), "x")
		good := tier.HashIncrement("hash", "n", 1)
		for name, bad := range map[string][]tier.Output{
			"no integer":           {good, tier.HashIncrement("hash", "text", 1)},
			"no integer of theirs": {good, tier.HashIncrement("hash", "padded", 1)},
			"over":                 {good, tier.HashIncrement("hash", "big", 1)},
			"under":                {good, tier.HashIncrement("hash", "small", -1)},
			"over by adding up":    {tier.HashIncrement("hash", "new", 1<<62), tier.HashIncrement("hash", "new", 1<<62)},
			"over what was set":    {tier.HashSet("hash", "n", "9223372036854775807"), good},
			"text that was set":    {tier.HashSet("hash", "n", "many"), good},
			"type":                 {good, tier.SortedAdd("hash", "m", 1)},
			"type of this call":    {tier.SetAdd("fresh", "m"), tier.HashSet("fresh", "f", "v")},
			"no members":           {good, tier.Remove("string", "x")},
			"another scope":        {good, tier.AppendTo("elsewhere/orders", codec.Message{})},
			"name":                 {good, tier.SetAdd("no:name", "m")},
			"set":                  {good, tier.HashSet("set", "x", "y")},
		} {
			for _, mode := range []string{"group", "cursor"} {
				commit := f.committer(mode, strings.ReplaceAll(name, " ", "-")+"-"+mode)
				err := commit(bad)
				var which *tier.OutputError
				require.ErrorAs(t, err, &which, name)
				require.Equal(t, 1, which.Output, name)
				require.Equal(t, "41", f.text("HGET", tier.StateKey(scope, "hash"), "n"), name)
				require.Equal(t, "0", f.text("EXISTS", tier.StateKey(scope, "fresh")), name)
				require.NoError(t, commit([]tier.Output{tier.HashSet("done", name+mode, "1")}), name)
			}
		}
		fine := []tier.Output{
			tier.HashIncrement("hash", "big", -1), tier.HashIncrement("hash", "big", 1), tier.HashIncrement("hash", "small", 1), tier.HashIncrement("hash", "small", -1),
			tier.HashSet("hash", "n", "9223372036854775806"), tier.HashIncrement("hash", "n", 1), tier.Remove("hash", "text"), tier.HashIncrement("hash", "text", -5),
			tier.Delete("string"), tier.SortedAdd("string", "m", 1.5), tier.SetAdd("set", "y"), tier.Remove("set", "x"),
		}
		require.NoError(t, f.committer("cursor", "fine")(fine))
		for field, want := range map[string]string{"big": "9223372036854775807", "small": "-9223372036854775808", "n": "9223372036854775807", "text": "-5"} {
			require.Equal(t, want, f.text("HGET", tier.StateKey(scope, "hash"), field))
		}
		require.Equal(t, "1.5", f.text("ZSCORE", tier.StateKey(scope, "string"), "m"))
		require.Equal(t, "0", f.text("SISMEMBER", tier.StateKey(scope, "set"), "x"))
	})
}

// TestOutputsGoOn: what one commit appends to two streams by turns, of more than there are ids in a millisecond, has ids as a writer's: one
// after another, each of them an id, and marked where they are ahead of the clock.
func TestOutputsGoOn(t *testing.T) {
	t.Parallel()
	eachAlone(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 3)
		plain, keyed := f.at("plain"), f.at("keyed")
		_, err := keyed.writer(stream.WriterConfig{Keyed: true}).Declare(f.ctx)
		require.NoError(t, err)
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		endings, n := []tier.Ending{}, 0
		for _, e := range f.owned(o, 3) {
			ending := tier.Ending{Entry: e.Entry, Deliveries: 1}
			for range 1400 {
				m := codec.Message{Key: fmt.Sprint(n % 7), Data: []byte(fmt.Sprint(n))}
				ending.Outputs = append(ending.Outputs, tier.AppendTo(plain.address, m), tier.AppendTo(keyed.address, m))
				n++
			}
			endings = append(endings, ending)
		}
		require.NoError(t, o.Commit(f.ctx, endings))
		for _, to := range []*fixture{plain, keyed} { // a new log begins ahead of the clock
			last := to.all()[n-1].Addr.String()
			require.Equal(t, last, f.text("HGET", tier.ScopeKey(f.addr().Scope), "top:"+to.addr().Stream))
		}
		plain.append(plain.writer(stream.WriterConfig{}), 1) // behind them
		keyed.append(keyed.writer(stream.WriterConfig{Keyed: true}), 1)
		for _, to := range []*fixture{plain, keyed} {
			records := to.all()
			require.Len(t, records, n+1)
			count := map[string]int{}
			for i, r := range records[:n] {
				require.False(t, r.ID.IsZero(), "record %d is foreign", i)
				require.Less(t, r.Addr.Seq, uint64(4096))
				require.Equal(t, fmt.Sprint(i), string(r.Data))
				count[r.Key]++
			}
			for key, want := range count {
				require.Equal(t, to == keyed, f.text("ZCARD", to.addr().IndexKey(key)) == strconv.Itoa(want), key)
			}
		}
		require.NoError(t, stream.Check(f.ctx, f.client, f.addr().Scope))
	})
}

// committer commits outputs with the first entry of the log, for a group or a cursor.
func (f *fixture) committer(mode, name string) func(outputs []tier.Output) error {
	if mode == "cursor" {
		o := f.own(f.cursor(name, stream.Head(), time.Minute))
		e := f.owned(o, 1)[0]
		return func(outputs []tier.Output) error {
			return o.Commit(f.ctx, []tier.Ending{{Entry: e.Entry, Deliveries: 1, Outputs: outputs}})
		}
	}
	m, err := f.group(name, stream.Head(), time.Minute).Join(f.ctx, "me")
	require.NoError(f.t, err)
	leased, err := m.Read(f.ctx, 1, 0)
	require.NoError(f.t, err)
	return func(outputs []tier.Output) error {
		return m.Commit(f.ctx, []tier.Ending{{Entry: leased[0].Entry, Deliveries: 1, Outputs: outputs}})
	}
}

func sourceSHA(t testing.TB, name string) string {
	sum := sha1.Sum([]byte(sources(t)[name].Text))
	return hex.EncodeToString(sum[:])
}

// eachAlone runs a test on servers that are no cluster: a proxy can stand before those.
func eachAlone(t *testing.T, f func(t *testing.T, s *tiertest.Server)) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f(t, tiertest.Shared(t, kind))
		})
	}
}

// TestOwnerLosesReplies (B74): what a call has done whose reply was lost is neither forgotten nor mistaken for what comes after.
func TestOwnerLosesReplies(t *testing.T) {
	t.Parallel()
	eachAlone(t, func(t *testing.T, s *tiertest.Server) {
		f, proxy := setUpProxied(t, s)
		f.append(f.writer(stream.WriterConfig{}), 3)
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		all := entriesOf(f.owned(o, 3))
		lose := func(name string) {
			f.load(sources(t)[name])
			proxy.DropNextReply(runs(sources(t)[name]))
		}
		park := func(e codec.EntryID) []tier.Ending {
			return []tier.Ending{{Entry: e, Deliveries: 1, Open: []tier.Open{{Attempt: 1}}}}
		}
		lose("commit")
		require.True(t, tier.OutcomeUnknown(o.Commit(f.ctx, park(all[0]))))
		taken, err := o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Equal(t, all[:1], entriesOf(taken.Leased), "so it was parked")
		require.NoError(t, o.Commit(f.ctx, park(all[1])), "which sends the first again")
		n, err := o.Settle(f.ctx, all[:1])
		require.NoError(t, err)
		require.Equal(t, 1, n, "it is held: it was taken up after that commit")
		require.Equal(t, "1", f.text("ZCARD", f.addr().RetryKey("c")))

		lose("due_owned")
		_, err = o.Due(f.ctx, 10)
		require.True(t, tier.OutcomeUnknown(err))
		parked, err := o.Parked(f.ctx, nil)
		require.NoError(t, err)
		require.Len(t, parked, 1, "it still blocks what comes after it")
		taken, err = o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Equal(t, all[1:2], entriesOf(taken.Leased), "by the call whose reply was lost")
		require.Equal(t, 2, taken.Leased[0].Open[0].Attempt)
		taken, err = o.Due(f.ctx, 10)
		require.NoError(t, err)
		require.Empty(t, taken.Leased)
		_, err = o.Settle(f.ctx, all[1:])
		require.NoError(t, err)
		require.Equal(t, all[2].String(), f.row("c", "at"))
		require.Equal(t, "0", f.text("ZCARD", f.addr().RetryKey("c")))
	})
}

// dies leaves a cursor as an owner does whose process was killed, and lets another one own it.
func (f *fixture) dies(c *stream.Cursor) *stream.Owner {
	f.t.Helper()
	f.do("HSET", f.addr().CursorsKey(), tier.CursorField("c", "until"), "1")
	return f.own(c)
}

// TestOwnerDiesOfAnEntry: the one that comes first after the checkpoint bears the crashes, once somebody has read it, and
// nobody else; what was being handled beside it comes alone.
func TestOwnerDiesOfAnEntry(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 6)
		c := f.cursor("c", stream.Head(), time.Minute)
		o := f.own(c)
		all := entriesOf(f.owned(o, 4))
		_, err := o.Settle(f.ctx, all[:1])
		require.NoError(t, err)
		o = f.dies(c) // with 1 to 3 in flight, of which the server was told at the read
		for crashes := 1; crashes <= 2; crashes++ {
			some, err := o.Read(f.ctx, 3, 0)
			require.NoError(t, err)
			if crashes == 2 {
				require.Len(t, some, 1, "alone")
			}
			require.Equal(t, all[1], some[0].Entry)
			require.Equal(t, 1+crashes, some[0].Deliveries)
			if crashes == 1 {
				require.Equal(t, 1, some[1].Deliveries)
				o = f.dies(c)
			}
		}
		_, err = o.Settle(f.ctx, all[1:2])
		require.NoError(t, err)
		next, err := o.Read(f.ctx, 3, 0)
		require.NoError(t, err)
		require.Equal(t, all[2:3], entriesOf(next), "still alone")
		require.Equal(t, 1, next[0].Deliveries, "it killed nobody")
		_, err = o.Settle(f.ctx, all[2:3])
		require.NoError(t, err)
		for range 3 {
			o = f.dies(c) // with nothing that it had read
		}
		rest, err := o.Read(f.ctx, 3, 0)
		require.NoError(t, err)
		require.Len(t, rest, 3)
		require.Equal(t, 1, rest[0].Deliveries)
	})
}

// TestOwnerDiesOfWhatWasParked: what an owner had taken up when it died counts one delivery more, and comes one at a time.
func TestOwnerDiesOfWhatWasParked(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 4)
		c := f.cursor("c", stream.Head(), time.Minute)
		o := f.own(c)
		all := entriesOf(f.owned(o, 4))
		park := func(attempt, delivery int, entries ...codec.EntryID) {
			var list []tier.Ending
			for _, e := range entries {
				list = append(list, tier.Ending{Entry: e, Deliveries: delivery, Open: []tier.Open{{Attempt: attempt}}})
			}
			require.NoError(t, o.Commit(f.ctx, list))
		}
		due := func() []tier.Leased {
			taken, err := o.Due(f.ctx, 10)
			require.NoError(t, err)
			return taken.Leased
		}
		park(1, 1, all[:3]...)
		require.Len(t, due(), 3)
		for crashes := 1; crashes <= 3; crashes++ {
			o = f.dies(c)
			parked, err := o.Parked(f.ctx, nil)
			require.NoError(t, err)
			require.Len(t, parked, 3)
			for _, p := range parked {
				require.LessOrEqual(t, p.Delay, time.Duration(0))
				require.Greater(t, p.Delay, -time.Hour)
			}
			one := due()
			require.Equal(t, all[:1], entriesOf(one))
			require.Equal(t, 2+crashes, one[0].Open[0].Attempt)
			require.Equal(t, crashes, one[0].Crashes)
			require.Empty(t, due(), "one at a time")
		}
		park(5, 5, all[0])
		second := due()
		require.Equal(t, []codec.EntryID{all[1], all[0]}, entriesOf(second), "and what is no suspect any more")
		require.Equal(t, 3, second[0].Open[0].Attempt, "it was there once when its owner died")
		_, err := o.Settle(f.ctx, []codec.EntryID{all[0], all[1]})
		require.NoError(t, err)
		require.Equal(t, all[2:3], entriesOf(due()))
		_, err = o.Settle(f.ctx, all[2:3])
		require.NoError(t, err)
		require.Equal(t, "0", f.text("ZCARD", f.addr().RetryKey("c")))
		require.Equal(t, "0", f.text("HLEN", f.addr().OpenKey("c")))
	})
}

// TestOwnerOfANewLog: of a log that somebody deleted, and that was written anew, each entry is handled once, also what was
// settled before anybody noticed.
func TestOwnerOfANewLog(t *testing.T) {
	t.Parallel()
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		f.append(w, 10)
		o := f.own(f.cursor("c", stream.Head(), time.Minute))
		_, err := o.Settle(f.ctx, entriesOf(f.owned(o, 10)))
		require.NoError(t, err)
		_, err = o.Renew(f.ctx, nil)
		require.NoError(t, err)
		f.do("DEL", f.log())
		f.append(w, 3)
		fresh := entriesOf(f.owned(o, 3))
		_, err = o.Settle(f.ctx, fresh[:2])
		require.NoError(t, err)
		_, err = o.Renew(f.ctx, nil)
		require.ErrorIs(t, err, tier.ErrFenced, "it notices")
		held, err := o.Sync(f.ctx)
		require.NoError(t, err)
		require.Equal(t, []tier.Held{{Entry: fresh[2], Deliveries: 1}}, held, "the others were handled")
		_, err = o.Settle(f.ctx, fresh[2:])
		require.NoError(t, err)
		none, err := o.Read(f.ctx, 10, 0)
		require.NoError(t, err)
		require.Empty(t, none)
		require.Equal(t, fresh[2].String(), f.row("c", "at"))
	})
}
