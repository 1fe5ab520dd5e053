package stream_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// orderMessages is how many messages one stream gets in TestOrder, by writers of all sorts together. A cluster mints as
// its server does, so fewer will do there.
func orderMessages(s *tiertest.Server, few bool) int {
	if s.Kind.Cluster() || few {
		return 10_000
	}
	return 25_000
}

// TestOrder: whoever writes, and however, id order is position order, ids are unique and what was receipted, sequences
// stay in 12 bits, and each writer's messages stand in its order; with the top an hour ahead of the clock, too (B90).
func TestOrder(t *testing.T) {
	tests := []struct {
		name    string
		few     bool
		prepare func(*fixture)
	}{
		{"top at the clock", false, func(f *fixture) { f.append(f.writer(stream.WriterConfig{}), 1) }},
		{"an entry an hour ahead", false, func(f *fixture) {
			f.append(f.writer(stream.WriterConfig{}), 1)
			f.do("XADD", f.log(), fmt.Sprintf("%d-7", f.now().Add(time.Hour).UnixMilli()), "m", encoded(f.t, "ahead"))
		}},
		{"top an hour ahead by XSETID", true, func(f *fixture) {
			f.append(f.writer(stream.WriterConfig{}), 1)
			f.do("XSETID", f.log(), fmt.Sprintf("%d-4090", f.now().Add(time.Hour).UnixMilli()))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				tt.prepare(f)
				before, n := f.all(), orderMessages(s, tt.few)
				teams := teamsOf(f, n)
				for _, team := range teams {
					team.write()
				}
				records := f.all()
				requireAscending(t, records)
				require.Len(t, records, len(before)+n)
				require.Equal(t, idsOf(before), idsOf(records[:len(before)]))
				requireReceipts(t, teams, records[len(before):])
			})
		})
	}
}

// A team is writers that write at once, each through a client of its own.
type team []*author

func teamsOf(f *fixture, messages int) []team {
	sorts := []struct {
		name string
		pack func(i int) int
	}{
		{"plain", func(int) int { return 1 }},
		{"packs", func(i int) int { return []int{100, 7, 4096}[i%3] }},
		{"mixed", func(i int) int { return []int{1, 50, 1, 1000}[i%4] }},
	}
	sizes := []int{1, 2, 10}
	var teams []team
	var n byte
	left := messages
	for _, sort := range sorts {
		for _, size := range sizes {
			share := messages / len(sorts) / len(sizes) / size
			var members team
			for i := range size {
				members = append(members, &author{f: f, number: n, messages: share, pack: sort.pack(i)})
				left -= share
				n++
			}
			teams = append(teams, members)
		}
	}
	teams[len(teams)-1][0].messages += left
	return teams
}

// author writes its messages, in calls of many sizes.
type author struct {
	f        *fixture
	number   byte
	messages int
	pack     int
	ids      []codec.ID
}

func (t team) write() {
	var wg sync.WaitGroup
	for _, a := range t {
		wg.Go(a.write)
	}
	wg.Wait()
}

var orderCalls = []int{1, 500, 3, 4095, 64, 1, 4096, 501}

func (a *author) write() {
	w, err := stream.NewWriter(tiertest.Dial(a.f.t, a.f.server), stream.WriterConfig{Address: a.f.address, Pack: a.pack})
	if err != nil {
		a.f.t.Error(err)
		return
	}
	for call := int(a.number); len(a.ids) < a.messages; call++ {
		ms := make([]codec.Message, min(orderCalls[call%len(orderCalls)], a.messages-len(a.ids)))
		for i := range ms {
			ms[i] = codec.Message{Type: "t", Data: authored(a.number, len(a.ids)+i)}
		}
		ids, err := w.AppendBatch(a.f.ctx, ms)
		if err != nil || len(ids) != len(ms) {
			a.f.t.Errorf("author %d: %d ids of %d: %v", a.number, len(ids), len(ms), err)
			return
		}
		a.ids = append(a.ids, ids...)
	}
}

func authored(author byte, n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{author}, uint32(n))
}

// requireReceipts: each author's receipts are the ids that its messages have in the log, and they stand in its order.
func requireReceipts(t testing.TB, teams []team, records []codec.Record) {
	t.Helper()
	authors := map[byte]*author{}
	next := map[byte]int{}
	for _, team := range teams {
		for _, a := range team {
			authors[a.number] = a
			require.Len(t, a.ids, a.messages)
		}
	}
	for i := range records {
		data := records[i].Data
		if len(data) != 5 {
			t.Fatalf("record %d is nobody's: %q", i, data)
		}
		a, n := authors[data[0]], int(binary.BigEndian.Uint32(data[1:]))
		if next[a.number] != n || a.ids[n] != records[i].ID {
			t.Fatalf("record %d: message %d of author %d, want %d; its receipt is %s, its id %s", i, n, a.number, next[a.number], a.ids[n], records[i].ID)
		}
		next[a.number]++
	}
}

// TestForeignOverflow: a foreign writer that runs the sequence above 4095 in one millisecond, of now or of the future,
// is delivered raw, and ours goes on in the next millisecond.
func TestForeignOverflow(t *testing.T) {
	tests := []struct {
		name string
		at   func(now time.Time) time.Time
		seq  string
	}{
		{"now", func(now time.Time) time.Time { return now }, "4096"},
		{"now, far", func(now time.Time) time.Time { return now }, "99999999999"},
		{"in an hour", func(now time.Time) time.Time { return now.Add(time.Hour) }, "4096"},
		{"in an hour, at the end", func(now time.Time) time.Time { return now.Add(time.Hour) }, "18446744073709551615"},
		{"in an hour, last legal", func(now time.Time) time.Time { return now.Add(time.Hour) }, "4095"},
		{"in an hour, last but one", func(now time.Time) time.Time { return now.Add(time.Hour) }, "4094"},
	}
	for _, tt := range tests {
		for _, pack := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, pack %d", tt.name, pack), func(t *testing.T) {
				t.Parallel()
				tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
					f := setUp(t, s)
					w := f.writer(stream.WriterConfig{Pack: pack})
					want := f.append(w, 2)
					for range 5 { // with luck within the millisecond of the foreign entry
						at := strconv.FormatInt(tt.at(f.now()).UnixMilli(), 10)
						if f.raw().Do(f.ctx, f.raw().B().Arbitrary("XADD").Keys(f.log()).Args(at+"-"+tt.seq, "m", encoded(t, "foreign")).Build()).Error() != nil {
							continue // the top is above it already
						}
						want = append(want, codec.ID{})
						want = append(want, f.append(w, 5)...)
					}
					got := f.all()
					for i := range got {
						if seq := got[i].Addr.Seq; string(got[i].Key) == "foreign" || got[i].Foreign() {
							require.Equal(t, tt.seq, strconv.FormatUint(seq, 10))
							want[i] = got[i].ID // zero above 4095
							require.Equal(t, seq > codec.MaxSeq, got[i].Foreign())
						}
					}
					requireSame(t, want, idsOf(got))
					requireOrdered(t, got)
					n := 0 // nothing was removed, so nothing is missing
					for _, err := range f.reader().Since(f.ctx, f.now().Add(-time.Hour)) {
						require.NoError(t, err)
						n++
					}
					require.Len(t, got, n)
				})
			})
		}
	}
}

// TestLastSequence: a call that ends on the last sequence of its millisecond leaves the top in the next one, so that what
// a program that knows nothing of us appends with '*' has a legal id, too.
func TestLastSequence(t *testing.T) {
	for _, pack := range []int{1, 32} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				w := f.writer(stream.WriterConfig{Pack: pack})
				f.append(w, 1)
				top := codec.EntryID{Ms: uint64(f.now().Add(time.Hour).UnixMilli()), Seq: 3999}
				f.do("XSETID", f.log(), top.String())
				ids := f.append(w, 96)
				require.Equal(t, codec.EntryID{Ms: top.Ms, Seq: 4095}, ids[95].ServerEntry())
				raw := entryID(t, f.text("XADD", f.log(), "*", "payload", "x"))
				require.Equal(t, top.Ms+1, raw.Ms)
				ids = append(ids, f.append(w, 2)...)
				require.Equal(t, codec.EntryID{Ms: raw.Ms, Seq: raw.Seq + 1}, ids[96].ServerEntry())
				requireOrdered(t, f.all())
			})
		})
	}
}

// TestEndOfAMillisecond: calls that end just before, on, and beyond the last sequence of a millisecond.
func TestEndOfAMillisecond(t *testing.T) {
	const n = 32
	for _, pack := range []int{1, 5, n} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				w := f.writer(stream.WriterConfig{Pack: pack})
				want := f.append(w, 1)
				ahead := uint64(f.now().Add(time.Hour).UnixMilli())
				for left := range uint64(2*n + 3) { // sequences that the millisecond has left
					ahead += 10
					f.do("XSETID", f.log(), codec.EntryID{Ms: ahead, Seq: codec.MaxSeq - left}.String())
					ids := f.append(w, n)
					ids = append(ids, f.append(w, n)...)
					require.LessOrEqual(t, ids[2*n-1].ServerEntry().Ms, ahead+2)
					want = append(want, ids...)
				}
				got := f.all()
				requireAscending(t, got)
				requireSame(t, want, idsOf(got))
			})
		})
	}
}

// TestPackAfterTrim: the ids of what was trimmed are not given again, to a larger pack of the same millisecond either.
func TestPackAfterTrim(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		small, large := f.writer(stream.WriterConfig{Pack: 5}), f.writer(stream.WriterConfig{Pack: 10})
		for range 100 { // with luck within a millisecond
			before := f.append(small, 5)
			f.do("XTRIM", f.log(), "MAXLEN", "0")
			require.Less(t, before[4].String(), f.append(large, 10)[0].String())
		}
	})
}

// TestIDSpaceAtItsEnd (B72): with a top that leaves no ids, an append is refused with nothing written, plain and packed,
// whether the top is an entry or was only set.
func TestIDSpaceAtItsEnd(t *testing.T) {
	const lastMs = codec.Epoch + 1<<41 - 1
	tops := []struct{ name, id string }{
		{"the very last id", "18446744073709551615-18446744073709551615"},
		{"the last millisecond", "18446744073709551615-3"},
		{"the last millisecond, above 12 bits", "18446744073709551615-5000"},
		{"the last sequence of a far millisecond", "4000000000000-18446744073709551615"},
		{"above 41 bits", fmt.Sprintf("%d-0", lastMs+1)},
		{"at the end of 41 bits", fmt.Sprintf("%d-4095", lastMs)},
	}
	for _, top := range tops {
		for _, pack := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, pack %d", top.name, pack), func(t *testing.T) {
				t.Parallel()
				tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
					for _, set := range []bool{false, true} {
						f := setUp(t, s)
						w := f.writer(stream.WriterConfig{Pack: pack})
						f.append(w, 3)
						if set {
							f.do("XSETID", f.log(), top.id)
						} else {
							f.do("XADD", f.log(), top.id, "payload", "x")
						}
						before := f.all()
						for _, n := range []int{1, 5} {
							_, err := w.AppendBatch(f.ctx, messages(n))
							require.ErrorIs(t, err, stream.ErrIDSpace)
						}
						require.Equal(t, before, f.all())
					}
				})
			})
		}
	}
}

// TestIDSpaceNearItsEnd: ids up to the end of 41 bits are given, and none beyond it.
func TestIDSpaceNearItsEnd(t *testing.T) {
	const lastMs = codec.Epoch + 1<<41 - 1
	for _, pack := range []int{1, 100} {
		t.Run(fmt.Sprint("pack ", pack), func(t *testing.T) {
			t.Parallel()
			tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
				f := setUp(t, s)
				w := f.writer(stream.WriterConfig{Pack: pack})
				f.append(w, 1)
				f.do("XSETID", f.log(), fmt.Sprintf("%d-4000", lastMs-2_000))
				f.append(w, 4096)
				f.do("XSETID", f.log(), fmt.Sprintf("%d-4000", lastMs))
				_, err := w.AppendBatch(f.ctx, messages(200))
				require.ErrorIs(t, err, stream.ErrIDSpace)
				got := f.all()
				require.Len(t, got, 4097)
				requireAscending(t, got)
			})
		})
	}
}

// requireAscending: id order = position order, all unique, sequences in 12 bits, nothing foreign.
func requireAscending(t testing.TB, records []codec.Record) {
	t.Helper()
	for i := range records {
		if records[i].Foreign() || records[i].Err != nil || records[i].Addr.Seq > codec.MaxSeq {
			t.Fatalf("record %d at %s: id %s, error %v", i, records[i].Addr, records[i].ID, records[i].Err)
		}
	}
	requireOrdered(t, records)
}

// requireOrdered: positions ascend, and so do the ids of what is not foreign.
func requireOrdered(t testing.TB, records []codec.Record) {
	t.Helper()
	var last codec.ID
	for i := range records {
		if i > 0 && records[i-1].Position.Compare(records[i].Position) >= 0 {
			t.Fatalf("record %d: position %v follows %v", i, records[i].Position, records[i-1].Position)
		}
		if records[i].Foreign() {
			continue
		}
		if last.Compare(records[i].ID) >= 0 {
			t.Fatalf("record %d: id %s follows %s", i, records[i].ID, last)
		}
		last = records[i].ID
	}
}
