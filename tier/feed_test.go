package tier_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// fed is a log with a group that has read nothing, and entries of every kind.
type fed struct {
	*fixture
	client *tier.Client
	log    string
	feed   *tier.Feed
	want   []codec.Entry
}

const fedGroup = "g"

func newFed(t *testing.T, f *fixture, client *tier.Client) *fed {
	w := &fed{fixture: f, client: client, log: tier.Address{Scope: tiertest.Scope(t), Stream: "s"}.LogKey()}
	w.feed = client.Feed(w.log)
	t.Cleanup(w.feed.Close)
	f.text("XGROUP", "CREATE", w.log, fedGroup, "0", "MKSTREAM")
	for i, fields := range [][]string{
		{"m", "one"},
		{"b", "a pack", "id", ""},
		{"", ""},
		{"m", strings.Repeat("x", 1024), "mm", "\r\n$3\r\n*1", "m", "\x00\xff"},
		{"m", strings.Repeat("longer than a piece of memory ", 1000)},
		{"m", strings.Repeat("a mebibyte ", 100_000)},
		slices.Repeat([]string{"many", "fields"}, 5000),
		{"m", strings.Repeat("longer than what is read at once ", 4000), "i", "d"},
		{"id", "1-1"},
	} {
		id := codec.EntryID{Ms: 1<<60 + uint64(i), Seq: 1<<64 - 1}
		w.add(id, fields...)
	}
	return w
}

func (f *fed) add(id codec.EntryID, fields ...string) {
	f.text("XADD", append([]string{f.log, id.String()}, fields...)...)
	f.want = append(f.want, codec.Entry{ID: id, Fields: fields})
}

// read reads as a consumer of the group.
func (f *fed) read(p *tier.Page, n int, wait time.Duration) error {
	return f.feed.Read(f.ctx, p, n, wait, ">", "XREADGROUP", "GROUP", fedGroup, "c")
}

// Replies are read in the older protocol over a feed's own connection, and by the client library without it: both are the same.
func TestAFeedReadsWhatTheServerHolds(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := newFed(t, f, f.client)
		var first, rest, again tier.Page
		require.NoError(t, w.read(&first, 3, 0))
		require.NoError(t, w.read(&rest, 100, time.Second))
		require.True(t, w.feed.Connected())
		require.Equal(t, w.want, slices.Concat(first.Entries, rest.Entries))

		var kept []codec.Entry
		for _, e := range rest.Entries {
			kept = append(kept, codec.Entry{ID: e.ID, Fields: slices.Clone(e.Fields)})
		}
		for _, wait := range []time.Duration{0, 2 * time.Millisecond} {
			require.NoError(t, w.read(&rest, 3, wait))
			require.Empty(t, rest.Entries)
		}
		for _, closed := range []bool{false, true} {
			if closed {
				w.feed.Close()
			}
			require.Equal(t, !closed, w.feed.Connected())
			for _, wait := range []time.Duration{0, time.Second} {
				require.NoError(t, w.feed.Read(f.ctx, &rest, 100, wait, w.want[0].ID.String(), "XREAD"))
				require.Equal(t, w.want[1:], rest.Entries)
				require.NoError(t, w.feed.Read(f.ctx, &again, 100, wait, w.want[1].ID.String(), "XREAD"))
				require.Equal(t, w.want[2:], again.Entries)
			}
			require.NoError(t, w.feed.Range(f.ctx, &rest, "-", "+", 100))
			require.Equal(t, w.want, rest.Entries)
			require.NoError(t, w.feed.Range(f.ctx, &rest, w.want[1].ID.String(), w.want[4].ID.String(), 2))
			require.Equal(t, w.want[1:3], rest.Entries)
			require.NoError(t, w.feed.Range(f.ctx, &rest, "0-1", "0-2", 2))
			require.Empty(t, rest.Entries)
		}
		require.Equal(t, w.want[3:], kept, "strings that were given out have changed")
	})
}

// What the server refuses the client asks for once more: it tells what is wrong, and the feed goes on when it is not any more.
func TestAFeedsRefusalIsTheClients(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := newFed(t, f, f.client)
		var p tier.Page
		for range 2 {
			require.ErrorIs(t, w.feed.Read(f.ctx, &p, 1, 0, ">", "XREADGROUP", "GROUP", "none", "c"), tier.ErrNoGroup)
			require.Empty(t, p.Entries)
			require.False(t, w.feed.Connected())
		}
		require.NoError(t, w.read(&p, 100, 0))
		require.Equal(t, w.want, p.Entries)
		require.True(t, w.feed.Connected())
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		require.ErrorIs(t, w.feed.Read(ctx, &p, 1, 0, "0", "XREAD"), tier.ErrCancelled)
		require.Empty(t, p.Entries)
	})
}

func TestAFeedsLostReplyIsOfUnknownOutcome(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			s := tiertest.Shared(t, kind)
			proxy := tiertest.NewProxy(t, s)
			f := setUpThrough(t, s, proxy)
			w := newFed(t, f, f.client)
			proxy.DropNextReply(func(cmd []string) bool { return cmd[0] == "XREADGROUP" })
			var p tier.Page
			err := w.read(&p, 3, 0)
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			require.Equal(t, 1, proxy.Commands()["XREADGROUP"], "what may have been given out is not asked for again")
			require.NoError(t, w.read(&p, 100, 0)) // over another connection
			require.Equal(t, w.want[3:], p.Entries)
			require.True(t, w.feed.Connected())
		})
	}
}

// A read that is under way takes place whatever is closed meanwhile, for what it is given would be nobody's; and others do not wait for it.
func TestAFeedsReadIsNotCutOff(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := newFed(t, f, f.client)
		var p, other tier.Page
		require.NoError(t, w.read(&p, 100, 0))
		done := make(chan error, 1)
		go func() { done <- w.read(&p, 1, soon) }()
		tiertest.Eventually(t, soon, func() (bool, string) { return w.feed.Busy(), "nothing is read" })
		require.NoError(t, w.feed.Read(f.ctx, &other, 100, 0, "0", "XREAD"))
		require.Equal(t, w.want, other.Entries)
		w.feed.Close()
		w.add(codec.EntryID{Ms: 1 << 61}, "m", "late")
		require.NoError(t, <-done)
		require.Equal(t, w.want[len(w.want)-1:], p.Entries)
		require.False(t, w.feed.Connected())
	})
}

// readAhead reads as a consumer of the group that wants so many more.
func (f *fed) readAhead(p *tier.Page, n int, next func() int) (more bool, err error) {
	return f.feed.ReadAhead(f.ctx, p, n, 0, next, ">", "XREADGROUP", "GROUP", fedGroup, "c")
}

// gives waits until so many entries have been given out.
func (f *fed) gives(n int) {
	f.t.Helper()
	tiertest.Eventually(f.t, soon, func() (bool, string) {
		pending, err := f.raw.Do(f.ctx, f.raw.B().Xpending().Key(f.log).Group(fedGroup).Build()).ToArray()
		require.NoError(f.t, err)
		given, err := pending[0].AsInt64()
		require.NoError(f.t, err)
		return int(given) == n, strconv.Itoa(int(given))
	})
}

// What is asked for ahead is given out while the reply before it is read, comes next, and to who reads ahead only.
func TestAFeedReadsAhead(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := newFed(t, f, f.client)
		var p, other tier.Page
		for _, c := range []struct{ ask, next, from, to, given int }{
			{2, 3, 0, 2, 5}, {9, 1, 2, 5, 6}, {9, 0, 5, 6, 6}, {2, 9, 6, 8, 9}, {1, 9, 8, 9, 9},
		} {
			more, err := w.readAhead(&p, c.ask, func() int { return c.next })
			require.NoError(t, err)
			require.Equal(t, w.want[c.from:c.to], p.Entries)
			require.Equal(t, c.next > 0, more)
			w.gives(c.given)
			require.NoError(t, w.feed.Read(f.ctx, &other, 100, 0, "0", "XREAD"))
			require.Equal(t, w.want, other.Entries)
		}
		more, err := w.readAhead(&p, 9, func() int { t.Error("there is nothing to come meanwhile"); return 9 })
		require.NoError(t, err)
		require.False(t, more)
		require.Empty(t, p.Entries)
		require.True(t, w.feed.Connected())
	})
}

// What was asked for ahead and cannot come any more is told of, and the feed goes on after it.
func TestAFeedLosesWhatItAskedFor(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		drop int // replies
		ctx  context.Context
		err  *tier.Class
	}{
		"with its connection": {1, t.Context(), tier.ErrNetwork},
		"with its context":    {0, over, tier.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := tiertest.NewProxy(t, s)
			f := setUpThrough(t, s, proxy)
			w := newFed(t, f, f.client)
			var p tier.Page
			more, err := w.readAhead(&p, 2, func() int {
				proxy.DropReplies(c.drop, func(cmd []string) bool { return cmd[0] == "XREADGROUP" })
				return 3
			})
			require.NoError(t, err)
			require.True(t, more)
			w.gives(5)
			f.ctx = c.ctx
			more, err = w.readAhead(&p, 9, func() int { t.Error("asked"); return 9 })
			require.ErrorIs(t, err, c.err)
			require.False(t, more)
			f.ctx = t.Context()
			more, err = w.readAhead(&p, 9, func() int { return 0 })
			require.NoError(t, err)
			require.False(t, more)
			require.Equal(t, w.want[5:], p.Entries)
		})
	}
}

// A range that was asked for is the one that comes next, from what the server did meanwhile; any other read gives it up, and what becomes of it
// is nobody's trouble.
func TestAFeedAsksForARange(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, s)
	f := setUpThrough(t, s, proxy)
	w := newFed(t, f, f.client)
	asked := func(want int) {
		t.Helper()
		tiertest.Eventually(t, soon, func() (bool, string) {
			n := proxy.Commands()["XRANGE"]
			return n == want, strconv.Itoa(n)
		})
	}
	from := w.want[2].ID.String()
	var p tier.Page
	ranged := func(want error) {
		t.Helper()
		require.ErrorIs(t, w.feed.Range(f.ctx, &p, from, "+", 3), want)
	}
	for name, c := range map[string]struct {
		lost  int // replies to what is asked for
		read  func()
		again int // ranges that are sent for it
		want  []codec.Entry
	}{
		"the same":         {0, func() { ranged(nil) }, 0, w.want[2:5]},
		"asked for twice":  {0, func() { w.feed.AskRange(f.ctx, from, "+", 3); ranged(nil) }, 0, w.want[2:5]},
		"another one":      {0, func() { require.NoError(t, w.feed.Range(f.ctx, &p, "-", "+", 2)) }, 1, w.want[:2]},
		"another read":     {0, func() { require.NoError(t, w.feed.Read(f.ctx, &p, 1, 0, from, "XREAD")) }, 0, w.want[3:4]},
		"its reply lost":   {1, func() { ranged(tier.ErrNetwork); ranged(nil) }, 1, w.want[2:5]},
		"of a closed feed": {0, func() { w.feed.Close(); ranged(nil); w.feed = w.client.Feed(w.log) }, 1, w.want[2:5]},
	} {
		t.Run(name, func(t *testing.T) {
			before := proxy.Commands()["XRANGE"]
			proxy.DropReplies(c.lost, func(cmd []string) bool { return cmd[0] == "XRANGE" })
			w.feed.AskRange(f.ctx, from, "+", 3)
			asked(before + 1)
			c.read()
			require.Equal(t, c.want, p.Entries)
			asked(before + 1 + c.again)
			require.NoError(t, w.feed.Range(f.ctx, &p, "-", "+", 100))
			require.Equal(t, w.want, p.Entries)
			require.True(t, w.feed.Connected())
		})
	}
	w.feed.Close()
}

// What gives nothing to anybody ends with its context, whatever the server does.
func TestAFeedIsCutOff(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	for name, read := range map[string]func(ctx context.Context, w *fed, p *tier.Page) error{
		"range": func(ctx context.Context, w *fed, p *tier.Page) error { return w.feed.Range(ctx, p, "-", "+", 100) },
		"read": func(ctx context.Context, w *fed, p *tier.Page) error {
			return w.feed.Read(ctx, p, 100, time.Hour, "0", "XREAD")
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := tiertest.NewProxy(t, s)
			f := setUpThrough(t, s, proxy)
			w := newFed(t, f, f.client)
			var p tier.Page
			require.NoError(t, read(f.ctx, w, &p))
			proxy.Freeze()
			ctx, cancel := context.WithCancel(f.ctx)
			done := make(chan error, 1)
			go func() { done <- read(ctx, w, &p) }()
			tiertest.Eventually(t, soon, func() (bool, string) { return w.feed.Busy(), "nothing is read" })
			cancel()
			require.ErrorIs(t, <-done, tier.ErrCancelled)
			proxy.Thaw()
			require.NoError(t, read(f.ctx, w, &p))
			require.Equal(t, w.want, p.Entries)
		})
	}
}

func TestAPageRefusesWhatIsNoReply(t *testing.T) {
	good := "*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nm\r\n$1\r\nv\r\n"
	entries, err := tier.ReadPage(good)
	require.NoError(t, err)
	require.Equal(t, []codec.Entry{{ID: codec.EntryID{Ms: 1, Seq: 2}, Fields: []string{"m", "v"}}}, entries)
	for i := range good {
		_, err := tier.ReadPage(good[:i])
		require.Error(t, err, "%q", good[:i])
	}
	for _, none := range []string{"*-1\r\n", "*0\r\n", "*1\r\n*2\r\n$1\r\nk\r\n*0\r\n"} {
		entries, err := tier.ReadPage(none)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	trimmed, err := tier.ReadPage(strings.Replace(good, "*2\r\n$1\r\nm\r\n$1\r\nv\r\n", "*-1\r\n", 1))
	require.NoError(t, err)
	require.Len(t, trimmed, 1)
	require.Empty(t, trimmed[0].Fields)
	for _, c := range [][2]string{
		{"*1\r\n*2\r\n$1", "*2\r\n*2\r\n$1"},
		{"*2\r\n$1\r\nk", "*3\r\n$1\r\nk"},
		{"$1\r\nk", "$536870913\r\nk"},
		{"$1\r\nk", "$-1\r\nk"},
		{"$3\r\n1-2", "$3\r\n1-x"},
		{"$3\r\n1-2", "$42\r\n1-2"},
		{"$3\r\n1-2", ":12"},
		{"$1\r\nv", "$1x\r\nv"},
		{"*1\r\n*2\r\n$3", "*99999999999\r\n*2\r\n$3"},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		require.NotEqual(t, good, bad)
		_, err := tier.ReadPage(bad)
		require.Error(t, err, "%q", bad)
	}
}

func FuzzPage(f *testing.F) {
	f.Add("*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nm\r\n$1\r\nv\r\n")
	f.Add("-MOVED 1 h:1\r\n")
	f.Add("*-1\r\n")
	f.Add("*1\r\n*2\r\n$1\r\nk\r\n*-10\r\n")
	f.Fuzz(func(t *testing.T, reply string) {
		entries, err := tier.ReadPage(reply)
		if err != nil {
			return
		}
		size := 0
		for _, e := range entries {
			for _, field := range e.Fields {
				size += len(field)
			}
		}
		require.LessOrEqual(t, size, len(reply))
	})
}
