package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// line is what a dumb list knows of a message, or of a foreign entry.
type line struct {
	addr codec.EntryID
	id   codec.ID // zero: foreign
	key  string
}

func lineOf(r codec.Record) line {
	if r.Foreign() || r.Err != nil {
		return line{r.Addr, r.ID, fmt.Sprint(r.Fields)}
	}
	return line{r.Addr, r.ID, r.Key}
}

func lines(t testing.TB, records iter.Seq2[codec.Record, error]) []line {
	t.Helper()
	var out []line
	for r, err := range records {
		require.NoError(t, err)
		out = append(out, lineOf(r))
	}
	return out
}

// sized makes tests of what is read smaller on clusters, whose one node reads as its single twin does.
func sized(s *tiertest.Server, calls int) int {
	if s.Kind.Cluster() {
		return calls / 4
	}
	return calls
}

// anyLog fills the stream with what a log can hold: plain entries and packs of many sizes, foreign and undecodable
// entries; with gaps in time. It returns what is in it.
func anyLog(f *fixture, calls int) []line {
	f.t.Helper()
	rnd := rand.New(rand.NewPCG(1, uint64(calls)))
	packs := []int{1, 3, 50, 4096}
	writers := make([]*stream.Writer, len(packs))
	for i, pack := range packs {
		writers[i] = f.writer(stream.WriterConfig{Pack: pack})
	}
	identity, err := writers[0].Declare(f.ctx)
	require.NoError(f.t, err)
	var list []line
	for i := range calls {
		switch what := rnd.IntN(10); {
		case what == 0:
			id := f.text("XADD", f.log(), "*", "payload", fmt.Sprint(i))
			list = append(list, line{entryID(f.t, id), codec.ID{}, fmt.Sprintf("[payload %d]", i)})
		case what == 1:
			addr := entryID(f.t, f.text("XADD", f.log(), "*", "m", "\xc1"))
			id, _ := codec.ServerID(identity.Brand, identity.Node, addr)
			list = append(list, line{addr, id, "[m \xc1]"})
		default:
			ms := make([]codec.Message, 1+rnd.IntN(120))
			for k := range ms {
				ms[k].Key = fmt.Sprint(i, ".", k)
			}
			ids, err := writers[rnd.IntN(len(writers))].AppendBatch(f.ctx, ms)
			require.NoError(f.t, err)
			for k, id := range ids {
				list = append(list, line{id.ServerEntry(), id, ms[k].Key})
			}
		}
	}
	return list
}

func entryID(t testing.TB, s string) codec.EntryID {
	t.Helper()
	id, err := codec.ParseEntryID(s)
	require.NoError(t, err)
	return id
}

// between is what a range has to yield.
func between(list []line, from, to codec.EntryID) []line {
	var out []line
	for _, l := range list {
		if l.addr.Compare(from) >= 0 && l.addr.Compare(to) <= 0 {
			out = append(out, l)
		}
	}
	return out
}

// TestRangeModel: a range over packs, foreign and undecodable entries, between any two addresses, yields what a dumb
// list has between them (B84, B85).
func TestRangeModel(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		list := anyLog(f, sized(s, 60))
		r := f.reader()
		require.Equal(t, list, lines(t, r.Range(f.ctx, codec.EntryID{}, codec.MaxEntryID)))
		rapid.Check(t, func(t *rapid.T) {
			addr := rapid.Custom(func(t *rapid.T) codec.EntryID {
				a := rapid.SampledFrom(list).Draw(t, "message").addr
				switch rapid.IntRange(0, 5).Draw(t, "which") {
				case 0:
					return a.Prev()
				case 1:
					return a.Next()
				case 2:
					return codec.FloorEntry(a.Time())
				case 3:
					return codec.CeilEntry(a.Time())
				case 4:
					return rapid.SampledFrom([]codec.EntryID{{}, codec.MaxEntryID, {Ms: 1}, {Ms: a.Ms + 3_600_000}}).Draw(t, "end")
				}
				return a
			})
			from, to := addr.Draw(t, "from"), addr.Draw(t, "to")
			var got []line
			for record, err := range r.Range(f.ctx, from, to) {
				require.NoError(t, err)
				got = append(got, lineOf(record))
			}
			require.Equal(t, between(list, from, to), got)
		})
	})
}

// TestReadsByIDAndTime over the same log: each message by its id, windows of time with both edges, the newest n.
func TestReadsByIDAndTime(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		list := anyLog(f, sized(s, 40))
		r := f.reader()
		for _, l := range list {
			if l.id.IsZero() {
				continue
			}
			got, err := r.Get(f.ctx, l.id)
			require.NoError(t, err)
			require.Equal(t, l, lineOf(got))
		}
		for _, n := range []int{0, 1, 2, 49, 50, 51, 120, len(list) - 1, len(list), len(list) + 1000} {
			got, err := r.Last(f.ctx, n)
			require.NoError(t, err)
			want := list[max(0, len(list)-n):]
			require.Len(t, got, len(want))
			for i := range got {
				require.Equal(t, want[i], lineOf(got[i]))
			}
		}
		for _, i := range []int{0, 1, len(list) / 2, len(list) - 1} {
			at := list[i].addr.Time()
			for _, d := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
				t0 := at.Add(d)
				require.Equal(t, between(list, codec.FloorEntry(t0), codec.MaxEntryID), lines(t, r.Since(f.ctx, t0)))
				require.Equal(t, between(list, codec.FloorEntry(t0), codec.CeilEntry(at)), lines(t, r.Window(f.ctx, t0, at)))
				require.Equal(t, between(list, codec.EntryID{}, codec.CeilEntry(t0)), lines(t, r.Window(f.ctx, time.Time{}, t0)))
			}
		}
	})
}

// TestGetWhatIsNot: an id that nobody has, of another stream, and of one that is gone, are told apart.
func TestGetWhatIsNot(t *testing.T) {
	for _, pack := range []int{1, 5} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				r := f.reader()
				_, err := r.Get(f.ctx, codec.ID{})
				require.ErrorIs(t, err, stream.ErrNoStream)
				w := f.writer(stream.WriterConfig{Brand: "ORD", Pack: pack})
				ids := f.append(w, 50)
				f.do("XADD", f.log(), "*", "end", "")
				id := func(b codec.Brand, node int, e codec.EntryID) codec.ID {
					id, ok := codec.ServerID(b, node, e)
					require.True(t, ok)
					return id
				}
				first, last, node := ids[0].ServerEntry(), ids[49].ServerEntry(), ids[0].Node()
				absent := map[string]codec.ID{
					"zero":          {},
					"another brand": id("XYZ", node, first),
					"another node":  id("ORD", (node+1)%512, first),
					"before":        id("ORD", node, codec.EntryID{Ms: first.Ms - 1000}),
					"after":         id("ORD", node, codec.EntryID{Ms: first.Ms + 3_600_000}),
					// a log begins at any sequence, so no number is free for certain
					"another number": id("ORD", node, codec.EntryID{Ms: last.Ms, Seq: (last.Seq + 100) % (codec.MaxSeq + 1)}),
				}
				for name, id := range absent {
					_, err := r.Get(f.ctx, id)
					require.ErrorIs(t, err, stream.ErrNotFound, name)
				}
				f.do("XTRIM", f.log(), "MINID", ids[25].ServerEntry().String())
				for i, id := range ids {
					got, err := r.Get(f.ctx, id)
					if i < 25/pack*pack { // a pack goes when its last message does
						var trimmed *stream.TrimmedError
						require.ErrorAs(t, err, &trimmed, "message %d", i)
						require.Equal(t, ids[25/pack*pack].ServerEntry(), trimmed.First)
						continue
					}
					require.NoError(t, err, "message %d", i)
					require.Equal(t, id, got.ID)
				}
			})
		})
	}
}

// TestRangeFromInsideTheFirstPack: the pack that is the first after a trim is readable from each of its messages.
func TestRangeFromInsideTheFirstPack(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.append(f.writer(stream.WriterConfig{Pack: 10}), 30)
		f.do("XTRIM", f.log(), "MAXLEN", "1")
		for i := 20; i < 30; i++ {
			var got []codec.ID
			for r, err := range f.reader().Range(f.ctx, ids[i].ServerEntry(), codec.MaxEntryID) {
				require.NoError(t, err)
				got = append(got, r.ID)
			}
			require.Equal(t, ids[i:], got)
		}
		for _, from := range []int{0, 9, 19} {
			require.ErrorIs(t, endOf(f.reader().Range(f.ctx, ids[from].ServerEntry(), codec.MaxEntryID)), stream.ErrTrimmed)
		}
	})
}

// endOf is the error that ends a read, nil if none does.
func endOf(records iter.Seq2[codec.Record, error]) error {
	for _, err := range records {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestTrimUnderAReader: rounds of appending and trimming, while a reader goes on page by page. It yields every message
// from where it began, in order, until it is at the end or says that the next one is gone; and it says so only then.
func TestTrimUnderAReader(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Shared(t, kind))
			n := 0
			rapid.Check(t, func(t *rapid.T) {
				n++
				f.address = fmt.Sprintf("%s/orders%d", f.addr().Scope, n)
				defer f.do("DEL", f.log())
				defer f.do("DEL", tier.ScopeKey(f.addr().Scope)) // and its brand
				trimUnderAReader(f, t)
			})
		})
	}
}

func trimUnderAReader(f *fixture, t *rapid.T) {
	pack := rapid.SampledFrom([]int{1, 3}).Draw(t, "pack")
	w := f.writer(stream.WriterConfig{Pack: pack})
	var all []codec.ID        // ever appended
	alive := map[string]int{} // entry id -> its first message
	big := bytes.Repeat([]byte{'x'}, 60_000)
	add := func(n int) {
		ms := make([]codec.Message, n*pack)
		for i := range ms {
			ms[i].Data = big[:len(big)/pack]
		}
		ids, err := w.AppendBatch(f.ctx, ms)
		require.NoError(t, err)
		for i := 0; i < len(ids); i += pack {
			alive[ids[i+pack-1].ServerEntry().String()] = len(all) + i
		}
		all = append(all, ids...)
	}
	first := func() int { // the first message that is alive
		m := f.do("XRANGE", f.log(), "-", "+", "COUNT", "1")
		rows, err := m.ToArray()
		require.NoError(t, err)
		if len(rows) == 0 {
			return len(all)
		}
		pair, err := rows[0].ToArray()
		require.NoError(t, err)
		id, err := pair[0].ToString()
		require.NoError(t, err)
		return alive[id]
	}
	add(rapid.IntRange(1, 40).Draw(t, "at first"))
	next := 0
	from := codec.EntryID{}
	if rapid.Bool().Draw(t, "from a message") {
		next = rapid.IntRange(0, len(all)-1).Draw(t, "from")
		from = all[next].ServerEntry()
	}
	pull, stop := iter.Pull2(f.reader().Range(f.ctx, from, codec.MaxEntryID))
	defer stop()
	begun, start := false, next
	var known []int // how many messages there were when each was yielded
	for range 200 {
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			add(rapid.IntRange(1, 10).Draw(t, "entries"))
			continue
		case 1:
			keep := rapid.IntRange(0, len(alive)).Draw(t, "keep")
			f.do("XTRIM", f.log(), "MAXLEN", fmt.Sprint(keep))
			continue
		case 2: // exactly what was read, as retention by a checkpoint does
			if next > 0 {
				f.do("XTRIM", f.log(), "MINID", all[next-1].ServerEntry().Next().String())
			}
			continue
		}
		if !begun && from.IsZero() {
			next = first()
			start = next
		}
		for range rapid.IntRange(1, 30).Draw(t, "messages") {
			record, err, ok := pull()
			if !ok { // what came while the last page was yielded may be missing: at most 18 entries ago
				last := max(0, next-start-18*pack)
				if last < len(known) {
					require.GreaterOrEqual(t, next, known[last], "silently short")
				}
				return
			}
			if err != nil {
				require.ErrorIs(t, err, stream.ErrTrimmed)
				require.Less(t, next, first(), "the next message is there")
				return
			}
			begun = true
			require.Equal(t, all[next], record.ID)
			known = append(known, len(all))
			next++
		}
	}
}

// TestTail: what was there and what is appended comes, once and in order, through trims of what was read, and through a
// restart of the server.
func TestTail(t *testing.T) {
	for _, pack := range []int{1, 4} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
				t.Run(string(kind), func(t *testing.T) {
					t.Parallel()
					f := setUp(t, tiertest.Private(t, kind, "--appendonly", "yes", "--appendfsync", "always"))
					tail := follow(f, codec.EntryID{}) // before there is a stream
					w := f.writer(stream.WriterConfig{Pack: pack})
					want := f.append(w, 2000)
					tail.has(want)
					inside := follow(f, want[1001].ServerEntry())
					inside.has(want[1001:])
					future := follow(f, codec.EntryID{Ms: want[1999].ServerEntry().Ms + 1})
					all := func() {
						tail.has(want)
						inside.has(want[1001:])
						future.has(want[2000:])
					}
					for range 3 { // all of what was read goes, or some of it
						f.do("XTRIM", f.log(), "MAXLEN", "0")
						tail.idles()
						want = append(want, f.append(w, 30)...)
						all()
						f.do("XTRIM", f.log(), "MAXLEN", "2")
						want = append(want, f.append(w, 3)...)
						all()
					}
					require.NoError(t, f.server.Restart(f.ctx))
					want = append(want, f.append(w, 100)...)
					all()
				})
			}
		})
	}
}

// following is a Tail on a goroutine of its own.
type following struct {
	f    *fixture
	ids  chan codec.ID
	seen []codec.ID
	stop context.CancelFunc
	err  error // after ids was closed
}

func follow(f *fixture, from codec.EntryID) *following {
	ctx, cancel := context.WithCancel(f.ctx)
	fl := &following{f: f, ids: make(chan codec.ID, 100_000), stop: cancel}
	r := f.reader()
	go func() {
		defer close(fl.ids)
		for record, err := range r.Tail(ctx, from) {
			if err != nil {
				fl.err = err
				return
			}
			fl.ids <- record.ID
		}
	}()
	f.t.Cleanup(func() {
		cancel()
		for range fl.ids { // until it has ended
		}
		require.NoError(f.t, fl.err)
	})
	return fl
}

// has waits until the tail has yielded exactly these.
func (fl *following) has(want []codec.ID) {
	fl.f.t.Helper()
	for len(fl.seen) < len(want) {
		select {
		case id, ok := <-fl.ids:
			if !ok {
				fl.f.t.Fatalf("the tail ended: %v", fl.err)
			}
			fl.seen = append(fl.seen, id)
		case <-time.After(soon):
			fl.f.t.Fatalf("%d of %d", len(fl.seen), len(want))
		}
	}
	requireSame(fl.f.t, want, fl.seen)
	require.Empty(fl.f.t, fl.ids)
}

// idles waits until the tail's reads have seen the log as it is.
func (fl *following) idles() {
	fl.f.t.Helper()
	began := time.Now()
	tiertest.Eventually(fl.f.t, soon, func() (bool, string) { return time.Since(began) > 50*time.Millisecond, "" })
}

// TestTailKeepsItsFirstPage: what was read is not passed over when the question after it, how to decode it, fails.
func TestTailKeepsItsFirstPage(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	want := f.append(f.writer(stream.WriterConfig{}), 100)
	proxy.DropReplies(2, func(cmd []string) bool { return cmd[0] == "HMGET" })
	follow(f, codec.EntryID{}).has(want)
	require.Equal(t, 2, proxy.Dropped())
}

// TestTailEnds: a tail ends with its context, and with ErrTrimmed when what it has not read is gone.
func TestTailEnds(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		ids := f.append(w, 10)
		n := 0
		for record, err := range f.reader().Tail(f.ctx, codec.EntryID{}) {
			if n < 10 {
				require.NoError(t, err)
				require.Equal(t, ids[n], record.ID)
			}
			if n == 9 { // while the tail is not reading: two more come, the first of them goes
				f.append(w, 1)
				f.do("XTRIM", f.log(), "MAXLEN", "0")
				f.append(w, 1)
			}
			if n == 10 {
				var trimmed *stream.TrimmedError
				require.ErrorAs(t, err, &trimmed)
				require.False(t, trimmed.First.IsZero())
			}
			n++
		}
		require.Equal(t, 11, n)

		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		began := time.Now()
		for _, err := range f.reader().Tail(ctx, codec.EntryID{}) {
			require.NoError(t, err)
			cancel()
		}
		require.Less(t, time.Since(began), soon/2)
		require.NoError(t, endOf(f.reader().Tail(ctx, codec.EntryID{})))
		require.ErrorIs(t, endOf(f.reader().Tail(f.ctx, ids[0].ServerEntry())), stream.ErrTrimmed)
	})
}

// TestTailSaysWhy: a tail that is behind ends, and says whether the stream was trimmed or emptied, removed, or is another
// one than before.
func TestTailSaysWhy(t *testing.T) {
	type scene struct {
		*fixture
		w *stream.Writer
	}
	purge := func(s *scene) {
		_, err := stream.Purge(s.ctx, s.client, s.address)
		require.NoError(t, err)
	}
	remove := func(s *scene) {
		_, err := stream.Remove(s.ctx, s.client, s.address)
		require.NoError(t, err)
		s.w = s.writer(stream.WriterConfig{})
	}
	lose := func(s *scene) { s.do("DEL", s.log()); s.do("DEL", tier.ScopeKey(s.addr().Scope)) }
	again := func(s *scene) { s.append(s.w, 50) }
	then := func(steps ...func(*scene)) []func(*scene) { return steps }
	for _, tt := range []struct {
		name    string
		do      []func(*scene)
		removed bool
		lost    bool
		text    string
	}{
		{"trimmed", then(func(s *scene) { s.do("XTRIM", s.log(), "MAXLEN", "3") }), false, false, "has been trimmed; it begins at"},
		{"emptied", then(purge), false, false, "the stream was emptied (reset)"},
		{"emptied, then more", then(purge, again), false, false, "after a trim or a reset of the stream: read on from there"},
		{"removed", then(remove), true, false, "the stream was removed: a writer"},
		{"removed and made again", then(remove, again), true, true, "the stream was removed and made again, or the server lost it"},
		{"lost", then(lose), false, true, "the server lost it"},
		{"lost, then more", then(lose, again), true, true, "the stream was removed and made again, or the server lost it"},
	} {
		for behind, at := range map[string]int{"a page": 1, "none but the last look": 50} {
			t.Run(tt.name+", behind "+behind, func(t *testing.T) {
				t.Parallel()
				s := &scene{fixture: setUp(t, tiertest.Shared(t, tiertest.Valkey))}
				s.w = s.writer(stream.WriterConfig{Brand: "ORD"})
				s.append(s.w, 50)
				n, last := 0, error(nil)
				for _, err := range s.reader().Tail(s.ctx, codec.EntryID{}) {
					if n, last = n+1, err; n == at && err == nil {
						if at == 50 {
							s.append(s.w, 50) // it has read all before these
						}
						for _, step := range tt.do {
							step(s)
						}
					}
				}
				require.ErrorContains(t, last, tt.text)
				require.Equal(t, tt.removed, errors.Is(last, stream.ErrStreamRemoved))
				var trimmed *stream.TrimmedError
				if errors.As(last, &trimmed) {
					require.Equal(t, tt.lost, trimmed.Lost)
					require.Equal(t, len(tt.do) == 1 && tt.name != "trimmed", trimmed.First.IsZero())
				} else {
					require.Equal(t, "removed", tt.name)
				}
			})
		}
	}
}

// TestTailOfAnotherLog: a log that was deleted while its top was ahead of the clock, and began anew below, is not waited
// for in silence.
func TestTailOfAnotherLog(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		w := f.writer(stream.WriterConfig{})
		f.append(w, 1)
		f.do("XSETID", f.log(), codec.FloorEntry(f.now().Add(time.Hour)).String())
		f.append(w, 3)
		n := 0
		var last error
		for _, err := range f.reader().Tail(f.ctx, codec.EntryID{}) {
			if n, last = n+1, err; n == 4 {
				f.do("DEL", f.log())
				f.append(w, 2)
			}
		}
		require.Equal(t, 5, n)
		require.ErrorIs(t, last, stream.ErrTrimmed)
	})
}

// TestReaderErrors: what cannot be read is said.
func TestReaderErrors(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		r := f.reader()
		require.ErrorIs(t, endOf(r.Range(f.ctx, codec.EntryID{}, codec.MaxEntryID)), stream.ErrNoStream)
		_, err := r.Last(f.ctx, 1)
		require.ErrorIs(t, err, stream.ErrNoStream)
		_, err = r.Identity(f.ctx)
		require.ErrorIs(t, err, stream.ErrNoStream)
		_, err = f.writer(stream.WriterConfig{}).Declare(f.ctx)
		require.NoError(t, err)
		require.Empty(t, f.all()) // declared, and empty: not the same as absent

		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		require.ErrorIs(t, endOf(r.Range(ctx, codec.EntryID{}, codec.MaxEntryID)), context.Canceled)

		f.do("SET", f.log(), "x")
		for name, err := range map[string]error{
			"Range": endOf(r.Range(f.ctx, codec.EntryID{}, codec.MaxEntryID)),
			"Since": endOf(r.Since(f.ctx, time.Now())),
			"Tail":  endOf(r.Tail(f.ctx, codec.EntryID{})),
		} {
			require.ErrorIs(t, err, tier.ErrWrongType, name)
			require.ErrorContains(t, err, f.log(), name)
		}
		f.do("DEL", f.log())
	})
}

// TestReadWhileTheStreamIsMade: the first writer declares and appends between the steps of a read; its messages are no
// foreign entries.
func TestReadWhileTheStreamIsMade(t *testing.T) {
	reads := map[string]func(f *fixture) ([]codec.Record, error){
		"Range": func(f *fixture) (all []codec.Record, err error) {
			for r, err := range f.reader().Range(f.ctx, codec.EntryID{}, codec.MaxEntryID) {
				if err != nil {
					return nil, err
				}
				all = append(all, r)
			}
			return all, nil
		},
		"Last": func(f *fixture) ([]codec.Record, error) { return f.reader().Last(f.ctx, 10) },
	}
	for name, read := range reads {
		for _, step := range []string{"HMGET", "EXISTS", "XRANGE", "XREVRANGE"} {
			t.Run(name+" at "+step, func(t *testing.T) {
				t.Parallel()
				f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
				if step != "EXISTS" { // there is something to read, of another program
					f.do("XADD", f.log(), "1-1", "a", "b")
				}
				w, err := stream.NewWriter(tiertest.Dial(t, f.server), stream.WriterConfig{Address: f.address})
				require.NoError(t, err)
				var once sync.Once
				proxy.DropRequests(1, func(cmd []string) bool {
					if cmd[0] == step {
						once.Do(func() { f.append(w, 3) })
					}
					return false
				})
				got, err := read(f)
				require.NoError(t, err)
				for _, r := range got {
					require.Equal(t, r.Addr == entryID(t, "1-1"), r.Foreign(), "%v", r)
				}
			})
		}
	}
}

// TestRawLog: a log that another program fills is readable; its entries are foreign.
func TestRawLog(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.do("XADD", f.log(), "1-1", "a", "b", "a", "c")
		f.do("XADD", f.log(), "1-2", "m", encoded(t, "k"))
		got := f.all()
		require.Len(t, got, 2)
		for _, r := range got {
			require.True(t, r.Foreign())
		}
		require.Equal(t, []string{"a", "b", "a", "c"}, got[0].Fields)
		last, err := f.reader().Last(f.ctx, 1)
		require.NoError(t, err)
		require.Equal(t, entryID(t, "1-2"), last[0].Addr)
	})
}

// TestManyTails (B48, B49): twenty loops that wait on the server hold up nobody who appends with the same client, and
// keep their connections.
func TestManyTails(t *testing.T) {
	const tails = 20
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{})
	f.append(w, 1)
	ctx, cancel := context.WithCancel(f.ctx)
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	seen := make(chan struct{}, 10*tails)
	for range tails {
		running.Go(func() {
			for _, err := range f.reader().Tail(ctx, codec.EntryID{}) {
				if err != nil {
					t.Error(err)
					return
				}
				seen <- struct{}{}
			}
		})
	}
	all := func() {
		for range tails {
			select {
			case <-seen:
			case <-time.After(soon):
				t.Fatal("a tail has stopped")
			}
		}
	}
	all()
	f.append(w, 1)
	all()
	for range 5 {
		f.append(w, 1)
		all()
		require.LessOrEqual(t, proxy.Connections(), tails+5, "one for each that waits, however often")
	}
}
