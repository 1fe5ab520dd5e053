package consumer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// world is a group on a server with one consumer, and others that come and go, as one would write it with no thought of
// cost: each message has a state, each entry a place.
type world struct {
	t       *rapid.T
	order   Order
	tr      *tracker
	clock   time.Time
	entries []*worldEntry // in the order of the log
	running []turn
	through []*flight
	others  bool // others had a part in it: only then may a lane wait for what is not there, until that is overdue
}

type worldPlace int

const (
	unread worldPlace = iota
	mine              // pending, and known to the tracker
	loose             // pending under this consumer's name or another's; nobody works on it
	laid              // parked
	other             // another consumer's
	gone              // settled, given up or trimmed
)

type worldEntry struct {
	id      codec.EntryID
	keys    []string
	open    []bool // messages that are not settled and not given up
	handled []bool // messages whose handler has succeeded once
	attempt []int
	place   worldPlace
	due     time.Time   // of the first
	dues    []time.Time // of each
	count   int         // deliveries
	free    bool        // another consumer, a redrive or a reset had a part in it: its order is nobody's promise
}

func (w *world) lane(key string) string {
	if w.order == Strict {
		return "all"
	}
	return key
}

func (w *world) find(id codec.EntryID) *worldEntry {
	i := slices.IndexFunc(w.entries, func(e *worldEntry) bool { return e.id == id })
	return w.entries[i]
}

func (w *world) in(places ...worldPlace) (list []*worldEntry) {
	for _, e := range w.entries {
		if slices.Contains(places, e.place) {
			list = append(list, e)
		}
	}
	return list
}

func (w *world) leased(e *worldEntry) tier.Leased {
	e.place = mine
	e.count++
	l := tier.Leased{Entry: e.id, Deliveries: e.count}
	for i := range e.keys {
		if e.open[i] {
			l.Records = append(l.Records, codec.Record{Position: codec.Position{Entry: e.id, Index: i}, Message: codec.Message{Key: e.keys[i]}})
			l.Open = append(l.Open, tier.Open{Index: i, Attempt: e.attempt[i] + 1, Delay: max(0, e.dues[i].Sub(w.clock))})
		}
	}
	return l
}

// begin lets a worker begin, and holds the tracker to its promise.
func (w *world) begin() bool {
	begun, ok := w.tr.begin()
	if !ok {
		return false
	}
	f, m := begun.f, begun.m
	e := w.find(f.entry)
	lane := w.lane(m.Key)
	if lane != "" {
		for _, r := range w.running {
			require.NotEqual(w.t, lane, w.lane(r.m.Key), "%s runs beside %s", m.Position, r.m.Position)
		}
	}
	require.True(w.t, e.open[m.Position.Index], "%s is done already", m.Position)
	for _, other := range w.tr.flights.list {
		for i := range other.messages {
			done := &other.messages[i]
			if lane != "" && other.entry.Compare(f.entry) < 0 && done.fate == fateDone && other.left > 0 && w.lane(done.Key) == lane {
				require.Fail(w.t, "could be committed first", "%s is begun while the entry of %s is not through", m.Position, done.Position)
			}
		}
	}
	if lane != "" && !e.free {
		for _, before := range w.entries {
			for i, key := range before.keys {
				at := codec.Position{Entry: before.id, Index: i}
				if before.open[i] && !before.handled[i] && !before.free && before.place != gone && w.lane(key) == lane && at.Compare(m.Position) < 0 {
					require.Fail(w.t, "out of order", "%s is begun before %s (%v) of lane %s", m.Position, at, before.place, lane)
				}
			}
		}
	}
	w.running = append(w.running, begun)
	return true
}

func (w *world) finish(i int, err error) {
	r := w.running[i]
	w.running = slices.Delete(w.running, i, i+1)
	if err == nil {
		w.find(r.f.entry).handled[r.m.Position.Index] = true
	}
	w.tr.finish(r, err)
}

// How a call to commit an entry ends.
const (
	obeyed  = iota
	refused // by a full server
	unheard // it was done, and the reply is lost
)

// settle does what the settle loop does about one entry that is through.
func (w *world) settle(how int) bool {
	var by [verdicts][]*flight
	w.tr.collect(&by)
	for _, some := range by {
		w.through = append(w.through, some...)
	}
	for i, f := range w.through {
		require.NotContains(w.t, w.through[i+1:], f, "it is through once: its outputs would be written twice")
	}
	if len(w.through) == 0 {
		return false
	}
	f := w.through[0]
	w.through = w.through[1:]
	if w.tr.flights.of(f.entry) != f {
		return true
	}
	e := w.find(f.entry)
	switch f.verdict() {
	case toForget:
		w.tr.remove(f)
	case toHandBack:
		w.tr.release(tier.Held{Entry: e.id}, w.clock)
		e.place, e.count = loose, e.count-1
	case toSettle:
		w.close(f, e)
		e.place = gone
		w.tr.remove(f)
	case toCommit:
		w.commit(f, e, how)
	}
	return true
}

func (w *world) commit(f *flight, e *worldEntry, how int) {
	a := f.ending()
	if e.place == mine { // or an earlier call had its effect
		if how == refused {
			e.place = loose
			w.tr.release(tier.Held{Entry: e.id}, w.clock.Add(time.Minute))
			return
		}
		w.close(f, e)
		e.place = gone
		for _, o := range a.Open {
			e.attempt[o.Index], e.dues[o.Index], e.place = o.Attempt, w.clock.Add(o.Delay), laid
		}
		e.due = w.clock.Add(firstDue(a.Open))
	}
	if how == unheard {
		f.unsure = true
		w.through = append(w.through, f)
		return
	}
	w.tr.committed(f, firstDue(a.Open))
}

func (w *world) close(f *flight, e *worldEntry) {
	for i := range f.messages {
		if m := &f.messages[i]; m.fate == fateDone || m.fate == fateDead {
			e.open[m.Position.Index] = false
		}
	}
}

// read is how the fetcher brings new entries in, one at a time.
func (w *world) read(workers int) bool {
	fresh := w.in(unread)
	if w.tr.room(workers).read == 0 || len(fresh) == 0 {
		return false
	}
	w.tr.takeNew([]tier.Leased{w.leased(fresh[0])})
	return true
}

// bring takes a parked or released entry up again.
func (w *world) bring(e *worldEntry, workers int) bool {
	if w.tr.room(workers).take == 0 {
		return false
	}
	if e.place == laid {
		w.tr.takeNew([]tier.Leased{w.leased(e)})
	} else {
		w.tr.take([]tier.Leased{w.leased(e)})
	}
	return true
}

func (w *world) learn() {
	var found []tier.Parked
	for _, e := range w.in(laid) {
		for i, key := range e.keys {
			if e.open[i] {
				found = append(found, tier.Parked{Position: codec.Position{Entry: e.id, Index: i}, Key: key, Delay: e.due.Sub(w.clock)})
			}
		}
	}
	w.tr.learn(found)
}

// drain lets all go well from here on, with the room that there is: everything has to end.
func (w *world) drain(workers int) {
	for step := 0; ; step++ {
		require.Less(w.t, step, 20_000, "it does not end: %s", w)
		for len(w.running) < workers && w.begin() {
		}
		switch {
		case len(w.running) > 0:
			w.finish(0, nil)
		case w.settle(obeyed):
		case w.read(workers):
		case w.others && w.tr.lanes.overdue(w.clock.Add(-overdueGrace), w.tr.isHere): // as the fetcher asks
			w.learn()
			w.clock = w.clock.Add(time.Second)
			w.bringFirst(workers)
		default:
			if !w.bringFirst(workers) {
				if len(w.in(gone)) == len(w.entries) && w.tr.messages == 0 {
					return
				}
				require.True(w.t, w.others, "stuck: %s", w)
				w.clock = w.clock.Add(time.Hour)
				require.True(w.t, w.tr.lanes.overdue(w.clock, w.tr.isHere), "stuck, and nothing is asked: %s", w)
				w.learn()
			}
		}
	}
}

// bringFirst takes up what is due first, when it is.
func (w *world) bringFirst(workers int) bool {
	back := append(w.in(loose), w.in(laid)...)
	if len(back) == 0 {
		return false
	}
	first := slices.MinFunc(back, func(a, b *worldEntry) int { return a.due.Compare(b.due) })
	if first.due.After(w.clock) {
		w.clock = first.due
	}
	require.True(w.t, w.bring(first, workers), "no room for what all wait for: %s", w)
	return true
}

func (w *world) String() (text string) {
	for _, e := range w.entries {
		text += fmt.Sprintf("%s %v keys %v open %v; ", e.id, e.place, e.keys, e.open)
	}
	return text
}

// TestLanes: by random actions on a tracker with an order, no lane is out of order or has two messages at work, whatever
// fails, is taken up out of order, trimmed, lost to another consumer, handed back or brought back from the dead letters;
// and in the end everything ends, with fewer workers than keys and room for a few messages only.
func TestLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SampledFrom([]Order{ByKey, Strict}).Draw(t, "order")
		workers := 1
		if order == ByKey {
			workers = rapid.IntRange(1, 3).Draw(t, "workers")
		}
		w := &world{t: t, order: order, clock: time.Unix(1_800_000_000, 0)}
		p := policy{deliveries: 6, base: time.Second, longest: time.Minute}
		w.tr = newTracker(t.Context(), rapid.IntRange(3, 8).Draw(t, "room"), 1<<30, p, order)
		w.tr.lanes.now = func() time.Time { return w.clock }
		pick := func(t *rapid.T, name string, places ...worldPlace) *worldEntry {
			list := w.in(places...)
			if len(list) == 0 {
				t.Skip("none")
			}
			return rapid.SampledFrom(list).Draw(t, name)
		}
		one := func(t *rapid.T) int {
			if len(w.running) == 0 {
				t.Skip("nothing runs")
			}
			return rapid.IntRange(0, len(w.running)-1).Draw(t, "which")
		}
		add := func(t *rapid.T) {
			e := &worldEntry{id: entryAt(len(w.entries)), keys: rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "a", "b", "c"}), 1, 3).Draw(t, "keys")}
			e.open, e.handled, e.attempt = make([]bool, len(e.keys)), make([]bool, len(e.keys)), make([]int, len(e.keys))
			e.dues = make([]time.Time, len(e.keys))
			for i := range e.open {
				e.open[i] = true
			}
			w.entries = append(w.entries, e)
		}
		for range rapid.IntRange(0, 4).Draw(t, "parked before") {
			add(t)
			e := w.entries[len(w.entries)-1]
			e.place, e.due = laid, w.clock.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "due"))*time.Second)
		}
		w.learn()
		vanish := func(e *worldEntry) {
			e.place = gone
			w.others = w.others || w.tr.flights.of(e.id) != nil // and parked, which this consumer has not heard yet
			w.tr.vanished([]codec.EntryID{e.id})
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": add,
			"read":   func(*rapid.T) { w.read(workers) },
			"begin": func(*rapid.T) {
				if len(w.running) < workers {
					w.begin()
				}
			},
			"succeed": func(t *rapid.T) { w.finish(one(t), nil) },
			"fail":    func(t *rapid.T) { w.finish(one(t), errBroken) },
			"snooze":  func(t *rapid.T) { w.finish(one(t), Snooze(time.Second)) },
			"give up": func(t *rapid.T) { w.finish(one(t), Permanent(errBroken)) },
			"settle":  func(*rapid.T) { w.settle(obeyed) },
			"unheard": func(*rapid.T) { w.settle(unheard) },
			"read late": func(t *rapid.T) { // one that was under way when a message failed
				if e := pick(t, "entry", unread); e == w.in(unread)[0] && len(w.tr.lanes.strays) == 0 {
					w.tr.takeNew([]tier.Leased{w.leased(e)})
				}
			},
			"refuse":    func(*rapid.T) { w.settle(refused) },
			"take over": func(t *rapid.T) { w.bring(pick(t, "entry", loose), workers) },
			"due":       func(t *rapid.T) { w.bring(pick(t, "entry", laid), workers) }, // in any order
			"pass": func(t *rapid.T) {
				w.clock = w.clock.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"learn": func(*rapid.T) { w.learn() },
			"trim":  func(t *rapid.T) { vanish(pick(t, "entry", laid, loose)) },
			"trim what runs": func(t *rapid.T) {
				e := pick(t, "entry", mine)
				e.free = true // its messages are handled all the same, and nothing becomes of that
				vanish(e)
			},
			"reply lost": func(t *rapid.T) { // of a read: the server gave an entry out, and nobody knows which
				fresh := w.in(unread)
				if w.tr.room(workers).read == 0 || len(fresh) == 0 {
					t.Skip("no read")
				}
				fresh[0].place = loose
				w.tr.stray(tier.Held{Entry: fresh[0].id}, w.clock)
			},
			"lose": func(t *rapid.T) { // this consumer was silent for a lease
				var held []tier.Held
				lost := pick(t, "entry", mine, loose)
				for _, e := range w.in(mine, loose) {
					if e != lost {
						held = append(held, tier.Held{Entry: e.id})
					}
				}
				lost.place, lost.free, w.others = other, true, true
				w.tr.reconcile(held)
			},
			"another takes": func(t *rapid.T) { e := pick(t, "entry", laid); e.place, e.free, w.others = other, true, true },
			"another ends":  func(t *rapid.T) { pick(t, "entry", other).place = gone },
			"another parks": func(t *rapid.T) {
				e := pick(t, "entry", other)
				e.place, e.due = laid, w.clock.Add(time.Second)
			},
			"another dies": func(t *rapid.T) { pick(t, "entry", other).place = loose },
			"": func(t *rapid.T) {
				require.GreaterOrEqual(t, w.tr.messages, 0)
				lanes := 0
				for _, places := range w.tr.lanes.places {
					lanes += len(places)
				}
				require.Equal(t, lanes, w.tr.lanes.parked)
				for _, l := range w.tr.lanes.byKey {
					for i := range l.waiting.count {
						waits := l.waiting.at(i)
						require.False(t, order == ByKey && waits.isOpen() && l.blocked(waits.m.Position), "%s is in flight and waits for a parked one", waits.m.Position)
					}
				}
			},
		})
		for _, e := range w.in(other) {
			e.place = gone
		}
		w.drain(workers)
		if w.others {
			w.learn() // which the fetcher asks for when something is overdue
		}
		require.Zero(t, w.tr.lanes.parked)
		require.Zero(t, w.tr.messages)
		require.Empty(t, w.tr.lanes.byKey, "a lane is kept of which nothing is left")
	})
}

// Of a strict lane nothing is parked while something before it is in flight, whenever it comes: an owner that takes over
// would handle it first.
func TestStrictParksTheFirst(t *testing.T) {
	tr := newTracker(t.Context(), 100, 1<<20, policy{base: time.Second, longest: time.Minute}, Strict)
	leased := func(seq uint64) tier.Leased {
		e := codec.EntryID{Ms: 1, Seq: seq}
		return tier.Leased{Entry: e, Deliveries: 1, Records: []codec.Record{{Position: codec.Position{Entry: e}}}}
	}
	tr.takeNew([]tier.Leased{leased(1), leased(2)})
	first, _ := tr.begin()
	tr.finish(first, errors.New("not yet"))
	tr.takeNew([]tier.Leased{leased(3)}) // by a read that was under way
	require.Equal(t, []*flight{first.f}, tr.through)
	require.Equal(t, 1, tr.lanes.parked)
	require.Zero(t, tr.room(1).read, "what is here waits, and more would too")
}

// What a lane has is begun and ended by turns at the tracker only: a stop between the end of a handler and its telling counts it once.
func TestLanesAreNotFollowed(t *testing.T) {
	tr := newTracker(t.Context(), 10, 1<<20, policy{}, ByKey)
	tr.takeNew([]tier.Leased{leasedEntry(1, 1, false, false)})
	begun, ok := tr.begin()
	require.True(t, ok)
	_, ok = begun.follow()
	require.False(t, ok)
	tr.close()
	_, through := tr.finish(begun, nil)
	require.True(t, through)
	var by [verdicts][]*flight
	require.True(t, tr.collect(&by))
	require.Len(t, by[toHandBack], 1)
}
