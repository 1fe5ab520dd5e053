package queue_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

func (f *fixture) unique(u queue.Unique, data string, delay time.Duration) queue.Receipt {
	f.t.Helper()
	receipts, err := f.jobs.EnqueueMany(f.ctx, []queue.Job{{Message: codec.Message{Data: []byte(data)}, Unique: u, Delay: delay}})
	require.NoError(f.t, err)
	return receipts[0]
}

// TestUnique (B117, B129, B133): of a unique key there is one job, for as long as it says; then the next one is taken.
func TestUnique(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		for _, tc := range []struct {
			until queue.Until
			frees string // which act of the worker
		}{{queue.UntilDone, "settle"}, {queue.UntilDone, "dead"}, {queue.UntilStarted, "claim"}} {
			t.Run(fmt.Sprint(tc), func(t *testing.T) {
				f := setUp(t, s)
				u := queue.Unique{Key: "k", Until: tc.until}
				first := f.unique(u, "1", 0)
				require.NoError(t, first.Err)
				kept := f.unique(u, "2", 0)
				require.Equal(t, queue.Receipt{ID: first.ID, Existing: true}, kept)
				u.Conflict = queue.Refuse
				var taken *queue.UniqueError
				require.ErrorAs(t, f.unique(u, "3", 0).Err, &taken)
				require.Equal(t, first.ID, taken.Holder)
				f.counts(queue.Counts{Ready: 1})

				m := f.join(f.workers)
				l := f.read(m, 1)[0]
				if tc.frees != "claim" {
					require.Error(t, f.unique(u, "4", 0).Err)
					f.commit(m, again(l, 0)) // a failure does not free it
					require.Error(t, f.unique(u, "5", 0).Err)
					l = f.read(m, 1)[0]
				}
				switch tc.frees {
				case "settle":
					f.settle(m, l)
				case "dead":
					f.commit(m, dead(l, "no"))
				}
				next := f.unique(u, "6", 0)
				require.NoError(t, next.Err)
				require.NotEqual(t, first.ID, next.ID)
				if tc.frees == "claim" {
					f.settle(m, l)
					require.Error(t, f.unique(u, "7", 0).Err, "it is the next one's")
				}
			})
		}
	})
}

// TestUniquePeriod (B130): a period ends with its time, not with the job.
func TestUniquePeriod(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		u := queue.Unique{Key: "k", Until: queue.UntilTime, For: time.Hour, Conflict: queue.Refuse}
		require.NoError(t, f.unique(u, "1", 0).Err)
		m := f.join(f.workers)
		f.settle(m, f.read(m, 1)...)
		require.Error(t, f.unique(u, "2", 0).Err)
		f.do("HSET", f.queue.UniqueKey(), "k", f.minted().String()+" p 1000") // its time is over
		require.NoError(t, f.unique(u, "3", 0).Err)
	})
}

// TestUniquePeriodsGo: keys whose periods are over do not gather, though nobody wants them again.
func TestUniquePeriodsGo(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		m := f.join(f.workers)
		const calls, keys = 20, 50
		for call := range calls {
			jobs := make([]queue.Job, keys)
			for i := range jobs {
				jobs[i].Unique = queue.Unique{Key: fmt.Sprint(call, " ", i), Until: queue.UntilTime, For: time.Millisecond}
			}
			receipts, err := f.jobs.EnqueueMany(f.ctx, append(jobs, queue.Job{Delay: time.Hour, Unique: queue.Unique{Key: fmt.Sprint(call)}}))
			require.NoError(t, err)
			for _, r := range receipts {
				require.NoError(t, r.Err)
			}
			f.settle(m, f.read(m, keys)...)
		}
		n, err := strconv.Atoi(f.text("HLEN", f.queue.UniqueKey()))
		require.NoError(t, err)
		require.Less(t, n, calls*keys/2)
		for call := range calls {
			require.NotEmpty(t, f.text("HGET", f.queue.UniqueKey(), fmt.Sprint(call)))
		}
	})
}

// TestUniqueReplaced (B132): of jobs that replace each other the last one's data is handled, once, after the one that is
// active.
func TestUniqueReplaced(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		u := queue.Unique{Key: "k", Conflict: queue.Replace}
		first := f.unique(u, "0", 0)
		m := f.join(f.workers)
		running := f.read(m, 1)[0]
		second := f.unique(u, "1", 0)
		require.False(t, second.Existing)
		require.NotEqual(t, first.ID, second.ID)
		for i := 2; i < 10; i++ {
			require.Equal(t, queue.Receipt{ID: second.ID, Existing: true}, f.unique(u, fmt.Sprint(i), 0))
		}
		f.settle(m, running)
		last := f.read(m, 1)[0]
		require.Equal(t, "9", string(last.Records[0].Data))
		f.settle(m, last)

		id := f.unique(u, "10", time.Hour).ID
		require.Equal(t, id, f.unique(u, "11", time.Hour).ID)
		require.Equal(t, "11", string(f.get(id).Message.Data))
		receipts, err := f.jobs.EnqueueMany(f.ctx, []queue.Job{{Lane: "other", Unique: u, Message: codec.Message{Data: []byte("12")}}})
		require.NoError(t, err)
		require.Equal(t, id, receipts[0].ID)
		receipts, err = f.jobs.EnqueueMany(f.ctx, []queue.Job{{Lane: "other", Unique: u, Message: codec.Message{Data: []byte("13")}}})
		require.NoError(t, err)
		require.Equal(t, id, receipts[0].ID)
		last = f.read(m, 1)[0]
		require.Equal(t, "13", string(last.Records[0].Data))
		require.Equal(t, id, idOf(last))
		receipts, err = f.jobs.EnqueueMany(f.ctx, []queue.Job{{Lane: "x", Unique: u}, {Lane: "y", Unique: u}})
		require.NoError(t, err)
		require.Equal(t, receipts[0].ID, receipts[1].ID)
		receipts, err = f.jobs.EnqueueMany(f.ctx, []queue.Job{{Lane: "z", Unique: u, Message: codec.Message{Data: []byte("14")}}})
		require.NoError(t, err, "in a lane that is asked for")
		require.True(t, receipts[0].Existing)
	})
}

// TestUniqueReplacedWhole: who is replaced has the time of the one that replaces it, and has its key for as long as that says,
// with all attempts before it, wherever it was.
func TestUniqueReplacedWhole(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		u := queue.Unique{Key: "k", Conflict: queue.Replace}
		m := f.join(f.workers)
		id := f.unique(u, "0", 0).ID
		f.commit(m, again(f.read(m, 1)[0], 0))
		_, err := m.Due(f.ctx, 1)
		require.NoError(t, err)
		require.Equal(t, queue.Receipt{ID: id, Existing: true}, f.unique(u, "1", time.Hour))
		info := f.get(id)
		require.Equal(t, queue.Scheduled, info.State, "it was ready")
		require.Zero(t, info.Attempts)
		require.Greater(t, time.Until(info.At), 50*time.Minute)
		require.Equal(t, "0", f.text("EXISTS", f.queue.LaneKey(queue.DefaultLane)))

		require.True(t, f.unique(u, "2", 0).Existing)
		f.commit(m, again(f.read(m, 1)[0], time.Hour))
		require.Equal(t, 1, f.get(id).Attempts)
		u.Until, u.For = queue.UntilTime, time.Hour
		require.True(t, f.unique(u, "3", 0).Existing)
		l := f.read(m, 1)[0]
		require.Equal(t, "3", string(l.Records[0].Data))
		require.Equal(t, 1, l.Deliveries)
		f.settle(m, l)
		u.Conflict = queue.Refuse
		require.Error(t, f.unique(u, "4", 0).Err, "a period ends with its time")
	})
}

// TestResult: what a job came to is kept for as long as its terms say, and told to all who wait, without their asking.
func TestResult(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		var ids []codec.ID
		for range 3 {
			id, err := f.jobs.Enqueue(f.ctx, queue.Job{Terms: tier.Terms{Keep: time.Hour, MaxAttempts: 7}})
			require.NoError(t, err)
			ids = append(ids, id)
		}
		_, err := f.jobs.Result(f.ctx, ids[0])
		require.ErrorIs(t, err, queue.ErrPending)
		type answer struct {
			o   queue.Outcome
			err error
		}
		answers := make(chan answer, 3)
		for range cap(answers) {
			go func() {
				o, err := f.jobs.Wait(f.ctx, ids[0])
				answers <- answer{o, err}
			}()
		}
		m := f.join(f.workers)
		leased := f.read(m, 3)
		require.Equal(t, 7, leased[0].Terms.MaxAttempts)
		f.commit(m, tier.Ending{Entry: leased[0].Entry, Deliveries: 1, Outputs: []tier.Output{tier.Outcome("r")}})
		for range cap(answers) {
			require.Equal(t, answer{o: queue.Outcome{Done: true, Result: "r"}}, <-answers)
		}
		require.NotEqual(t, "-1", f.text("PTTL", f.queue.ResultKey(ids[0].String())), "the one that was waited for ends, too")
		f.commit(m, dead(leased[1], "no"))
		o, err := f.jobs.Wait(f.ctx, ids[1])
		require.NoError(t, err)
		require.Equal(t, queue.Outcome{Reason: "no"}, o)
		f.settle(m, leased[2])
		o, err = f.jobs.Wait(f.ctx, ids[2])
		require.NoError(t, err)
		require.True(t, o.Done)
		_, err = f.jobs.Wait(f.ctx, f.minted())
		require.ErrorIs(t, err, queue.ErrNoResult)
	})
}
