package history_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/history"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// stage is a queue of the test's own, which tells what becomes of its jobs.
type stage struct {
	t      testing.TB
	ctx    context.Context
	client *tier.Client
	queue  string
	jobs   *queue.Client
	member *queue.Member
}

func newStage(t testing.TB, server *tiertest.Server) *stage {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &stage{t: t, ctx: ctx, client: tiertest.Dial(t, server), queue: tiertest.AuditedScope(t, server)}
	var err error
	s.jobs, err = queue.NewClient(s.client, queue.Config{Queue: s.queue})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.jobs.Close(context.Background()) })
	workers, err := queue.NewWorkers(s.client, queue.WorkersConfig{Queue: s.queue})
	require.NoError(t, err)
	s.member, err = workers.Join(ctx, "w")
	require.NoError(t, err)
	require.NoError(t, s.jobs.DeclareEvents(ctx, 1_000_000))
	return s
}

// work enqueues n jobs, of which each third is done, dead, and tried again.
func (s *stage) work(n int) {
	jobs := make([]queue.Job, n)
	_, err := s.jobs.EnqueueMany(s.ctx, jobs)
	require.NoError(s.t, err)
	leased, err := s.member.Read(s.ctx, n, 0)
	require.NoError(s.t, err)
	require.Len(s.t, leased, n)
	for i, l := range leased {
		e := tier.Ending{Entry: l.Entry, Deliveries: l.Deliveries}
		switch i % 3 {
		case 1:
			e.Dead = []tier.Letter{{Index: -1, Reason: "no", Attempts: 1}}
		case 2:
			e.Open = []tier.Open{{Attempt: 1, Delay: time.Hour}}
		}
		require.NoError(s.t, s.member.Commit(s.ctx, []tier.Ending{e}))
	}
}

// counted is what the events tell, minute by minute, without a projection.
func (s *stage) counted() map[time.Time]history.Minute {
	r, err := stream.NewReader(s.client, stream.ReaderConfig{Address: s.queue + "/jobs.events"})
	require.NoError(s.t, err)
	all := map[time.Time]history.Minute{}
	for record, err := range r.Range(s.ctx, codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(s.t, err)
		events, err := queue.DecodeEvents(&record.Message)
		require.NoError(s.t, err)
		at := record.Addr.Time().Truncate(time.Minute)
		for _, e := range events {
			one := history.Minute{Counts: map[queue.What]int64{e.What(): 1}}
			span := history.Span{N: 1, Sum: e.After, Max: e.After}
			switch e.What() {
			case queue.Started:
				one.Waited = span
			case queue.Completed, queue.Died, queue.Postponed:
				one.Ran = span
			}
			m := all[at]
			m.At = at
			m.Add(one)
			all[at] = m
		}
	}
	return all
}

// read is what the history tells of the minutes in which something happened.
func (s *stage) read() map[time.Time]history.Minute {
	now := time.Now()
	list, err := history.Read(s.ctx, s.client, s.queue, now.Add(-10*time.Minute), now.Add(10*time.Minute))
	require.NoError(s.t, err)
	require.Len(s.t, list, 20)
	all := map[time.Time]history.Minute{}
	for i, m := range list {
		require.True(s.t, i == 0 || m.At.Equal(list[i-1].At.Add(time.Minute)))
		if len(m.Counts) > 0 {
			all[m.At] = m
		}
	}
	return all
}

func total(all map[time.Time]history.Minute) (sum history.Minute) {
	for _, m := range all {
		sum.Add(m)
	}
	return sum
}

// TestHistory: what becomes of jobs is counted in its minute, with how long they were ready and at work.
func TestHistory(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		_, err := history.Read(s.ctx, s.client, s.queue, time.Now(), time.Now().Add(time.Minute))
		require.ErrorIs(t, err, projection.ErrNoProjection)
		s.work(9)
		require.NoError(t, history.CatchUp(s.ctx, s.client, history.Config{Queue: s.queue}))
		sum := total(s.read())
		require.Equal(t, map[queue.What]int64{queue.Enqueued: 9, queue.Started: 9, queue.Completed: 3, queue.Died: 3, queue.Postponed: 3}, sum.Counts)
		require.Equal(t, int64(9), sum.Waited.N)
		require.Equal(t, int64(9), sum.Ran.N)
		require.Positive(t, sum.Ran.Max)
		require.LessOrEqual(t, sum.Ran.Mean(), sum.Ran.Max)
		require.Equal(t, s.counted(), s.read())
	})
}

// TestHistoryOnce: whoever folds, and however often that one is another, each event counts once; made anew it is the same.
func TestHistoryOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		cfg := history.Config{Queue: s.queue, Lease: time.Second}
		stop := make(chan struct{})
		var runners sync.WaitGroup
		for range 2 {
			runners.Go(func() {
				for stopped := false; !stopped; {
					ctx, cancel := context.WithTimeout(s.ctx, time.Duration(20+rand.IntN(200))*time.Millisecond)
					p, err := history.New(s.client, cfg)
					if err == nil {
						err = p.Run(ctx)
					}
					if cancel(); err != nil {
						t.Error(err)
					}
					select {
					case <-stop:
						stopped = true
					default:
					}
				}
			})
		}
		for range 40 {
			s.work(6)
		}
		close(stop)
		runners.Wait()
		require.NoError(t, history.CatchUp(s.ctx, s.client, cfg))
		want := s.counted()
		require.Equal(t, want, s.read())
		require.Equal(t, int64(240), total(want).Counts[queue.Enqueued])

		require.NoError(t, projection.Reset(s.ctx, s.client, s.queue+"/jobs.events", history.Name, 1))
		require.NoError(t, history.CatchUp(s.ctx, s.client, cfg))
		require.Equal(t, want, s.read())
	})
}

// TestHistoryForeign: what is no event is passed over, and what cannot be read is set aside; the others count.
func TestHistoryForeign(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		w, err := stream.NewWriter(s.client, stream.WriterConfig{Address: s.queue + "/jobs.events"})
		require.NoError(t, err)
		_, err = w.AppendBatch(s.ctx, []codec.Message{{Type: "order.placed"}, {Type: queue.EventsType, Data: []byte("?")}})
		require.NoError(t, err)
		s.work(3)
		require.NoError(t, history.CatchUp(s.ctx, s.client, history.Config{Queue: s.queue}))
		require.Equal(t, int64(3), total(s.read()).Counts[queue.Enqueued])
		list, err := projection.List(s.ctx, s.client, s.queue+"/jobs.events")
		require.NoError(t, err)
		require.Equal(t, int64(1), list[0].Dead)
	})
}

// TestCatchUp: a queue without events has nothing to catch up with, and a context that ends is an end.
func TestCatchUp(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, server *tiertest.Server) {
		s := newStage(t, server)
		require.ErrorIs(t, history.CatchUp(s.ctx, s.client, history.Config{Queue: s.queue + "x"}), stream.ErrNoStream)
		require.ErrorIs(t, history.CatchUp(s.ctx, s.client, history.Config{Queue: "?"}), consumer.ErrConfig)
		s.work(3)
		ended := errors.New("enough")
		ctx, cancel := context.WithCancelCause(s.ctx)
		cancel(ended)
		require.Error(t, history.CatchUp(ctx, s.client, history.Config{Queue: s.queue}))
	})
}
