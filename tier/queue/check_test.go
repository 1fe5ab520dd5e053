package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// jobsOf are those of a queue that is to be damaged, by their states.
type jobsOf struct{ active, ready, later, dead string }

// damages are what can be wrong with a queue, and what the audit says of it.
var damages = map[string]struct {
	do  func(f *fixture, j jobsOf)
	say string
}{
	"a type":             {func(f *fixture, _ jobsOf) { f.do("SET", f.queue.OutboxKey(), "x") }, "holds a string, not a stream"},
	"a row that is none": {func(f *fixture, j jobsOf) { f.do("HSET", f.queue.JobsKey(), j.ready, "x") }, "has a row that is none: x"},
	"no entry":           {func(f *fixture, j jobsOf) { f.do("HSET", f.queue.JobsKey(), j.ready, "1-1 a") }, "is not in its lane: 1-1 a"},
	"another's entry": {func(f *fixture, j jobsOf) {
		f.do("HSET", f.queue.JobsKey(), j.ready, f.text("HGET", f.queue.JobsKey(), j.active))
	}, "has the entry of another"},
	"no body":              {func(f *fixture, j jobsOf) { f.do("HDEL", f.queue.BodiesKey(), j.later) }, "has no body: s "},
	"not due":              {func(f *fixture, j jobsOf) { f.do("ZREM", f.queue.JobsDueKey(), j.later) }, "is not where its row says: s "},
	"due another time":     {func(f *fixture, j jobsOf) { f.do("ZADD", f.queue.JobsDueKey(), "1", j.later) }, "is due, or died, at another time"},
	"dead and due":         {func(f *fixture, j jobsOf) { f.do("ZADD", f.queue.JobsDueKey(), "1", j.dead) }, "is not where its row says: d "},
	"ready and due":        {func(f *fixture, j jobsOf) { f.do("ZADD", f.queue.JobsDueKey(), "1", j.ready) }, "is in its lane, and elsewhere"},
	"due without a row":    {func(f *fixture, j jobsOf) { f.do("HDEL", f.queue.JobsKey(), j.later) }, "has a body and no row"},
	"dead without a row":   {func(f *fixture, _ jobsOf) { f.do("ZADD", f.queue.BuriedKey(), "1", f.minted().String()) }, "is dead and has no row"},
	"waits without a row":  {func(f *fixture, _ jobsOf) { f.do("ZADD", f.queue.WaitingKey(), "1", f.minted().String()) }, "waits for children and has no row"},
	"notes without a row":  {func(f *fixture, _ jobsOf) { f.do("HSET", f.queue.NotesKey(), f.minted().String(), "x") }, "has notes and no row"},
	"an entry of no job":   {func(f *fixture, _ jobsOf) { f.do("XADD", f.queue.LaneKey("a"), "*", "x", "y") }, "is no job: another program wrote it"},
	"an entry without row": {func(f *fixture, j jobsOf) { f.do("HDEL", f.queue.JobsKey(), j.ready) }, "whose row says otherwise"},
	"no group":             {func(f *fixture, _ jobsOf) { f.do("XGROUP", "DESTROY", f.queue.LaneKey("a"), "w") }, "has no group w"},
	"an empty lane":        {func(f *fixture, _ jobsOf) { f.do("XGROUP", "CREATE", f.queue.LaneKey("b"), "w", "0", "MKSTREAM") }, "is empty, and there"},
	"terms":                {func(f *fixture, _ jobsOf) { f.do("HSET", f.queue.LanesKey(), "a", "x") }, "has terms that are none"},
	"no turn":              {func(f *fixture, _ jobsOf) { f.do("ZREM", f.queue.RingKey(), "a") }, "has ready jobs and no turn"},
	"nobody looks":         {func(f *fixture, _ jobsOf) { f.do("ZREM", f.queue.LeasedKey(), "a") }, "has active jobs, and nobody looks at them"},
	"looked at too late": {func(f *fixture, _ jobsOf) {
		f.do("ZADD", f.queue.LeasedKey(), strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "a")
	}, "ms after its lease has ended"},
	"active and deleted": {func(f *fixture, j jobsOf) {
		f.do("XDEL", f.queue.LaneKey("a"), entryIn(f.text("HGET", f.queue.JobsKey(), j.active)))
	}, "is active, and was deleted"},
	"a number":           {func(f *fixture, _ jobsOf) { f.do("HSET", f.queue.WorkersKey(), "w-1", "x") }, "w-1 holds \"x\", not a number"},
	"a beat":             {func(f *fixture, _ jobsOf) { f.do("HSET", f.queue.WorkersKey(), "w-1", "1") }, "w-1 has a number or a beat, and not both"},
	"a lane's name":      {func(f *fixture, _ jobsOf) { f.do("XADD", f.queue.LaneKey("a b"), "*", "j", "x") }, "is no lane of ours"},
	"an undeclared date": {func(f *fixture, _ jobsOf) { f.do("ZADD", f.queue.OccurrencesKey(), "1", "s") }, "s is due and was not declared"},
	"a unique key": {func(f *fixture, _ jobsOf) {
		f.do("HSET", f.queue.UniqueKey(), "k", f.minted().String()+" d 1", "p", f.minted().String()+" p 1")
	}, `"k" is that of JOB`},
	"a dead job's key":  {func(f *fixture, j jobsOf) { f.do("HSET", f.queue.UniqueKey(), "k", j.dead+" s 1") }, ", which has ended"},
	"a key of nobody":   {func(f *fixture, _ jobsOf) { f.do("HSET", f.queue.UniqueKey(), "k", "x") }, "which is no job with a key"},
	"a key for no time": {func(f *fixture, j jobsOf) { f.do("HSET", f.queue.UniqueKey(), "k", j.ready+" p x") }, `"k" has no time`},
	"cancelled and gone": {func(f *fixture, _ jobsOf) {
		f.do("HSET", f.queue.CancelledKey(), f.minted().String(), "why")
	}, "is cancelled, and JOB"},
	"cancelled and due": {func(f *fixture, j jobsOf) { f.do("HSET", f.queue.CancelledKey(), j.later, "why") }, "is not active"},
	"a declaration":     {func(f *fixture, _ jobsOf) { f.do("HSET", f.queue.SchedulesKey(), "s", "x") }, "s cannot be read"},
}

// TestCheckFinds: the audit of a queue that is well finds nothing, and each damage is told.
func TestCheckFinds(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Shared(t, kind))
			for name, damage := range damages {
				t.Run(name, func(t *testing.T) {
					defer f.purge(t)
					f.jobs = f.newClient(queue.Config{})
					ids := f.enqueue("a", "a", "a")
					later, err := f.jobs.Enqueue(f.ctx, queue.Job{Delay: time.Hour})
					require.NoError(t, err)
					m := f.join(f.workers)
					leased := f.read(m, 2)
					f.commit(m, dead(leased[1], "no"))
					require.NoError(t, queue.Check(f.ctx, f.client, string(f.queue)))
					damage.do(f, jobsOf{active: ids[0].String(), dead: ids[1].String(), ready: ids[2].String(), later: later.String()})
					require.ErrorContains(t, queue.Check(f.ctx, f.client, string(f.queue)), damage.say)
				})
			}
		})
	}
}

// TestDeletedWhileActive: of a job that another program deletes while it is active nothing stays when its worker settles it; when
// that one has died, who looks is told, and Remove takes away what is left.
func TestDeletedWhileActive(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		ids := f.enqueue("a", "a", "b")
		m := f.join(f.workers)
		leased := f.read(m, 3)
		for i, id := range ids {
			lane := []string{"a", "a", "b"}[i]
			f.do("XDEL", f.queue.LaneKey(lane), entryIn(f.text("HGET", f.queue.JobsKey(), id.String())))
		}
		for _, l := range leased {
			if idOf(l) == ids[0] {
				f.settle(m, l)
			}
		}
		f.gone(ids[0])
		for _, id := range ids[1:] { // the lane of one is gone, that of the other is there, and empty
			_, err := f.jobs.Get(f.ctx, id)
			require.ErrorContains(t, err, id.String()+" of "+string(f.queue)+" is not where its row says")
			require.ErrorContains(t, queue.Check(f.ctx, f.client, string(f.queue)), id.String()+" is not in its lane")
		}
		f.age("b")
		f.takeOver(f.join(f.workers), 10, 0)
		for _, id := range ids[1:] {
			require.NoError(t, f.jobs.Remove(f.ctx, id))
			f.gone(id)
		}
	})
}

// TestDeletedWhileReady: a job that another program deleted, or whose lane, is gone for whoever wants to change it, until Remove takes
// away what is left; a worker that had one has it no longer.
func TestDeletedWhileReady(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		active := f.enqueue("active")[0]
		m := f.join(f.workers)
		l := f.read(m, 1)[0]
		ids := f.enqueue("a", "b", "b")
		f.do("DEL", f.queue.LaneKey("active"), f.queue.LaneKey("a"))
		f.do("XDEL", f.queue.LaneKey("b"), entryIn(f.text("HGET", f.queue.JobsKey(), ids[1].String())))
		for _, id := range []codec.ID{active, ids[0], ids[1]} {
			require.ErrorIs(t, f.update(id, "new"), queue.ErrNoJob)
			require.ErrorIs(t, f.jobs.Move(f.ctx, id, "c"), queue.ErrNoJob)
			if id != ids[1] {
				require.ErrorIs(t, f.jobs.Progress(f.ctx, id, nil), queue.ErrNoJob)
			}
		}
		require.ErrorIs(t, m.Progress(f.ctx, l.Entry, nil), tier.ErrFenced)
		for _, id := range []codec.ID{active, ids[0], ids[1]} {
			require.NoError(t, f.jobs.Remove(f.ctx, id))
			f.gone(id)
		}
	})
}

// TestCheckTellsOnce: what is wrong with a lane is told once, also where its active jobs are counted.
func TestCheckTellsOnce(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	defer f.purge(t)
	require.NoError(t, f.jobs.SetCeiling(f.ctx, 2))
	f.enqueue("a", "a")
	f.read(f.join(f.workers), 1)
	f.do("HSET", f.queue.LanesKey(), "a", "x")
	err := queue.Check(f.ctx, f.client, string(f.queue))
	require.Equal(t, 1, strings.Count(fmt.Sprint(err), "has terms that are none"), err)
}

// entryIn is the entry that a row says.
func entryIn(row string) string {
	entry, _, _ := strings.Cut(row, " ")
	return entry
}
