package consumer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

var errBroken = errors.New("broken")

func entryAt(n int) codec.EntryID { return codec.EntryID{Ms: 1_800_000_000_000, Seq: uint64(n)} }

func leasedEntry(n, deliveries int, poison ...bool) tier.Leased {
	l := tier.Leased{Entry: entryAt(n), Deliveries: deliveries}
	for i, bad := range poison {
		r := codec.Record{Position: codec.Position{Entry: l.Entry, Index: i}}
		if bad {
			r.Err = errBroken
		}
		l.Records = append(l.Records, r)
	}
	return l
}

// leasedPack is an entry whose pack was not decoded yet, and cannot be when it is damaged.
func leasedPack(t require.TestingT, at, n int, damaged bool) tier.Leased {
	var body []byte
	for range n {
		var err error
		body, err = codec.AppendMessage(body, &codec.Message{Type: "t"})
		require.NoError(t, err)
	}
	if damaged {
		body[len(body)-1] = 0xc1
	}
	src, err := codec.AppendPack(nil, n, body, codec.NoCompression)
	require.NoError(t, err)
	p, ok := codec.Identity{Brand: "ORD"}.Pack(codec.Entry{ID: entryAt(at), Fields: []string{codec.FieldPack, string(src)}})
	require.True(t, ok)
	return tier.Leased{Entry: entryAt(at), Deliveries: 1, Pack: &p}
}

// twin is the tracker as one would write it with no thought of cost: every message has a state, and all else follows.
type twin struct {
	entries   []*twinEntry // in the order of fetching
	queue     []*twinEntry // in the order of beginning
	released  []codec.EntryID
	closed    bool
	interrupt bool
}

type twinState int

const (
	twinWaiting twinState = iota
	twinRunning
	twinOK
	twinFailed
	twinCut // not begun, or interrupted, because of a stop
	twinPoison
)

type twinEntry struct {
	id       codec.EntryID
	messages []twinState
	gone     bool
	taken    bool // by the settler
	packed   bool // not decoded yet
	damaged  bool
	weight   int // messages, as it was said at first
}

func (e *twinEntry) count(s twinState) (n int) {
	for _, m := range e.messages {
		if m == s {
			n++
		}
	}
	return n
}

func (e *twinEntry) through() bool { return e.count(twinWaiting)+e.count(twinRunning) == 0 }

func (e *twinEntry) verdict() verdict {
	switch {
	case e.gone:
		return toForget
	case e.count(twinFailed)+e.count(twinPoison) > 0:
		return toCommit
	case e.count(twinCut) > 0:
		return toHandBack
	}
	return toSettle
}

func (w *twin) find(id codec.EntryID) *twinEntry {
	for _, e := range w.entries {
		if e.id == id {
			return e
		}
	}
	return nil
}

func (w *twin) drop(id codec.EntryID) {
	is := func(e *twinEntry) bool { return e.id == id }
	w.entries, w.queue = slices.DeleteFunc(w.entries, is), slices.DeleteFunc(w.queue, is)
}

func (w *twin) unrelease(id codec.EntryID) {
	w.released = slices.DeleteFunc(w.released, func(p codec.EntryID) bool { return p == id })
}

// TestTracker drives the tracker and its twin by random actions, and compares what they know after each.
func TestTracker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 12
		tr, w := newTracker(t.Context(), limit, 1<<30, policy{base: time.Second, longest: time.Minute}, None), &twin{}
		var running, unpacking []turn
		var settling []*flight
		ids := 0
		now := time.UnixMilli(0)

		anyID := func(name string) codec.EntryID {
			return entryAt(rapid.IntRange(0, ids).Draw(t, name))
		}
		finish := func(err error, i int) {
			r := running[i]
			running = slices.Delete(running, i, i+1)
			o, through := tr.finish(r, err)

			e := w.find(r.f.entry)
			if r.f.dropped {
				require.Equal(t, outcomeLost, o)
				require.False(t, through)
				return
			}
			state, want := twinOK, outcomeOK
			switch {
			case err != nil && w.interrupt:
				state, want = twinCut, outcomeInterrupted
			case err != nil:
				state, want = twinFailed, outcomeError
			}
			e.messages[r.m.Position.Index] = state
			require.Equal(t, want, o)
			require.Equal(t, e.through(), through)
		}
		finishAny := func(err error) {
			if len(running) == 0 {
				t.Skip("nothing runs")
			}
			finish(err, rapid.IntRange(0, len(running)-1).Draw(t, "which"))
		}

		t.Repeat(map[string]func(*rapid.T){
			"take new": func(t *rapid.T) {
				var batch []tier.Leased
				for range rapid.IntRange(1, 3).Draw(t, "entries") {
					ids++
					l := leasedEntry(ids, 1, rapid.SliceOfN(rapid.Bool(), 1, 4).Draw(t, "poison")...)
					batch = append(batch, l)
					w.take(&l)
				}
				tr.take(batch)
			},
			"take new pack": func(t *rapid.T) {
				ids++
				l := leasedPack(t, ids, rapid.IntRange(1, min(4, ids+1)).Draw(t, "messages"), rapid.IntRange(0, 3).Draw(t, "damaged") == 0)
				w.take(&l)
				e := w.entries[len(w.entries)-1]
				e.damaged = unpack(t.Context(), l.Pack, policy{}, nil)[0].Err != nil
				tr.takeNew([]tier.Leased{l})
			},
			"unpack": func(t *rapid.T) {
				if len(unpacking) == 0 {
					t.Skip("nothing is unpacked")
				}
				f := unpacking[0].f
				unpacking = unpacking[1:]
				first, ok := tr.unpacked(f, unpack(tr.values, f.pack, tr.policy, nil))
				if f.dropped {
					require.False(t, ok)
					return
				}
				e := w.find(f.entry)
				e.packed = false
				if e.damaged {
					e.messages = []twinState{twinPoison}
				} else if w.closed {
					w.cut(e)
				}
				w.queue = slices.Insert(w.queue, 0, e)
				require.Equal(t, e.messages[0] == twinWaiting, ok)
				if ok {
					require.Equal(t, codec.Position{Entry: e.id}, first.m.Position)
					e.messages[0] = twinRunning
					running = append(running, first)
				}
			},
			"go on": func(t *rapid.T) { // without the tracker
				if len(running) == 0 {
					t.Skip("nothing runs")
				}
				r := running[0]
				next, ok := r.follow()
				e := w.find(r.f.entry)
				more := !r.f.dropped && len(e.messages) > 1 && slices.Contains(e.messages, twinWaiting)
				require.Equal(t, more, ok)
				if !ok {
					finish(nil, 0)
					return
				}
				at := slices.Index(e.messages, twinWaiting)
				require.Equal(t, at, next.m.Position.Index)
				e.messages[r.m.Position.Index], e.messages[at] = twinOK, twinRunning
				running[0] = next
			},
			"take again": func(t *rapid.T) { // an own one, in flight or released
				l := leasedEntry(int(anyID("entry").Seq), 2, false, true, false)
				if w.find(l.Entry) == nil {
					if !slices.Contains(w.released, l.Entry) {
						t.Skip("not ours")
					}
					w.take(&l)
				} else {
					w.find(l.Entry).gone = false
				}
				tr.take([]tier.Leased{l})
			},
			"take anew": func(t *rapid.T) { // read again, after the group was moved back
				l := leasedEntry(int(anyID("entry").Seq), 1, false, false)
				w.drop(l.Entry)
				w.take(&l)
				var want []*message
				for _, r := range running {
					if r.f == tr.flights.of(l.Entry) {
						want = append(want, r.m)
					}
				}
				_, begun := tr.takeNew([]tier.Leased{l})
				require.ElementsMatch(t, want, begun)
			},
			"begin": func(t *rapid.T) {
				begun, ok := tr.begin()
				var want *twinEntry
				index := -1
				for _, e := range w.queue {
					if index = slices.Index(e.messages, twinWaiting); index >= 0 {
						want = e
						break
					}
				}
				if want == nil || want.packed && len(unpacking) > 0 {
					require.False(t, ok)
					return
				}
				if want.packed {
					require.Equal(t, want.id, begun.f.entry)
					require.True(t, begun.undecoded())
					w.queue = slices.DeleteFunc(w.queue, func(e *twinEntry) bool { return e == want })
					unpacking = append(unpacking, begun)
					return
				}
				require.Equal(t, codec.Position{Entry: want.id, Index: index}, begun.m.Position)
				want.messages[index] = twinRunning
				running = append(running, begun)
			},
			"succeed": func(*rapid.T) { finishAny(nil) },
			"fail":    func(*rapid.T) { finishAny(errBroken) },
			"collect": func(t *rapid.T) {
				var by, want [verdicts][]codec.EntryID
				var got [verdicts][]*flight
				tr.collect(&got)
				for v, fs := range got {
					for _, f := range fs {
						if !f.dropped {
							by[v] = append(by[v], f.entry)
							settling = append(settling, f)
						}
					}
				}
				for _, e := range w.entries {
					if e.through() && !e.taken {
						e.taken = true
						want[e.verdict()] = append(want[e.verdict()], e.id)
					}
				}
				for v := range by {
					require.ElementsMatch(t, want[v], by[v], "verdict %d", v)
				}
			},
			"act": func(t *rapid.T) {
				if len(settling) == 0 {
					t.Skip("nothing is through")
				}
				f := settling[0]
				settling = settling[1:]
				if f.dropped {
					return
				}
				w.drop(f.entry)
				if f.verdict() == toHandBack {
					tr.release(tier.Held{Entry: f.entry}, now)
					w.released = append(w.released, f.entry)
				} else {
					tr.remove(f)
				}
			},
			"vanish": func(t *rapid.T) {
				id := anyID("entry")
				e := w.find(id)
				fresh := e != nil && !e.gone
				if e != nil {
					e.gone = true
				}
				w.unrelease(id)
				require.Equal(t, fresh, tr.vanished([]codec.EntryID{id}) == 1)
			},
			"reconcile": func(t *rapid.T) {
				var held, stranger []tier.Held
				var wantLost []codec.EntryID
				for _, e := range slices.Clone(w.entries) {
					if rapid.Bool().Draw(t, "held") {
						held = append(held, tier.Held{Entry: e.id})
						continue
					}
					if !e.gone {
						wantLost = append(wantLost, e.id)
					}
					w.drop(e.id)
				}
				for _, p := range slices.Clone(w.released) {
					if rapid.Bool().Draw(t, "released") {
						held = append(held, tier.Held{Entry: p})
					} else {
						w.unrelease(p)
					}
				}
				if rapid.Bool().Draw(t, "stranger") {
					ids++
					stranger = []tier.Held{{Entry: entryAt(ids), Deliveries: 1}}
				}
				lost, begun, unknown := tr.reconcile(append(held, stranger...))
				require.ElementsMatch(t, wantLost, entriesOf(lost))
				require.Equal(t, stranger, unknown)
				var wantRunning []*message
				for _, r := range running {
					if slices.Contains(wantLost, r.f.entry) && slices.Contains(lost, r.f) {
						wantRunning = append(wantRunning, r.m)
					}
				}
				require.ElementsMatch(t, wantRunning, begun)
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					t.Skip("not yet")
				}
				tr.close()
				w.close(func(e *twinEntry) bool { return e.count(twinWaiting)+e.count(twinPoison) == len(e.messages) })
			},
			"interrupt": func(t *rapid.T) {
				if !w.closed || rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
					t.Skip("not yet")
				}
				tr.interrupt()
				w.interrupt = true
				w.close(func(*twinEntry) bool { return true })
			},
			"": func(t *rapid.T) { w.compare(t, tr, limit, running) },
		})
	})
}

func entriesOf(fs []*flight) (out []codec.EntryID) {
	for _, f := range fs {
		out = append(out, f.entry)
	}
	return out
}

func (w *twin) take(l *tier.Leased) {
	e := &twinEntry{id: l.Entry, weight: l.Messages()}
	if l.Pack != nil {
		e.packed, e.messages = true, make([]twinState, l.Messages())
		if w.closed {
			w.cut(e)
		}
	}
	for i := range l.Records {
		state := twinWaiting
		switch {
		case l.Records[i].Err != nil:
			state = twinPoison
		case w.closed:
			state = twinCut
		}
		e.messages = append(e.messages, state)
	}
	w.unrelease(l.Entry)
	w.entries, w.queue = append(w.entries, e), append(w.queue, e)
}

func (w *twin) close(which func(*twinEntry) bool) {
	w.closed = true
	for _, e := range w.entries {
		if unpacking := e.packed && !slices.Contains(w.queue, e); !unpacking && e.count(twinWaiting) > 0 && which(e) {
			w.cut(e)
		}
	}
}

func (w *twin) cut(e *twinEntry) {
	for i, s := range e.messages {
		if s == twinWaiting {
			e.messages[i] = twinCut
		}
	}
}

func (w *twin) compare(t *rapid.T, tr *tracker, limit int, running []turn) {
	messages, weight := 0, 0
	var ids []codec.EntryID
	for _, e := range w.entries {
		messages += len(e.messages)
		weight += e.weight
		ids = append(ids, e.id)
	}
	require.Equal(t, messages, tr.messages)
	require.Equal(t, weight*perMessage, tr.bytes)
	require.ElementsMatch(t, ids, tr.entries())
	require.Len(t, tr.released, len(w.released))
	for _, p := range w.released {
		require.Contains(t, tr.released, p)
	}
	r := tr.room(1)
	require.Equal(t, max(0, limit-messages), r.messages)
	require.LessOrEqual(t, r.read, r.messages)
	require.Equal(t, len(w.entries)+len(w.released) == 0, r.idle)

	var stuck []codec.Position
	for _, r := range running {
		if !r.f.dropped {
			stuck = append(stuck, r.m.Position)
		}
	}
	require.ElementsMatch(t, stuck, tr.stuck())
}

func TestTrackerRoom(t *testing.T) {
	tr := newTracker(t.Context(), 10_000, 1<<30, policy{}, None)
	tr.take(slices.Collect(func(yield func(tier.Leased) bool) {
		for i := range maxEntries - 1 {
			yield(leasedEntry(i, 1, false))
		}
	}))
	r := tr.room(8)
	require.Equal(t, room{messages: 10_000 - maxEntries + 1, bytes: r.bytes, read: 1, take: 1}, r, "entries are bounded, not messages alone")
	for i := range maxEntries - 1 {
		tr.release(tier.Held{Entry: entryAt(i)}, time.UnixMilli(0))
	}
	tr.release(tier.Held{Entry: entryAt(maxEntries)}, time.UnixMilli(0))
	require.Equal(t, room{messages: 10_000, bytes: 1 << 30, read: 0, take: maxEntries, hungry: true}, tr.room(maxEntries+1),
		"with much that failed, nothing new is read, and what is due can be taken over")
}

func TestTrackerDue(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	tr := newTracker(t.Context(), 10, 1<<30, policy{}, None)
	require.Zero(t, tr.due)
	tr.release(tier.Held{Entry: entryAt(1)}, at(50))
	tr.release(tier.Held{Entry: entryAt(2)}, at(40))
	tr.release(tier.Held{Entry: entryAt(3)}, at(60))
	require.Equal(t, at(40), tr.due)
	tr.looked(at(45), 2*time.Second)
	require.Equal(t, at(47), tr.due, "what should have been found is looked for again soon")
	tr.take([]tier.Leased{leasedEntry(2, 2, false)})
	tr.looked(at(47), 2*time.Second)
	require.Equal(t, at(50), tr.due)
	tr.vanished([]codec.EntryID{entryAt(1), entryAt(3)})
	tr.looked(at(48), 2*time.Second)
	require.Zero(t, tr.due)
}
