package queue_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// noteScenarios are those of payloads, progress and logs of the original EchoMQ, by number.
var noteScenarios = []struct {
	name string
	run  func(f *fixture)
}{
	{"28 update_data", func(f *fixture) {
		ids := f.enqueue("a", "a")
		require.NoError(f.t, f.update(ids[0], "new"))
		require.Equal(f.t, []byte("new"), f.get(ids[0]).Message.Data)
		require.ErrorIs(f.t, f.update(f.minted(), "new"), queue.ErrNoJob)
		m := f.join(f.workers)
		leased := f.read(m, 2)
		require.Equal(f.t, []codec.ID{ids[1], ids[0]}, idsOf(leased), "it went to the end of its lane")
		require.Equal(f.t, []byte("new"), leased[1].Records[0].Data)
		require.ErrorIs(f.t, f.update(ids[0], "newer"), queue.ErrActive)
		f.settle(m, leased...)
		require.ErrorIs(f.t, f.update(ids[0], "newer"), queue.ErrNoJob)
	}},
	{"29 update_progress", func(f *fixture) {
		w := newWitness(f)
		id := f.enqueue("a")[0]
		require.NoError(f.t, f.jobs.Progress(f.ctx, id, []byte("50")))
		require.NoError(f.t, f.jobs.Progress(f.ctx, id, []byte("50")))
		require.NoError(f.t, f.logs(id, 0, "of this nothing is told"))
		require.Equal(f.t, []string{"enqueued 0 absent>ready a//", "progress 0 ready>ready a//progress: 50"}, w.next())
		n := f.notes(id)
		require.Equal(f.t, []byte("50"), n.Progress)
		require.WithinDuration(f.t, time.Now(), n.At, time.Minute)
		require.ErrorIs(f.t, f.jobs.Progress(f.ctx, f.minted(), []byte("50")), queue.ErrNoJob)
	}},
	{"30 job_logs", func(f *fixture) {
		id := f.enqueue("a")[0]
		for i, want := range []int{1, 2, 2} {
			n, err := f.jobs.Log(f.ctx, id, 2, strconv.Itoa(i))
			require.NoError(f.t, err)
			require.Equal(f.t, want, n)
		}
		n := f.notes(id)
		require.Equal(f.t, "1 2", n.text())
		require.Equal(f.t, 1, n.Dropped)
		missing := f.minted()
		_, err := f.jobs.Log(f.ctx, missing, 2, "x")
		require.ErrorIs(f.t, err, queue.ErrNoJob)
		_, err = f.jobs.Notes(f.ctx, missing)
		require.ErrorIs(f.t, err, queue.ErrNoJob)
	}},
	{"37 cancel, the witness is the renewal", func(f *fixture) {
		id := f.enqueue("a")[0]
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		_, err := m.Renew(f.ctx, entriesOf([]tier.Leased{l}))
		require.NoError(f.t, err)
		require.Empty(f.t, m.Cancelled())
		for _, reason := range []string{"first", "latest"} {
			running, err := f.jobs.Cancel(f.ctx, id, reason)
			require.NoError(f.t, err)
			require.True(f.t, running)
		}
		_, err = m.Renew(f.ctx, entriesOf([]tier.Leased{l}))
		require.NoError(f.t, err)
		require.Equal(f.t, map[codec.EntryID]string{l.Entry: "latest"}, m.Cancelled())
		f.commit(m, again(l, 0))
		info := f.get(id)
		require.Equal(f.t, queue.Dead, info.State)
		require.Equal(f.t, "cancelled: latest", info.Reason)
	}},
	{"a cancelled job that is given up", func(f *fixture) {
		w := newWitness(f)
		id := f.enqueue("a")[0]
		m := w.joined("me")
		l := f.read(m, 1)[0]
		_, err := f.jobs.Cancel(f.ctx, id, "why")
		require.NoError(f.t, err)
		w.next()
		f.commit(m, dead(l, "boom"))
		require.Equal(f.t, []string{"cancelled 0 active>dead a/me/cancelled: why ms"}, w.next())
		require.Equal(f.t, "cancelled: why", f.get(id).Reason)
	}},
	{"updates where a job waits", func(f *fixture) {
		dead := f.killed("a")
		w := newWitness(f)
		require.NoError(f.t, f.jobs.Progress(f.ctx, dead, []byte("as far as it came")))
		require.Equal(f.t, []string{"progress 0 dead>dead a//progress: as far as it came"}, w.next())
		delayed, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Hour, Unique: queue.Unique{Key: "k"}, Terms: tier.Terms{MaxAttempts: 3}})
		require.NoError(f.t, err)
		waiting := f.flow(queue.Chain(jobOf("child"), jobOf("parent")))
		for _, id := range []codec.ID{dead, delayed, waiting} {
			before := f.get(id)
			require.NoError(f.t, f.update(id, "new"))
			after := f.get(id)
			require.Equal(f.t, []byte("new"), after.Message.Data)
			before.Message, before.Raw = after.Message, after.Raw
			require.Equal(f.t, before, after, "it is where it was")
		}
		large := make([]byte, 9<<20)
		require.ErrorAs(f.t, f.jobs.Update(f.ctx, dead, codec.Message{Data: large}), new(*queue.TooLargeError))
	}},
	{"an update keeps all but the message", func(f *fixture) {
		u := queue.Unique{Key: "k", Conflict: queue.Refuse}
		id, err := f.jobs.Enqueue(f.ctx, queue.Job{Unique: u, Terms: tier.Terms{MaxAttempts: 3, Keep: time.Hour}})
		require.NoError(f.t, err)
		require.NoError(f.t, f.update(id, "new"))
		_, err = f.jobs.Enqueue(f.ctx, queue.Job{Unique: u})
		require.ErrorAs(f.t, err, new(*queue.UniqueError))
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		require.Equal(f.t, 3, l.Terms.MaxAttempts)
		f.commit(m, result(l, "came to"))
		_, err = f.jobs.Enqueue(f.ctx, queue.Job{Unique: u})
		require.NoError(f.t, err, "its key is free")
		o, err := f.jobs.Result(f.ctx, id)
		require.NoError(f.t, err)
		require.Equal(f.t, "came to", o.Result)
	}},
	{"bounds of what is noted", func(f *fixture) {
		id := f.enqueue("a")[0]
		line := strings.Repeat("x", queue.MaxLine)
		for range 20 { // 80 KiB
			_, err := f.jobs.Log(f.ctx, id, 0, line)
			require.NoError(f.t, err)
		}
		n := f.notes(id)
		require.Len(f.t, n.Lines, queue.MaxLogBytes/queue.MaxLine)
		require.Equal(f.t, 4, n.Dropped)
		kept, err := f.jobs.Log(f.ctx, id, queue.MaxLines, make([]string, queue.MaxLines)...)
		require.NoError(f.t, err)
		require.Equal(f.t, queue.MaxLines, kept)
		for _, err := range []error{
			f.logs(id, 0, line+"x"), f.logs(id, -1, "x"), f.logs(id, queue.MaxLines+1, "x"), f.logs(id, 0), f.logs(id, 0, make([]string, queue.MaxLines+1)...),
			f.jobs.Progress(f.ctx, id, make([]byte, queue.MaxProgress+1)),
		} {
			require.ErrorIs(f.t, err, queue.ErrBadCall)
		}
	}},
	{"of what a worker does not hold it notes nothing", func(f *fixture) {
		id := f.enqueue("a")[0]
		m, other := f.join(f.workers), f.join(f.workers)
		l := f.read(m, 1)[0]
		w := newWitness(f)
		require.NoError(f.t, m.Progress(f.ctx, l.Entry, []byte("mine")))
		require.Equal(f.t, []string{"progress 0 active>active a/" + m.Name() + "/progress: mine"}, w.next())
		require.ErrorIs(f.t, other.Progress(f.ctx, l.Entry, []byte("theirs")), tier.ErrFenced)
		f.age("a")
		taken, _ := f.takeOver(other, 1, 0)
		require.NoError(f.t, other.Log(f.ctx, l.Entry, "taken over"))
		require.ErrorIs(f.t, m.Progress(f.ctx, l.Entry, []byte("late")), tier.ErrFenced)
		require.ErrorIs(f.t, m.Log(f.ctx, l.Entry, "late"), tier.ErrFenced)
		n := f.notes(id)
		require.Equal(f.t, "mine", string(n.Progress))
		require.Equal(f.t, "taken over", n.text())
		f.settle(other, taken...)
		require.ErrorIs(f.t, other.Progress(f.ctx, l.Entry, nil), tier.ErrFenced)
	}},
	{"what is noted goes with the job", func(f *fixture) {
		m := f.join(f.workers)
		for _, end := range []struct {
			name string
			do   func(id codec.ID)
			kept bool
		}{
			{"settle", func(codec.ID) { f.settle(m, f.read(m, 1)...) }, false},
			{"commit, done", func(codec.ID) { f.commit(m, result(f.read(m, 1)[0], "r")) }, false},
			{"remove", func(id codec.ID) { require.NoError(f.t, f.jobs.Remove(f.ctx, id)) }, false},
			{"drain", func(codec.ID) { _, err := f.jobs.DrainLane(f.ctx, "a"); require.NoError(f.t, err) }, false},
			{"commit, again", func(codec.ID) { f.commit(m, again(f.read(m, 1)[0], time.Hour)) }, true},
			{"commit, dead", func(codec.ID) { f.commit(m, dead(f.read(m, 1)[0], "no")) }, true},
			{"obliterate", func(codec.ID) {
				require.NoError(f.t, f.jobs.Pause(f.ctx))
				_, err := f.jobs.Obliterate(f.ctx, string(f.queue))
				require.NoError(f.t, err)
			}, false},
		} {
			id := f.enqueue("a")[0]
			require.NoError(f.t, f.logs(id, 0, "x"), end.name)
			end.do(id)
			require.Equal(f.t, end.kept, f.text("HEXISTS", f.queue.NotesKey(), id.String()) == "1", end.name)
			if end.kept {
				require.Equal(f.t, "x", f.notes(id).text())
				require.NoError(f.t, f.jobs.Remove(f.ctx, id))
				require.Equal(f.t, "0", f.text("EXISTS", f.queue.NotesKey()), end.name)
			}
		}
	}},
}

func TestConformanceOfNotes(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, scenario := range noteScenarios {
			t.Run(scenario.name, func(t *testing.T) { scenario.run(setUp(t, s)) })
		}
	})
}

// TestLogOnce: lines are added once although every other reply is lost, and in the order of who adds them.
func TestLogOnce(t *testing.T) {
	f, proxy := setUpProxied(t, tiertest.Private(t, tiertest.Valkey))
	id := f.enqueue("a")[0]
	require.NoError(t, f.logs(id, 0, "first"))
	src := sources(t)["annotate"]
	const writers, lines = 4, 20
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range lines {
				if i%2 == 0 {
					proxy.DropReplies(1, src.Runs())
				}
				_, err := f.jobs.Log(context.WithoutCancel(f.ctx), id, queue.MaxLines, strconv.Itoa(w)+" "+strconv.Itoa(i))
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	require.NotZero(t, proxy.Dropped())
	next := make([]int, writers)
	n := f.notes(id)
	require.Len(t, n.Lines, 1+writers*lines)
	for _, l := range n.Lines[1:] {
		w, _ := strconv.Atoi(l.Text[:1])
		require.Equal(t, strconv.Itoa(w)+" "+strconv.Itoa(next[w]), l.Text)
		next[w]++
	}
}

// noted are the notes of a job.
type noted struct{ queue.Notes }

// text is the log.
func (n noted) text() string {
	var lines []string
	for _, l := range n.Lines {
		lines = append(lines, l.Text)
	}
	return strings.Join(lines, " ")
}

func (f *fixture) notes(id codec.ID) noted {
	f.t.Helper()
	n, err := f.jobs.Notes(f.ctx, id)
	require.NoError(f.t, err)
	return noted{n}
}

func (f *fixture) logs(id codec.ID, keep int, lines ...string) error {
	_, err := f.jobs.Log(f.ctx, id, keep, lines...)
	return err
}

func (f *fixture) update(id codec.ID, data string) error {
	return f.jobs.Update(f.ctx, id, codec.Message{Type: "t", Data: []byte(data)})
}

// killed is a job that was given up.
func (f *fixture) killed(lane string) codec.ID {
	f.t.Helper()
	id := f.enqueue(lane)[0]
	m := f.join(f.workers)
	f.commit(m, dead(f.read(m, 1)[0], "no"))
	return id
}
