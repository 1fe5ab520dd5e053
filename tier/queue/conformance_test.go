package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// scenarios are those of the original EchoMQ, by number: each with the same verdict, or another witness where a job is a leased
// entry here and a row there.
var scenarios = []struct {
	name string
	run  func(f *fixture)
}{
	{"2 mint, the witness is the entry", func(f *fixture) {
		id := f.enqueue("default")[0]
		require.Equal(f.t, queue.Brand, id.Brand())
		info := f.get(id)
		require.Equal(f.t, queue.Ready, info.State)
		require.Zero(f.t, info.Attempts)
		require.Equal(f.t, []byte("0"), info.Message.Data)
	}},
	{"3 duplicate", func(f *fixture) {
		id := f.enqueue("default")[0]
		_, err := f.jobs.Enqueue(f.ctx, queue.Job{ID: id, Message: codec.Message{Data: []byte("other")}})
		require.ErrorIs(f.t, err, queue.ErrDuplicate)
		require.Equal(f.t, []byte("0"), f.get(id).Message.Data)
		f.counts(queue.Counts{Ready: 1})
	}},
	{"4 kind", func(f *fixture) {
		id, err := codec.NewID("ORD", 1)
		require.NoError(f.t, err)
		_, err = f.jobs.Enqueue(f.ctx, queue.Job{ID: id})
		var kind *queue.KindError
		require.ErrorAs(f.t, err, &kind)
		require.Equal(f.t, "0", f.text("EXISTS", f.queue.JobsKey()))
	}},
	{"5 order", func(f *fixture) {
		ids := f.enqueue("default", "default", "default")
		require.Equal(f.t, ids, idsOf(f.read(f.join(f.workers), 3)))
	}},
	{"6 claim, the witness is the pending list", func(f *fixture) {
		id := f.enqueue("default")[0]
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		require.Equal(f.t, id, idOf(l))
		require.Equal(f.t, 1, l.Deliveries)
		info := f.get(id)
		require.Equal(f.t, queue.Active, info.State)
		require.Equal(f.t, m.Name(), info.Worker)
		require.Equal(f.t, 1, info.Attempts)
	}},
	{"8 complete", func(f *fixture) {
		ids := f.enqueue("default", "default")
		m := f.join(f.workers)
		f.settle(m, f.read(m, 2)...)
		f.gone(ids...)
		f.counts(queue.Counts{})
		require.Equal(f.t, "0", f.text("EXISTS", f.queue.LaneKey("default")), "an empty lane is gone")
	}},
	{"9 retry", func(f *fixture) {
		id := f.enqueue("default")[0]
		m := f.join(f.workers)
		e := again(f.read(m, 1)[0], 30*time.Millisecond)
		f.commit(m, e)
		info := f.get(id)
		require.Equal(f.t, queue.Retry, info.State)
		require.Equal(f.t, 1, info.Attempts)
		f.none(m)
		leased, err := m.Read(f.ctx, 1, time.Second)
		require.NoError(f.t, err)
		require.Len(f.t, leased, 1)
		require.Equal(f.t, 2, leased[0].Deliveries)
		f.settle(m, leased...)
		f.gone(id)
	}},
	{"10 dead", func(f *fixture) {
		id := f.enqueue("default")[0]
		m := f.join(f.workers)
		f.commit(m, dead(f.read(m, 1)[0], "boom"))
		info := f.get(id)
		require.Equal(f.t, queue.Dead, info.State)
		require.Equal(f.t, "boom", info.Reason)
		require.Equal(f.t, id.String(), f.member(f.queue.BuriedKey()))
		f.counts(queue.Counts{Dead: 1})
	}},
	{"11 reap, which is claiming at once", func(f *fixture) {
		f.enqueue("default")
		m, other := f.join(f.workers), f.join(f.workers)
		f.read(m, 1)
		f.age("default")
		taken, _ := f.takeOver(other, 10, 0)
		require.Len(f.t, taken, 1)
		require.Equal(f.t, 2, taken[0].Deliveries)
		f.settle(other, taken...)
	}},
	{"12 rotate", func(f *fixture) {
		f.enqueue("a", "a", "b", "b")
		m := f.join(f.workers)
		require.Equal(f.t, "a b a b", f.lanes(m, 4))
	}},
	{"15 schedule", func(f *fixture) {
		id, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: 30 * time.Millisecond})
		require.NoError(f.t, err)
		require.Equal(f.t, queue.Scheduled, f.get(id).State)
		m := f.join(f.workers)
		f.none(m)
		leased, err := m.Read(f.ctx, 1, time.Second)
		require.NoError(f.t, err)
		require.Len(f.t, leased, 1)
		require.Equal(f.t, 1, leased[0].Deliveries)
	}},
}

// lanes claims n jobs, one by one, and tells from which lanes.
func (f *fixture) lanes(m *queue.Member, n int) string {
	f.t.Helper()
	var lanes []string
	for range n {
		lanes = append(lanes, f.get(idOf(f.read(m, 1)[0])).Lane)
	}
	return strings.Join(lanes, " ")
}

func TestConformance(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, scenario := range scenarios {
			t.Run(scenario.name, func(t *testing.T) { scenario.run(setUp(t, s)) })
		}
	})
}
