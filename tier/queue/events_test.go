package queue_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// messages are those of the events' stream behind an address, as any reader of streams has them.
func (f *fixture) messages(after codec.EntryID) (all []codec.Record) {
	f.t.Helper()
	r, err := stream.NewReader(f.client, stream.ReaderConfig{Address: f.queue.Events().String()})
	require.NoError(f.t, err)
	for record, err := range r.Range(f.ctx, after.Next(), codec.MaxEntryID) {
		require.NoError(f.t, err)
		require.NoError(f.t, record.Err)
		require.False(f.t, record.Foreign())
		all = append(all, record)
	}
	return all
}

// told is what the messages tell.
func (f *fixture) told(records []codec.Record) (all []queue.Event) {
	f.t.Helper()
	for i := range records {
		events, err := queue.DecodeEvents(&records[i].Message)
		require.NoError(f.t, err)
		all = append(all, events...)
	}
	return all
}

// witness reads what is told of jobs, step by step.
type witness struct {
	*fixture
	at  codec.EntryID
	ids []codec.ID // of jobs, by their numbers
	by  map[string]string
}

func newWitness(f *fixture) *witness {
	require.NoError(f.t, f.jobs.DeclareEvents(f.ctx, 1000))
	w := &witness{fixture: f, by: map[string]string{}}
	require.Empty(f.t, w.next())
	return w
}

// next is what was told since the last call, a line for each message: what, job, from, to, lane, by and reason of each event, with "ms"
// where it is known how long it was what it was.
func (w *witness) next() (lines []string) {
	w.t.Helper()
	for _, record := range w.messages(w.at) {
		w.at = record.Position.Entry
		var line []string
		for _, e := range w.told([]codec.Record{record}) {
			line = append(line, w.words(&e))
		}
		if len(line) > 0 {
			lines = append(lines, strings.Join(line, ", "))
		}
	}
	return lines
}

func (w *witness) words(e *queue.Event) string {
	n := slices.Index(w.ids, e.Job)
	if n < 0 && !e.Job.IsZero() {
		n, w.ids = len(w.ids), append(w.ids, e.Job)
	}
	by := e.By
	if name, ok := w.by[by]; ok {
		by = name
	}
	text := fmt.Sprintf("%s %d %s>%s %s", e.What(), n, e.From, e.To, strings.Join([]string{e.Lane, by, e.Reason}, "/"))
	if e.After >= 0 {
		text += " ms"
	}
	return text
}

func (w *witness) joined(name string) *queue.Member {
	m := w.join(w.workers)
	w.by[m.Name()] = name
	return m
}

// TestEvents: each script that changes what a job is tells so, in one message for a call, in the order in which it happened;
// one that changes nothing tells nothing.
func TestEvents(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		w := newWitness(setUp(t, s))
		me, other := w.joined("me"), w.joined("other")
		var third *queue.Member
		var leased []tier.Leased
		for _, step := range []struct {
			name string
			do   func()
			want []string
		}{
			{"enqueue", func() { w.enqueue("a", "a", "b") }, []string{"enqueued 0 absent>ready a//, enqueued 1 absent>ready a//, enqueued 2 absent>ready b//"}},
			{"a duplicate", func() {
				_, err := w.jobs.Enqueue(w.ctx, queue.Job{ID: w.ids[0]})
				require.ErrorIs(t, err, queue.ErrDuplicate)
			}, nil},
			{"claim", func() { leased = w.read(me, 3) }, []string{"started 0 ready>active a/me/ ms, started 2 ready>active b/me/ ms, started 1 ready>active a/me/ ms"}},
			{"nothing to claim", func() { w.none(other) }, nil},
			{"renew", func() { _, err := me.Renew(w.ctx, entriesOf(leased)); require.NoError(t, err) }, nil},
			{"settle", func() { w.settle(me, leased[0]) }, []string{"completed 0 active>done a/me/ ms"}},
			{"settle again", func() { _, err := me.Settle(w.ctx, entriesOf(leased[:1])); require.NoError(t, err) }, nil},
			{"commit", func() {
				require.NoError(t, me.Commit(w.ctx, []tier.Ending{dead(leased[1], "no"), again(leased[2], 0)}))
			}, []string{"died 2 active>dead b/me/no ms, postponed 1 active>retry a/me/ ms"}},
			{"promote", func() { _, err := me.Due(w.ctx, 10); require.NoError(t, err) }, []string{"promoted 1 retry>ready a//"}},
			{"requeue", func() { _, err := w.jobs.Retry(w.ctx, w.ids[2]); require.NoError(t, err) }, []string{"requeued 2 dead>retry b//"}},
			{"cancel", func() { _, err := w.jobs.Cancel(w.ctx, w.ids[2], "why"); require.NoError(t, err) }, []string{"cancelled 2 retry>gone b//cancelled: why"}},
			{"move", func() { require.NoError(t, w.jobs.Move(w.ctx, w.ids[1], "c")) }, []string{"changed 1 ready>ready c//moved"}},
			{"claim again", func() { leased = w.read(other, 1) }, []string{"started 1 ready>active c/other/ ms"}},
			{"release", func() { require.NoError(t, other.Release(w.ctx, entryOf(leased[0], 1), 0)) }, nil},
			{"takeover", func() {
				third = w.joined("third")
				leased, _ = w.takeOver(third, 10, 0)
			}, []string{"taken over 1 active>active c/third/"}},
			{"told to be cancelled", func() { _, err := w.jobs.Cancel(w.ctx, w.ids[1], "late"); require.NoError(t, err) }, nil},
			{"commit, cancelled", func() { w.commit(third, again(leased[0], 0)) }, []string{"cancelled 1 active>dead c/third/cancelled: late ms"}},
			{"remove", func() { require.NoError(t, w.jobs.Remove(w.ctx, w.ids[1])) }, []string{"removed 1 dead>gone c//removed"}},
			{"replace", func() {
				u := queue.Unique{Key: "k", Conflict: queue.Replace}
				w.unique(u, "1", 0)
				w.unique(u, "2", 0)
			}, []string{"enqueued 3 absent>ready default//", "changed 3 ready>ready default//replaced"}},
			{"replace what waits", func() {
				u := queue.Unique{Key: "l", Conflict: queue.Replace}
				w.unique(u, "1", time.Hour)
				w.unique(u, "2", time.Hour)
			}, []string{"enqueued 4 absent>scheduled default//", "changed 4 scheduled>scheduled default//replaced"}},
			{"move what waits", func() { require.NoError(t, w.jobs.Move(w.ctx, w.ids[4], "d")) }, []string{"changed 4 scheduled>scheduled d//moved"}},
			{"update", func() {
				require.NoError(t, w.jobs.Update(w.ctx, w.ids[3], codec.Message{Type: "t"}))
				require.NoError(t, w.jobs.Update(w.ctx, w.ids[4], codec.Message{Type: "t"}))
			}, []string{"changed 3 ready>ready default//updated", "changed 4 scheduled>scheduled d//updated"}},
			{"drain", func() { _, err := w.jobs.Drain(w.ctx); require.NoError(t, err) }, []string{"removed 3 ready>gone default//drained"}},
			{"enqueue_flow", func() { w.flow(flowOf("a", flowOf("b"))) }, []string{"enqueued 5 absent>waiting default//, enqueued 6 absent>scheduled default//"}},
			{"child done, note", func() { w.settle(me, w.take(me, 1)...) }, []string{
				"promoted 6 scheduled>ready default//", "started 6 ready>active default/me/ ms", "completed 6 active>done default/me/ ms", "promoted 5 waiting>scheduled default//",
			}},
			{"child dead, note", func() {
				w.flow(flowOf("a", flowOf("b")))
				leased = w.takeNamed(me, "a", "b")
				w.commit(me, dead(leased[1], "no"))
			}, []string{
				"enqueued 7 absent>waiting default//, enqueued 8 absent>scheduled default//",
				"promoted 5 scheduled>ready default//, promoted 8 scheduled>ready default//",
				"started 5 ready>active default/me/ ms, started 8 ready>active default/me/ ms",
				"died 8 active>dead default/me/no ms", "died 7 waiting>dead default//child " + childName + " of " + string(w.queue) + " dead: no",
			}},
			{"fire", func() {
				declareReport(&scene{fixture: w.fixture})
				w.do("ZADD", w.queue.OccurrencesKey(), "1000", "report")
				_, err := queue.NewSchedules(w.jobs).Fire(w.ctx)
				require.NoError(t, err)
			}, []string{"enqueued 9 absent>scheduled night/report/fired"}},
			{"obliterate", func() {
				require.NoError(t, w.jobs.Pause(w.ctx))
				_, err := w.jobs.Obliterate(w.ctx, string(w.queue))
				require.NoError(t, err)
			}, []string{"removed -1 >gone //obliterated"}},
		} {
			step.do()
			got := w.next()
			for i := range got {
				if len(w.ids) > 8 {
					got[i] = strings.ReplaceAll(got[i], w.ids[8].String(), childName)
				}
			}
			require.Equal(t, step.want, got, step.name)
		}
	})
}

const childName = "<child>"

// TestEventsOff: a queue that has not declared events has no stream of them, and one that has them no longer adds none; nor do
// scripts make a stream anew that was removed.
func TestEventsOff(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		log := f.queue.Events().LogKey()
		f.enqueue("a")
		require.Equal(t, "0", f.text("EXISTS", log))
		require.Equal(t, "0", f.text("EXISTS", tier.ScopeKey(string(f.queue))))
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 10))
		f.enqueue("a")
		require.Len(t, f.messages(codec.EntryID{}), 2, "they begin, and one job")
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 20))
		require.Len(t, f.messages(codec.EntryID{}), 2)
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 0))
		f.enqueue("a")
		require.Len(t, f.messages(codec.EntryID{}), 2)
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 20))
		require.Len(t, f.told(f.messages(codec.EntryID{})), 1)
		require.Len(t, f.messages(codec.EntryID{}), 3, "they begin again")

		_, err := stream.Remove(f.ctx, f.client, f.queue.Events().String())
		require.NoError(t, err)
		f.enqueue("a")
		require.Equal(t, "0", f.text("EXISTS", log))
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 20))
		f.enqueue("a")
		require.Len(t, f.messages(codec.EntryID{}), 2)
	})
}

// TestEventsBounded: of the messages about as many stay as were declared.
func TestEventsBounded(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 50))
		for range 400 {
			f.enqueue("a")
		}
		n, err := strconv.Atoi(f.text("XLEN", f.queue.Events().LogKey()))
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, 50)
		require.Less(t, n, 50+2*100, "whole nodes of a hundred are trimmed")
	})
}

// TestEventsReason: a long reason is cut, so that a message stays small.
func TestEventsReason(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		w := newWitness(setUp(t, s))
		m := w.joined("me")
		w.enqueue("a")
		reason := strings.Repeat("x", 199) + "yz"
		w.commit(m, dead(w.read(m, 1)[0], reason))
		events := w.told(w.messages(w.at))
		require.Equal(t, reason[:200], events[len(events)-1].Reason)
	})
}

// TestEventsWhenFull: on a full server a job is done, and it is told.
func TestEventsWhenFull(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWitness(setUp(t, tiertest.Private(t, kind)))
			m := w.joined("me")
			w.enqueue("a", "a")
			leased := w.read(m, 1)
			w.next()
			w.do("CONFIG", "SET", "maxmemory", "1")
			w.settle(m, leased...)
			leased = w.read(m, 1)
			w.do("CONFIG", "SET", "maxmemory", "0")
			require.Equal(t, []string{"completed 0 active>done a/me/ ms", "started 1 ready>active a/me/ ms"}, w.next())
			w.settle(m, leased...)
		})
	}
}

// TestEventsNotAppended: what was done to a job stays done when the event cannot be appended, and is not refused for it.
func TestEventsNotAppended(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 50))
		m := f.join(f.workers)
		ids := f.enqueue("a")
		f.do("DEL", f.queue.Events().LogKey())
		f.do("SET", f.queue.Events().LogKey(), "of another program")
		f.settle(m, f.read(m, 1)...)
		f.gone(ids...)
		var finding *tier.Finding
		require.ErrorAs(t, queue.Check(f.ctx, f.client, string(f.queue)), &finding)
		require.Equal(t, f.queue.Events().LogKey(), finding.Key)
		f.do("DEL", f.queue.Events().LogKey())
	})
}

// TestEventsIds: with the newest id ahead of the clock, and its millisecond full, the next message is in the next one, so that each
// has an id.
func TestEventsIds(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 50))
		ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
		f.do("XSETID", f.queue.Events().LogKey(), ahead+"-4094")
		f.enqueue("a")
		f.enqueue("a")
		records := f.messages(codec.EntryID{})
		require.Len(t, records, 3)
		require.Equal(t, ahead+"-4095", records[1].Addr.String())
		require.Equal(t, uint64(1), records[2].Addr.Seq)
	})
}

// TestDeclareEventsRefused: a scope that cannot hold the stream, or holds another one of its name.
func TestDeclareEventsRefused(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		scope := tier.ScopeKey(string(f.queue))
		for _, keep := range []int{-1, 1_000_000_000} {
			require.ErrorIs(t, f.jobs.DeclareEvents(f.ctx, keep), queue.ErrBadCall)
		}
		require.NoError(t, f.jobs.DeclareEvents(f.ctx, 10))
		brand := f.text("HGET", scope, tier.StreamField("jobs.events"))
		require.Equal(t, "JEV", brand)
		for field, value := range map[string]string{
			tier.PartitionsField: "8", tier.PartitionField: "x 1 8", tier.StreamField("jobs.events"): brand + tier.KeyedMark,
		} {
			was := f.text("HGET", scope, field)
			f.do("HSET", scope, field, value)
			require.ErrorIs(t, f.jobs.DeclareEvents(f.ctx, 10), queue.ErrBadCall, field)
			f.do("HDEL", scope, field)
			if was != "" {
				f.do("HSET", scope, field, was)
			}
		}
		node := f.text("HGET", scope, tier.NodeField)
		f.do("HSET", scope, tier.NodeField, "5")
		var conflict *tier.NodeConflictError
		require.ErrorAs(t, f.jobs.DeclareEvents(f.ctx, 10), &conflict)
		f.do("HSET", scope, tier.NodeField, node)

		g := setUp(t, s)
		w, err := stream.NewWriter(g.client, stream.WriterConfig{Address: string(g.queue) + "/other", Brand: "JEV"})
		require.NoError(t, err)
		_, err = w.Declare(g.ctx)
		require.NoError(t, err)
		require.NoError(t, g.jobs.DeclareEvents(g.ctx, 10))
		require.Equal(t, "AAA", g.text("HGET", tier.ScopeKey(string(g.queue)), tier.StreamField("jobs.events")))
		g.enqueue("a")
		require.Equal(t, codec.Brand("AAA"), g.messages(codec.EntryID{})[1].ID.Brand())
	})
}
