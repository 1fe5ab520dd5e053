package retention_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// fates are what handlers make of a message, which its data end with: how often it fails before it is done, or that it is given up
// at once, and done after it was redriven.
var fates = []string{"done", "done", "done", "fails once", "fails twice", "given up"}

// twin is one of two streams that are given the same messages, one in packs and one not. Its writers lose replies.
type twin struct {
	*stage
	name    string
	writer  *stream.Writer
	named   *stream.Writer // a named producer
	proxy   *tiertest.Proxy
	group   *stream.Group
	reader  *retention.Reader
	past    *retention.Past
	sweeper *retention.Sweeper
	ids     []codec.ID // of the messages, in order

	consumer, table *running

	mu       sync.Mutex
	handled  []string        // number and attempt of each message that a handler had
	redriven map[string]bool // by data
}

// running is what goes on until it is stopped.
type running struct {
	cancel func()
	ended  chan struct{}
	err    error
}

func runs(t testing.TB, run func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		if r.err = run(ctx); r.err != nil {
			t.Log(r.err) // what cannot be reproduced is not told otherwise
		}
	}()
	return r
}

func (r *running) stop(t require.TestingT) {
	r.cancel()
	<-r.ended
	require.NoError(t, r.err)
}

func newTwin(s *stage, name string, pack int, compression codec.Compression) *twin {
	w := &twin{stage: s, name: name, proxy: tiertest.NewProxy(s.t, s.server), redriven: map[string]bool{}}
	cfg := stream.WriterConfig{Address: s.address(name), Pack: pack, Compression: compression}
	var err error
	w.writer, err = stream.NewWriter(tiertest.Dial(s.t, w.proxy), cfg)
	require.NoError(s.t, err)
	cfg.Producer = "p"
	w.named, err = stream.NewWriter(tiertest.Dial(s.t, w.proxy), cfg)
	require.NoError(s.t, err)
	_, err = w.writer.Declare(s.ctx)
	require.NoError(s.t, err)

	store := &archive.Memory{}
	stores := func(context.Context, string) (archive.Store, error) { return store, nil }
	w.sweeper = s.sweeper(retention.SweeperConfig{Stream: name, Settle: time.Millisecond, Temp: s.t.TempDir(), Stores: stores})
	w.past = retention.NewPast(s.client, stores)
	archived, err := archive.NewReader(store, archive.ReaderConfig{Address: s.address(name)})
	require.NoError(s.t, err)
	w.reader = s.reader(name, retention.ReaderConfig{Archive: archived})
	w.group, err = stream.NewGroup(s.client, stream.GroupConfig{Address: s.address(name), Name: "g", Start: stream.Head(), Lease: time.Minute})
	require.NoError(s.t, err)
	return w
}

// begins begins to handle what the stream has. Who stops a consumer that has not joined hears what Join answered last.
func (w *twin) begins() {
	c, err := consumer.New(consumer.Group(w.group), w.handle, consumer.Config{
		Concurrency: 4, MaxInFlight: 16, Order: consumer.ByKey, Backoff: time.Millisecond, MaxBackoff: time.Millisecond,
	})
	require.NoError(w.t, err)
	w.consumer = runs(w.t, c.Run)
	select {
	case <-c.Ready():
	case <-w.consumer.ended: // who stops it hears why
	}
}

func (w *twin) handle(_ context.Context, d *consumer.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	number, fate, _ := strings.Cut(string(d.Data), " ")
	w.handled = append(w.handled, fmt.Sprint(number, "/", d.Attempt))
	switch {
	case fate == "fails once" && d.Attempt < 2, fate == "fails twice" && d.Attempt < 3:
		return fmt.Errorf("attempt %d", d.Attempt)
	case fate == "given up" && !w.redriven[number]:
		return consumer.Permanent(fmt.Errorf("no %s", number))
	}
	return nil
}

// chain is a state in which each message of a key counts, and their order.
type chain struct{ Count, Hash uint64 }

func (c chain) with(data []byte) chain {
	c.Count++
	for _, b := range data {
		c.Hash = c.Hash*31 + uint64(b)
	}
	return c
}

// projects begins to fold what the stream has into a table.
func (w *twin) projects(table string) *running {
	p, err := projection.NewTable(w.client, projection.TableConfig[chain]{
		Config: projection.Config{Address: w.address(w.name), Name: w.name + "-" + table, Batch: 20, Past: w.past},
		Fold:   func(c chain, d *consumer.Delivery) (chain, error) { return c.with(d.Data), nil },
	})
	require.NoError(w.t, err)
	return runs(w.t, p.Run)
}

// folded waits until a table is what it should be.
func (w *twin) folded(table string, want map[string]chain) {
	v, err := projection.NewView[chain](w.client, w.scope, w.name+"-"+table, nil)
	require.NoError(w.t, err)
	tiertest.Eventually(w.t, soon, func() (bool, string) {
		got, err := v.GetAll(w.ctx, slices.Collect(maps.Keys(want))...)
		return err == nil && maps.Equal(got, want), fmt.Sprint(w.name, " ", table, ": ", got, err, ", want ", want)
	})
}

// laws are two twins, and what both of them should be.
type laws struct {
	t        *rapid.T
	twins    []*twin
	sent     []codec.Message
	handled  []string
	dead     []string        // numbers of the messages that are given up
	keys     map[string]int  // of AppendOnce, and the messages under them
	position uint64          // of the named producer
	last     []codec.Message // of its last call
	lastIDs  map[*twin][]codec.ID
}

// makes is the next n messages.
func (l *laws) makes(n int) []codec.Message {
	ms := make([]codec.Message, n)
	for i := range ms {
		fate := rapid.SampledFrom(fates).Draw(l.t, "fate")
		ms[i] = codec.Message{Type: "t", Key: fmt.Sprint("k", rapid.IntRange(0, 3).Draw(l.t, "key")), Data: fmt.Append(nil, len(l.sent)+i, " ", fate)}
		if i%2 == 0 {
			ms[i].Headers = codec.Headers{{Key: "n", Value: fmt.Sprint(i)}}
		}
	}
	return ms
}

// knows notes messages that are appended, and what handlers will make of them.
func (l *laws) knows(ms []codec.Message) {
	for i := range ms {
		l.sent = append(l.sent, ms[i])
		number, fate, _ := strings.Cut(string(ms[i].Data), " ")
		l.attempts(number, map[string]int{"fails once": 2, "fails twice": 3}[fate])
		if fate == "given up" {
			l.dead = append(l.dead, number)
		}
	}
}

func (l *laws) attempts(number string, n int) {
	for attempt := range max(n, 1) {
		l.handled = append(l.handled, fmt.Sprint(number, "/", attempt+1))
	}
}

// each has both twins append messages, with a reply that may be lost, and takes their ids.
func (l *laws) each(ms []codec.Message, appends func(w *twin) ([]codec.ID, error)) {
	l.loses()
	for _, w := range l.twins {
		ids, err := appends(w)
		require.NoError(l.t, err, w.name)
		require.Len(l.t, ids, len(ms), w.name)
		w.ids = append(w.ids, ids...)
	}
	l.knows(ms)
}

// loses has each writer lose the reply to one of its next commands, or not.
func (l *laws) loses() {
	nth := rapid.IntRange(0, 12).Draw(l.t, "lost")
	if nth == 0 {
		return
	}
	for _, w := range l.twins {
		left := nth
		w.proxy.DropNextReply(func([]string) bool { left--; return left == 0 })
	}
}

// publishes has both twins take messages that nobody waits for.
func (l *laws) publishes(ms []codec.Message) {
	l.each(ms, func(w *twin) (ids []codec.ID, err error) {
		for _, m := range ms {
			require.NoError(l.t, w.writer.Publish(w.ctx, m, func(id codec.ID, err error) {
				if ids = append(ids, id); err != nil {
					w.t.Error(err)
				}
			}))
		}
		return ids, w.writer.Flush(w.ctx)
	})
}

// once appends under a key, which appends nothing the second time.
func (l *laws) once(key string) {
	at, known := l.keys[key]
	ms := l.makes(1)
	fresh := func(w *twin) codec.ID {
		id, fresh, err := w.writer.AppendOnce(w.ctx, key, time.Hour, ms[0])
		require.NoError(l.t, err, w.name)
		require.Equal(l.t, !known, fresh, w.name)
		return id
	}
	if known {
		for _, w := range l.twins {
			require.Equal(l.t, w.ids[at], fresh(w), w.name)
		}
		return
	}
	l.keys[key] = len(l.sent)
	l.each(ms, func(w *twin) ([]codec.ID, error) { return []codec.ID{fresh(w)}, nil })
}

// produces appends at the next position of a named producer.
func (l *laws) produces(ms []codec.Message) {
	l.position += uint64(len(ms))
	l.last, l.lastIDs = ms, map[*twin][]codec.ID{}
	l.each(ms, func(w *twin) ([]codec.ID, error) {
		ids, err := w.named.AppendAt(w.ctx, l.position, ms)
		l.lastIDs[w] = ids
		return ids, err
	})
}

// repeats repeats the last call of the named producer, which has no effect.
func (l *laws) repeats() {
	for _, w := range l.twins {
		other, err := stream.NewWriter(w.client, stream.WriterConfig{Address: w.address(w.name), Producer: "p"})
		require.NoError(l.t, err)
		position, err := other.Position(w.ctx)
		require.NoError(l.t, err, w.name)
		require.Equal(l.t, l.position, position, w.name)
		ids, err := w.named.AppendAt(w.ctx, l.position, l.last)
		require.NoError(l.t, err, w.name)
		require.Equal(l.t, l.lastIDs[w], ids, w.name)
	}
}

// expects appends where the log ends with the newest message, and nothing where it would end with another.
func (l *laws) expects(ms []codec.Message) {
	tails := map[*twin][]codec.Record{}
	for _, w := range l.twins {
		r, err := stream.NewReader(w.client, stream.ReaderConfig{Address: w.address(w.name)})
		require.NoError(l.t, err)
		tails[w], err = r.Last(w.ctx, 2)
		require.NoError(l.t, err)
	}
	for _, w := range l.twins {
		if len(tails[w]) < 2 {
			return
		}
		_, err := w.writer.AppendIf(w.ctx, ms, stream.Expect(tails[w][0].Addr))
		require.ErrorAs(l.t, err, new(*stream.ConflictError), w.name)
	}
	l.each(ms, func(w *twin) ([]codec.ID, error) {
		return w.writer.AppendIf(w.ctx, ms, stream.Expect(tails[w][1].Addr))
	})
}

// rests waits until all is handled, and settled, and finds that handlers have had each message as often as they should. Of a group
// whose consumers come and go that need not be in order; a table's messages are.
func (l *laws) rests() {
	for _, w := range l.twins {
		tiertest.Eventually(w.t, soon, func() (bool, string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.handled) >= len(l.handled), fmt.Sprint(w.name, ": ", len(w.handled), " of ", len(l.handled))
		})
		tiertest.Eventually(w.t, soon, func() (bool, string) {
			list, err := stream.Groups(w.ctx, w.client, w.address(w.name))
			require.NoError(l.t, err)
			return list[0].Pending+list[0].Parked == 0, fmt.Sprintf("%s: %+v", w.name, list[0])
		})
		w.mu.Lock()
		require.ElementsMatch(l.t, l.handled, w.handled, w.name)
		w.mu.Unlock()
	}
}

// redrives has all that was given up handled again: the messages alone, not the packs that they are in.
func (l *laws) redrives() {
	l.rests()
	want := map[string]codec.Message{}
	for _, number := range l.dead {
		at := 0
		_, err := fmt.Sscan(number, &at)
		require.NoError(l.t, err)
		want[number] = l.sent[at]
	}
	for _, w := range l.twins {
		var ids []codec.EntryID
		got := map[string]codec.Message{}
		for letter, err := range stream.DeadLetters(w.ctx, w.client, w.address(w.name), "g") {
			require.NoError(l.t, err)
			number, _, _ := strings.Cut(string(letter.Record.Data), " ")
			require.Equal(l.t, "no "+number, letter.Reason, w.name)
			got[number] = letter.Record.Message
			ids = append(ids, letter.ID)
		}
		require.Equal(l.t, want, got, w.name)
		if len(ids) == 0 {
			continue
		}
		w.mu.Lock()
		for number := range want {
			w.redriven[number] = true
		}
		w.mu.Unlock()
		result, err := stream.Redrive(w.ctx, w.client, w.address(w.name), "g", ids)
		require.NoError(l.t, err)
		require.Equal(l.t, stream.RedriveResult{Redriven: len(ids)}, result, w.name)
	}
	for _, number := range l.dead {
		l.attempts(number, 1)
	}
	l.dead = nil
	l.rests()
}

// moves archives what is settled, and takes it out of the logs, of which at least so many entries stay.
func (l *laws) moves(stay int64) (trimmed int64) {
	l.redrives()
	for _, w := range l.twins {
		w.declare(w.name, stream.Retention{MaxLength: stay, Exact: true, Archive: "mem://store", SegmentAge: time.Millisecond})
		archived, err := w.sweeper.Archive(w.ctx)
		require.NoError(l.t, err)
		require.NoError(l.t, archived[0].Err)
		swept, err := w.sweeper.Once(w.ctx)
		require.NoError(l.t, err)
		require.NoError(l.t, swept[0].Err)
		trimmed += swept[0].Entries
	}
	return trimmed
}

// reads finds both twins to have what was sent, as a whole and in parts, in the log and in the archive.
func (l *laws) reads() {
	n := len(l.sent)
	from := rapid.IntRange(0, n-1).Draw(l.t, "from")
	to := rapid.IntRange(from, n-1).Draw(l.t, "to")
	for _, w := range l.twins {
		all := w.collected(w.reader.Range(w.ctx, codec.EntryID{}, codec.MaxEntryID))
		require.Len(l.t, all, n, w.name)
		for i := range all {
			require.Equal(l.t, l.sent[i], all[i].Message, "%s, at %d", w.name, i)
			require.Equal(l.t, w.ids[i], all[i].ID, "%s, at %d", w.name, i)
			if i > 0 {
				require.Positive(l.t, all[i].Addr.Compare(all[i-1].Addr), w.name)
				require.Positive(l.t, all[i].Position.Compare(all[i-1].Position), w.name)
			}
		}
		require.Equal(l.t, all[from:to+1], w.collected(w.reader.Range(w.ctx, all[from].Addr, all[to].Addr)), w.name)
		require.Equal(l.t, all[from:], w.collected(w.reader.Range(w.ctx, all[from].Addr, codec.MaxEntryID)), w.name)
		last, err := w.reader.Last(w.ctx, n-from)
		require.NoError(l.t, err)
		require.Equal(l.t, all[from:], last, w.name)
		found, err := w.reader.Get(w.ctx, w.ids[to])
		require.NoError(l.t, err)
		require.Equal(l.t, all[to], found, w.name)
		var of []codec.Record
		for _, r := range all[from : to+1] {
			if r.Key == all[to].Key {
				of = append(of, r)
			}
		}
		require.Equal(l.t, of, w.collected(w.reader.ByKey(w.ctx, all[to].Key, all[from].Addr, all[to].Addr)), w.name)
	}
}

// state is what a table should be.
func (l *laws) state() map[string]chain {
	state := map[string]chain{}
	for _, m := range l.sent {
		state[m.Key] = state[m.Key].with(m.Data)
	}
	return state
}

// TestPacksKeepEveryLaw: of two streams that are given the same messages, one in packs, compressed or not, neither shows which of
// them it is: their order, lookups, what was appended twice, who fails, is tried again, given up or redriven, what stays when
// consumers come and go, what is archived and trimmed, and what tables fold of them.
func TestPacksKeepEveryLaw(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	require.NoError(t, checks.Value.Set("2")) // they wait for most of their time, so that several go side by side
	var trimmed, lost atomic.Int64
	t.Run("of", func(t *testing.T) {
		for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
			for _, pack := range []int{2, 7, 100} {
				t.Run(fmt.Sprint(pack, " on ", kind), func(t *testing.T) {
					t.Parallel()
					rapid.Check(t, func(rt *rapid.T) { keepEveryLaw(rt, newStage(t, tiertest.Shared(t, kind)), pack, &trimmed, &lost) })
				})
			}
		}
	})
	require.NoError(t, checks.Value.Set(before))
	require.Positive(t, trimmed.Load(), "nothing was ever trimmed")
	require.Positive(t, lost.Load(), "no reply was ever lost")
}

func keepEveryLaw(t *rapid.T, s *stage, pack int, trimmed, lost *atomic.Int64) {
	compression := rapid.SampledFrom([]codec.Compression{codec.NoCompression, codec.Zstd}).Draw(t, "compression")
	l := &laws{
		t: t, keys: map[string]int{},
		twins: []*twin{newTwin(s, "plain", 1, codec.NoCompression), newTwin(s, "packed", pack, compression)},
	}
	for _, w := range l.twins {
		publisher := runs(w.t, w.writer.Run)
		<-w.writer.Ready()
		w.begins()
		w.table = w.projects("table")
		defer func() {
			w.table.stop(t)
			w.consumer.stop(t)
			publisher.stop(t)
			lost.Add(int64(w.proxy.Dropped()))
		}()
	}
	some := func() []codec.Message { return l.makes(rapid.IntRange(1, 12).Draw(t, "n")) }
	l.publishes(some())
	t.Repeat(map[string]func(*rapid.T){
		"append": func(*rapid.T) {
			ms := some()
			l.each(ms, func(w *twin) ([]codec.ID, error) { return w.writer.AppendBatch(w.ctx, ms) })
		},
		"publish": func(*rapid.T) { l.publishes(some()) },
		"once":    func(*rapid.T) { l.once(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "once")) },
		"produce": func(*rapid.T) { l.produces(some()) },
		"repeat": func(t *rapid.T) {
			if l.position == 0 {
				t.Skip("nothing to repeat")
			}
			l.repeats()
		},
		"expect":  func(*rapid.T) { l.expects(some()) },
		"rest":    func(*rapid.T) { l.rests() },
		"redrive": func(*rapid.T) { l.redrives() },
		"restart": func(*rapid.T) {
			for _, w := range l.twins {
				w.consumer.stop(t)
				w.begins()
			}
		},
		"another folds": func(*rapid.T) {
			for _, w := range l.twins {
				w.table.stop(t)
				w.table = w.projects("table")
			}
		},
		"move": func(*rapid.T) { trimmed.Add(l.moves(rapid.Int64Range(1, 5).Draw(t, "stay"))) },
		"read": func(*rapid.T) { l.reads() },
	})
	l.redrives()
	l.reads()
	for _, w := range l.twins {
		w.folded("table", l.state())
		anew := w.projects("anew") // of the archive and of the log
		w.folded("anew", l.state())
		anew.stop(t)
	}
}
