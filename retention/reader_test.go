package retention_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// shelf is an archive in memory, that a test moves entries to.
type shelf struct {
	mu      sync.Mutex
	records []codec.Record
	gone    codec.EntryID
	listed  func() // called when somebody has asked for the segments
}

func (a *shelf) Segments(context.Context) (archive.Segments, error) {
	if a.listed != nil {
		defer a.listed()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := archive.Segments{Gone: a.gone}
	if n := len(a.records); n > 0 {
		s.List = []archive.Segment{{Contents: archive.Contents{First: a.records[0].Position.Entry, Last: a.records[n-1].Position.Entry}}}
	}
	return s, nil
}

func (a *shelf) Range(_ context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	a.mu.Lock()
	records, gone := slices.Clip(a.records), a.gone
	a.mu.Unlock()
	return func(yield func(codec.Record, error) bool) {
		if !from.IsZero() && from.Compare(gone) <= 0 {
			yield(codec.Record{}, &stream.TrimmedError{First: records[0].Addr})
			return
		}
		for _, r := range records {
			if r.Addr.Compare(from) >= 0 && r.Addr.Compare(to) <= 0 && !yield(r, nil) {
				return
			}
		}
	}
}

// moves archives what lies between the last entry that the shelf has and an entry, marks it, and trims it.
func (s *stage) moves(a *shelf, name string, upTo codec.EntryID) {
	s.t.Helper()
	live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.address(name)})
	require.NoError(s.t, err)
	segments, _ := a.Segments(s.ctx)
	if upTo.Compare(segments.Last()) <= 0 {
		return // a mark does not go back
	}
	var records []codec.Record
	for r, err := range live.Range(s.ctx, segments.Last().Next(), upTo) {
		if errors.Is(err, stream.ErrTrimmed) { // there is nothing up to there
			return
		}
		require.NoError(s.t, err)
		records = append(records, r)
	}
	a.mu.Lock()
	a.records = append(a.records, records...)
	a.mu.Unlock()
	addr, err := tier.ParseAddress(s.address(name))
	require.NoError(s.t, err)
	s.do("HSET", addr.RetentionKey(), tier.MarkField, upTo.String())
	s.do("XTRIM", addr.LogKey(), "MINID", upTo.Next().String())
}

func (s *stage) reader(name string, cfg retention.ReaderConfig) *retention.Reader {
	s.t.Helper()
	cfg.Address = s.address(name)
	r, err := retention.NewReader(s.client, cfg)
	require.NoError(s.t, err)
	return r
}

// collected are the records of a range.
func (s *stage) collected(records iter.Seq2[codec.Record, error]) (list []codec.Record) {
	s.t.Helper()
	for r, err := range records {
		require.NoError(s.t, err)
		list = append(list, r)
	}
	return list
}

func between(records []codec.Record, from, to codec.EntryID) (list []codec.Record) {
	for _, r := range records {
		if r.Addr.Compare(from) >= 0 && r.Addr.Compare(to) <= 0 {
			list = append(list, r)
		}
	}
	return list
}

// same compares records, and says of the first that differs only where it stands.
func same(t testing.TB, want, got []codec.Record) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "at %d", i)
	}
	require.Equal(t, len(want), len(got))
}

// TestOneReader: of a stream with packs and foreign entries, of which a part is archived, any range is the filter over all.
func TestOneReader(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		addr, err := tier.ParseAddress(s.address("orders"))
		require.NoError(t, err)
		for i := range 12 {
			w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: addr.String(), Pack: 1 + i%3*9})
			require.NoError(t, err)
			_, err = w.AppendBatch(s.ctx, keyed(20, i))
			require.NoError(t, err)
			s.do("XADD", addr.LogKey(), "*", "foreign", strconv.Itoa(i))
		}
		live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: addr.String()})
		require.NoError(t, err)
		all := s.collected(live.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID))
		require.Len(t, all, 252)
		a := &shelf{}
		r := s.reader("orders", retention.ReaderConfig{Archive: a})
		for i, n := range []int{0, 50, 51, 130, 251} {
			if i > 0 {
				s.moves(a, "orders", all[n].Position.Entry)
			}
			same(t, all, s.collected(r.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID)))
			for range 40 {
				from, to := all[rand.N(len(all))].Addr, all[rand.N(len(all))].Addr
				same(t, between(all, from, to), s.collected(r.Range(s.ctx, from, to)))
			}
			t0 := all[rand.N(len(all))].Addr.Time()
			require.Equal(t, between(all, codec.FloorEntry(t0), codec.MaxEntryID), s.collected(r.Since(s.ctx, t0)))
			require.Equal(t, between(all, codec.FloorEntry(t0), codec.CeilEntry(t0)), s.collected(r.Window(s.ctx, t0, t0)))
			m := all[0]
			got, err := r.Get(s.ctx, m.ID)
			require.NoError(t, err)
			require.Equal(t, m, got)
			var of []codec.Record
			for _, r := range all {
				if r.Key == "k1" {
					of = append(of, r)
				}
			}
			require.Equal(t, of, s.collected(r.ByKey(s.ctx, "k1", codec.EntryID{}, codec.MaxEntryID)))
			newest, err := r.Newest(s.ctx)
			require.NoError(t, err)
			require.Equal(t, all[251].Addr, newest)
		}
	})
}

func keyed(n, round int) []codec.Message {
	ms := make([]codec.Message, n)
	for i := range ms {
		ms[i] = codec.Message{Type: "t", Key: fmt.Sprint("k", i%4), Data: []byte(fmt.Sprint(round, "-", i))}
	}
	return ms
}

// TestBorderMovesMeanwhile (B157): what is archived and trimmed between two steps of a reader is neither left out nor read twice.
func TestBorderMovesMeanwhile(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append("orders", 100, 10)
		live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.address("orders")})
		require.NoError(t, err)
		all := s.collected(live.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID))
		a := &shelf{}
		r := s.reader("orders", retention.ReaderConfig{Archive: a})
		s.moves(a, "orders", all[9].Addr)
		next, listed := 30, 0
		a.listed = func() {
			a.listed, listed = nil, listed+1
			if next += 10; next < 80 {
				s.moves(a, "orders", all[next].Addr)
			}
		}
		again := a.listed
		n := 0
		for record, err := range r.Range(s.ctx, all[0].Addr, codec.MaxEntryID) {
			require.NoError(t, err)
			require.Equal(t, all[n], record)
			if n++; n%7 == 0 {
				a.listed = again
			}
		}
		require.Equal(t, 100, n)
		require.GreaterOrEqual(t, listed, 3)
	})
}

// TestBorderMoves (B157): while entries are appended, archived and trimmed, whoever reads from anywhere, or follows, gets each message
// once, in order, with none left out.
func TestBorderMoves(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	s.append("orders", 100, 10)
	a := &shelf{}
	r := s.reader("orders", retention.ReaderConfig{Archive: a})
	live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.address("orders")})
	require.NoError(t, err)
	all := s.collected(live.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID))
	var mu sync.Mutex
	known := func() []codec.Record {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clip(all)
	}
	end := time.NewTimer(3 * time.Second)
	done := make(chan struct{})
	var work, mover sync.WaitGroup
	mover.Go(func() { // appends, archives, trims
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-end.C:
				return
			default:
			}
			pack := 1 + i%2*30
			w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.address("orders"), Pack: pack})
			require.NoError(t, err)
			_, err = w.AppendBatch(s.ctx, keyed(60, i))
			require.NoError(t, err)
			more := s.collected(live.Range(s.ctx, all[len(all)-1].Addr.Next(), codec.MaxEntryID))
			mu.Lock()
			all = append(all, more...)
			mu.Unlock()
			s.moves(a, "orders", all[len(all)-61-rand.N(90)].Position.Entry) // the log keeps the last batch
		}
	})
	windows := 0
	for range 3 {
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					mu.Lock()
					windows += n
					mu.Unlock()
					return
				default:
				}
				list := known()
				i := rand.N(len(list))
				from, to := list[i].Addr, list[i+rand.N(len(list)-i)].Addr
				if n%10 == 0 {
					from = codec.EntryID{}
				}
				got := s.collected(r.Range(s.ctx, from, to))
				same(t, between(list, from, to), got)
			}
		})
	}
	following, stop := context.WithCancel(s.ctx)
	var followed []codec.Record
	var tail sync.WaitGroup
	tail.Go(func() {
		for record, err := range r.Tail(following, codec.EntryID{}) {
			require.NoError(t, err)
			mu.Lock()
			followed = append(followed, record)
			mu.Unlock()
		}
	})
	work.Wait()
	mover.Wait()
	tiertest.Eventually(t, soon, func() (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		return len(followed) >= len(all), fmt.Sprint(len(followed), " of ", len(all))
	})
	stop()
	tail.Wait()
	same(t, all, followed)
	require.Greater(t, windows, 100)
	t.Log(windows, "windows over", len(all), "messages, of which the archive has", len(a.records))
}

// TestGaps (B158): what neither the log nor the archive has is said to be missing, with what is there, or is skipped, as it was
// asked for.
func TestGaps(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append("orders", 100, 10)
		live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.address("orders")})
		require.NoError(t, err)
		all := s.collected(live.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID))
		a := &shelf{}
		s.moves(a, "orders", all[39].Addr)
		policy := stream.Retention{HardCap: 30}
		s.declare("orders", policy)
		addr, err := tier.ParseAddress(s.address("orders"))
		require.NoError(t, err)
		s.do("HSET", addr.RetentionKey(), tier.MarkField, all[39].Addr.String()) // as the archive has it
		_, err = s.sweeper(retention.SweeperConfig{}).Once(s.ctx)
		require.NoError(t, err)
		require.EqualValues(t, 30, s.holdings("orders").Length) // 40 to 69 are lost

		read := func(cfg retention.ReaderConfig, from codec.EntryID) (n int, err error) {
			for _, err := range s.reader("orders", cfg).Range(s.ctx, from, codec.MaxEntryID) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}
		gap := func(want, from, first int, n int, err error) {
			t.Helper()
			require.Equal(t, want, n)
			var gap *stream.GapError
			require.ErrorAs(t, err, &gap)
			require.ErrorIs(t, err, stream.ErrGap)
			require.ErrorIs(t, err, stream.ErrTrimmed)
			require.LessOrEqual(t, gap.From.Compare(all[from].Addr), 0)
			require.Equal(t, all[first].Addr, gap.First)
		}
		n, err := read(retention.ReaderConfig{Archive: a}, all[10].Addr)
		gap(30, 40, 70, n, err)
		n, err = read(retention.ReaderConfig{Archive: a}, codec.EntryID{})
		gap(40, 40, 70, n, err)
		n, err = read(retention.ReaderConfig{Archive: a}, all[50].Addr)
		gap(0, 50, 70, n, err)
		n, err = read(retention.ReaderConfig{}, all[10].Addr)
		gap(0, 10, 70, n, err)
		n, err = read(retention.ReaderConfig{Archive: a, OnGap: retention.Stop}, all[10].Addr)
		gap(0, 10, 70, n, err)
		for _, cfg := range []retention.ReaderConfig{{Archive: a}, {}, {OnGap: retention.Stop}} {
			n, err = read(cfg, all[70].Addr)
			require.NoError(t, err)
			require.Equal(t, 30, n)
		}
		n, err = read(retention.ReaderConfig{}, codec.EntryID{}) // the beginning is what there is
		require.NoError(t, err)
		require.Equal(t, 30, n)
		var skipped []*stream.GapError
		n, err = read(retention.ReaderConfig{Archive: a, OnGap: retention.Skip, Skipped: func(g *stream.GapError) { skipped = append(skipped, g) }}, all[10].Addr)
		require.NoError(t, err)
		require.Equal(t, 60, n)
		require.Len(t, skipped, 1)
		require.Equal(t, stream.GapError{Stream: addr.String(), From: all[39].Addr.Next(), First: all[70].Addr}, *skipped[0])

		a.gone = all[20].Addr
		a.records = a.records[21:]
		n, err = read(retention.ReaderConfig{Archive: a}, all[10].Addr) // the archive's own age took these
		gap(0, 10, 21, n, err)
		a.gone, a.records = all[39].Addr, nil // and all
		n, err = read(retention.ReaderConfig{Archive: a}, codec.EntryID{})
		require.NoError(t, err)
		require.Equal(t, 30, n)
		s.do("HSET", addr.RetentionKey(), tier.MarkField, all[80].Addr.String())
		s.do("XTRIM", addr.LogKey(), "MINID", all[81].Addr.String())
		a.gone = all[80].Addr
		n, err = read(retention.ReaderConfig{Archive: a}, all[10].Addr)
		gap(0, 10, 81, n, err)
		skipped = nil
		n, err = read(retention.ReaderConfig{Archive: a, OnGap: retention.Skip, Skipped: func(g *stream.GapError) { skipped = append(skipped, g) }}, all[10].Addr)
		require.NoError(t, err)
		require.Equal(t, 19, n)
		require.Len(t, skipped, 1)
		n, err = read(retention.ReaderConfig{Archive: a}, codec.EntryID{})
		require.NoError(t, err)
		require.Equal(t, 19, n)
		_, err = retention.NewReader(s.client, retention.ReaderConfig{Address: addr.String(), OnGap: 3})
		require.ErrorIs(t, err, stream.ErrBadCall)
	})
}

// TestArchiveBehind: an archive that ends below what is marked, empty or old, is said to, and does not keep its reader busy.
func TestArchiveBehind(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append("orders", 20, 10)
		live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.address("orders")})
		require.NoError(t, err)
		all := s.collected(live.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID))
		s.moves(&shelf{}, "orders", all[9].Addr)
		ctx, stop := context.WithTimeout(s.ctx, 5*time.Second)
		defer stop()
		for _, a := range []*shelf{{}, {gone: all[5].Addr}, {records: all[:6]}} {
			segments, _ := a.Segments(ctx)
			for _, from := range []codec.EntryID{{}, all[6].Addr} {
				if !from.IsZero() && segments.Last().IsZero() {
					continue // what went before an archive began is a gap
				}
				n := 0
				for _, err = range s.reader("orders", retention.ReaderConfig{Archive: a}).Range(ctx, from, codec.MaxEntryID) {
					n++
				}
				var behind *archive.BehindError
				require.ErrorAs(t, err, &behind)
				require.Equal(t, archive.BehindError{Stream: s.address("orders"), Last: segments.Last(), Mark: all[9].Addr}, *behind)
				if from.IsZero() {
					require.Equal(t, len(a.records)+1, n)
				}
			}
		}
	})
}

// TestLossIsSaid: entries that a hard cap took before they were archived are a gap for whoever reads there later, when the archive has what
// comes next, and the log nothing. It ends at the first message of an entry, if that is a pack too.
func TestLossIsSaid(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		t.Run("plain", func(t *testing.T) { lossIsSaid(t, newStage(t, srv), 1) })
		t.Run("in packs", func(t *testing.T) { lossIsSaid(t, newStage(t, srv), 10) })
	})
}

func lossIsSaid(t *testing.T, s *stage, pack int64) {
	store := &archive.Memory{}
	cfg := retention.SweeperConfig{
		Settle: time.Millisecond, Temp: t.TempDir(),
		Stores: func(context.Context, string) (archive.Store, error) { return store, nil },
	}
	w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.address("orders"), Pack: int(pack)})
	require.NoError(t, err)
	appends := func(n int) {
		_, err := w.AppendBatch(s.ctx, keyed(n, n))
		require.NoError(t, err)
	}
	archives := func(want int64) {
		t.Helper()
		want /= pack
		var n int64
		tiertest.Eventually(t, soon, func() (bool, string) {
			list, err := s.sweeper(cfg).Archive(s.ctx)
			require.NoError(t, err)
			require.NoError(t, list[0].Err)
			n += list[0].Entries
			return n == want, fmt.Sprint(n, " archived")
		})
	}
	appends(40)
	s.declare("orders", stream.Retention{Settled: true, Exact: true, HardCap: 30 / pack, Archive: "mem://store"})
	live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.address("orders")})
	require.NoError(t, err)
	all := s.collected(live.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID))
	archives(40)
	appends(60)
	all = append(all, s.collected(live.Range(s.ctx, all[39].Addr.Next(), codec.MaxEntryID))...)
	require.Len(t, all, 100)
	_, err = s.sweeper(cfg).Once(s.ctx) // 40 to 69 are lost
	require.NoError(t, err)
	archives(30)
	_, err = s.sweeper(cfg).Once(s.ctx)
	require.NoError(t, err)
	require.Zero(t, s.holdings("orders").Length)

	archived, err := archive.NewReader(store, archive.ReaderConfig{Address: s.address("orders")})
	require.NoError(t, err)
	both := s.reader("orders", retention.ReaderConfig{Archive: archived})
	want := stream.GapError{Stream: s.address("orders"), From: all[39].Addr.Next(), First: all[70].Addr}
	for from, n := range map[codec.EntryID]int{{}: 40, all[10].Addr: 30, all[39].Addr: 1, all[39].Addr.Next(): 0} {
		for _, records := range []iter.Seq2[codec.Record, error]{archived.Range(s.ctx, from, codec.MaxEntryID), both.Range(s.ctx, from, codec.MaxEntryID)} {
			var got []codec.Record
			var gap *stream.GapError
			for record, err := range records {
				if err != nil {
					require.ErrorAs(t, err, &gap)
					break
				}
				got = append(got, record)
			}
			require.NotNil(t, gap)
			require.Equal(t, want, *gap)
			same(t, all[40-n:40], got)
		}
	}
	same(t, all[70:], s.collected(both.Range(s.ctx, all[70].Addr, codec.MaxEntryID)))
	same(t, all[:40], s.collected(both.Range(s.ctx, codec.EntryID{}, all[39].Addr)))
	var skipped []stream.GapError
	skips := s.reader("orders", retention.ReaderConfig{Archive: archived, OnGap: retention.Skip, Skipped: func(g *stream.GapError) { skipped = append(skipped, *g) }})
	same(t, append(slices.Clone(all[10:40]), all[70:]...), s.collected(skips.Range(s.ctx, all[10].Addr, codec.MaxEntryID)))
	require.Equal(t, []stream.GapError{want}, skipped)
	problems := 0
	for c, err := range archived.Verify(s.ctx, t.TempDir()) {
		require.NoError(t, err)
		if c.Problem != "" {
			problems++
			require.Contains(t, c.Problem, "a gap")
			require.Equal(t, want.From, c.First)
			require.Equal(t, all[70].Position.Entry.Prev(), c.Last)
		}
	}
	require.Equal(t, 1, problems)
}

// TestSkipsToAPack (B158): what is left after a gap is read from the first message of its first entry on, be it in the log or in the archive.
func TestSkipsToAPack(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		addr, err := tier.ParseAddress(s.address("orders"))
		require.NoError(t, err)
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: addr.String(), Pack: 10})
		require.NoError(t, err)
		_, err = w.AppendBatch(s.ctx, keyed(100, 0))
		require.NoError(t, err)
		live, err := stream.NewReader(s.client, stream.ReaderConfig{Address: addr.String()})
		require.NoError(t, err)
		all := s.collected(live.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID))
		finds := func(cfg retention.ReaderConfig, first int) {
			t.Helper()
			_, err := s.reader("orders", cfg).Newest(s.ctx)
			require.NoError(t, err)
			for _, err = range s.reader("orders", cfg).Range(s.ctx, all[12].Addr, codec.MaxEntryID) {
				break
			}
			var gap *stream.GapError
			require.ErrorAs(t, err, &gap)
			require.Equal(t, stream.GapError{Stream: addr.String(), From: all[12].Addr, First: all[first].Addr}, *gap)
			same(t, all[first+3:], s.collected(s.reader("orders", cfg).Range(s.ctx, all[first+3].Addr, codec.MaxEntryID)))
			cfg.OnGap = retention.Skip
			same(t, all[first:], s.collected(s.reader("orders", cfg).Range(s.ctx, all[12].Addr, codec.MaxEntryID)))
		}

		store := &archive.Memory{}
		cfg := retention.SweeperConfig{
			Settle: time.Millisecond, Temp: t.TempDir(), Stores: func(context.Context, string) (archive.Store, error) { return store, nil },
		}
		s.declare("orders", stream.Retention{MaxLength: 7, Exact: true})
		_, err = s.sweeper(cfg).Once(s.ctx)
		require.NoError(t, err)
		finds(retention.ReaderConfig{}, 30)

		s.declare("orders", stream.Retention{MaxLength: 2, Exact: true, Archive: "mem://store", SegmentBytes: 1})
		tiertest.Eventually(t, soon, func() (bool, string) {
			_, err := s.sweeper(cfg).Archive(s.ctx)
			require.NoError(t, err)
			n := s.archived(store, "orders")
			return n >= 50, fmt.Sprint(n, " archived")
		})
		archived, err := archive.NewReader(store, archive.ReaderConfig{Address: addr.String()})
		require.NoError(t, err)
		finds(retention.ReaderConfig{Archive: archived}, 30)
	})
}
