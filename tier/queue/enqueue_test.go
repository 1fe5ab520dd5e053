package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestEnqueueTogether: callers on many goroutines, of whom those who find a slot free send for all, each have their own receipt.
func TestEnqueueTogether(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	const callers, each = 16, 500
	ids := make(chan string, callers*each)
	done := make(chan error, callers)
	for range callers {
		go func() {
			for range each {
				id, err := f.jobs.Enqueue(f.ctx, queue.Job{})
				if err != nil {
					done <- err
					return
				}
				ids <- id.String()
			}
			done <- nil
		}()
	}
	for range callers {
		require.NoError(t, <-done)
	}
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		seen[id] = true
	}
	require.Len(t, seen, callers*each)
	f.counts(queue.Counts{Ready: callers * each})
}

// TestEnqueueLeft: when the caller who would have sent for all stops waiting, another one sends.
func TestEnqueueLeft(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	goOn, waiting := f.jobs.Hold()
	ctx, leave := context.WithCancel(f.ctx)
	const others = 3
	left, done := make(chan error, 1), make(chan error, others)
	waits := func(n int) {
		tiertest.Eventually(t, time.Minute, func() (bool, string) { return waiting() == n, "callers who wait" })
	}
	enqueue := func(ctx context.Context, ended chan error) {
		_, err := f.jobs.Enqueue(ctx, queue.Job{})
		ended <- err
	}
	go enqueue(ctx, left)
	waits(1)
	for range others {
		go enqueue(f.ctx, done)
	}
	waits(1 + others)
	leave()
	require.ErrorIs(t, <-left, tier.ErrCancelled)
	goOn()
	for range others {
		require.NoError(t, <-done)
	}
	f.counts(queue.Counts{Ready: 1 + others})
}

// TestEnqueueRefusedWhole: where a key that is only needed at the end is of another type, nothing is enqueued.
func TestEnqueueRefusedWhole(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	for _, key := range []string{f.queue.WakeKey(), f.queue.WorkersKey(), f.queue.RingKey(), f.queue.LanesKey(), f.queue.LaneKey("a"), f.queue.JobsKey()} {
		f.do("SET", key, "of another program")
		jobs := f.newClient(queue.Config{})
		_, err := jobs.Enqueue(f.ctx, queue.Job{Lane: "a"})
		require.ErrorIs(t, err, tier.ErrWrongType, key)
		f.do("DEL", key)
		f.counts(queue.Counts{})
	}
	f.enqueue("a")
}

// TestEnqueueMore: jobs for a lane that has jobs, and its turn, which is the short way through the script, ring as those for another lane do, are
// duplicates of those of their call and of calls before, and can be claimed in their order.
func TestEnqueueMore(t *testing.T) {
	for name, c := range map[string]struct {
		before func(f *fixture) error
		jobs   int
		ring   string
	}{
		"one":          {func(*fixture) error { return nil }, 1, "1"},
		"many":         {func(*fixture) error { return nil }, 5, "2"}, // as many as workers
		"another rang": {func(f *fixture) error { f.do("RPUSH", f.queue.WakeKey(), "1"); return nil }, 5, "2"},
		"paused":       {func(f *fixture) error { return f.jobs.PauseLane(f.ctx, "a") }, 5, "0"},
		"for a paused lane, one rang": {func(f *fixture) error {
			f.do("RPUSH", f.queue.WakeKey(), "1")
			return f.jobs.PauseLane(f.ctx, "a")
		}, 5, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
			var ids []codec.ID
			for range 4 { // each of two producers has called before
				ids = append(ids, f.enqueue("a")...)
			}
			f.join(f.workers)
			m := f.join(f.workers)
			f.do("DEL", f.queue.WakeKey())
			require.NoError(t, c.before(f))
			jobs := []queue.Job{{Lane: "a", ID: ids[0]}}
			for range c.jobs {
				id := f.minted()
				ids, jobs = append(ids, id), append(jobs, queue.Job{Lane: "a", ID: id}, queue.Job{Lane: "a", ID: id})
			}
			receipts, err := f.jobs.EnqueueMany(f.ctx, jobs)
			require.NoError(t, err)
			for i, r := range receipts {
				if i%2 == 0 {
					require.ErrorIs(t, r.Err, queue.ErrDuplicate)
				} else {
					require.NoError(t, r.Err)
				}
			}
			require.Equal(t, c.ring, f.text("LLEN", f.queue.WakeKey()))
			f.counts(queue.Counts{Ready: int64(len(ids))})
			require.NoError(t, f.jobs.ResumeLane(f.ctx, "a"))
			var claimed []codec.ID
			for range ids {
				claimed = append(claimed, idOf(f.read(m, 1)[0]))
			}
			require.Equal(t, ids, claimed)
		})
	}
}

// TestEnqueueRepeated: of calls that follow one another at once, which go over a connection of their own, some lose their reply or do not
// arrive: each job is there once.
func TestEnqueueRepeated(t *testing.T) {
	for name, lose := range map[string]func(*tiertest.Proxy, int, func([]string) bool){
		"reply": (*tiertest.Proxy).DropReplies, "request": (*tiertest.Proxy).DropRequests,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
			n := 0
			enqueue := func() {
				f.enqueue("a")
				n++
			}
			before := proxy.Connections()
			tiertest.Eventually(t, time.Minute, func() (bool, string) {
				enqueue()
				return proxy.Connections() >= before+2, "no connections of their own"
			})
			lost := 0
			lose(proxy, 5, func(cmd []string) bool {
				if cmd[0] == "EVALSHA" {
					lost++
				}
				return cmd[0] == "EVALSHA" && lost%3 == 1
			})
			for proxy.Dropped() < 5 {
				enqueue()
			}
			f.counts(queue.Counts{Ready: int64(n)})
		})
	}
}

// TestEnqueueNotAllowed: the first call of a producer tells what right is lacking before it writes, also of plain jobs for a lane that has some.
func TestEnqueueNotAllowed(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	f := setUp(t, s)
	f.enqueue("a")
	user := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all", "-hset")
	c, err := tier.Dial(f.ctx, user.At(s), tier.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	jobs, err := queue.NewClient(c, queue.Config{Queue: string(f.queue)})
	require.NoError(t, err)
	_, err = jobs.Enqueue(f.ctx, queue.Job{ID: f.minted(), Lane: "a"})
	require.ErrorIs(t, err, tier.ErrPermission)
	require.False(t, tier.OutcomeUnknown(err))
	require.Equal(t, "1", f.text("XLEN", f.queue.LaneKey("a")))
}

// TestEnqueueRightTaken: a right that is taken from a producer at work may show halfway: then nobody is told that nothing was done. Where no
// script was begun, nothing was.
func TestEnqueueRightTaken(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for right, there := range map[string]bool{"set": true, "evalsha": false} {
			t.Run(fmt.Sprint(kind, " ", right), func(t *testing.T) {
				t.Parallel()
				s := tiertest.Shared(t, kind)
				user := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all")
				f := setUpWith(t, s, tiertest.Dial(t, addressed(user.At(s))))
				for range 4 { // each of two producers has called before
					f.enqueue("a")
				}
				job := queue.Job{ID: f.minted(), Lane: "a"}
				user.Grant(t, []*tiertest.Server{s}, "-"+right)
				_, err := f.jobs.Enqueue(f.ctx, job)
				require.ErrorIs(t, err, tier.ErrPermission)
				require.Equal(t, there, tier.OutcomeUnknown(err), "%v", err)
				user.Grant(t, []*tiertest.Server{s}, "+"+right)
				_, err = f.jobs.Enqueue(f.ctx, job)
				require.Equal(t, there, errors.Is(err, queue.ErrDuplicate), "%v", err)
				f.counts(queue.Counts{Ready: 5})
			})
		}
	}
}

// TestEnqueueAnsweredAgain: of a call whose reply was lost the next sending is answered what the first was, also of plain jobs for a lane that has some.
func TestEnqueueAnsweredAgain(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	there := f.enqueue("a", "a")[0]
	f.enqueue("a")
	id := f.minted()
	proxy.DropReplies(1, func(cmd []string) bool { return cmd[0] == "EVALSHA" })
	receipts, err := f.jobs.EnqueueMany(f.ctx, []queue.Job{{Lane: "a", ID: there}, {Lane: "a", ID: id}})
	require.NoError(t, err)
	require.Equal(t, 1, proxy.Dropped())
	require.ErrorIs(t, receipts[0].Err, queue.ErrDuplicate)
	require.NoError(t, receipts[1].Err)
	for _, key := range f.producers() {
		ttl, err := strconv.Atoi(f.text("PTTL", key))
		require.NoError(t, err)
		require.Positive(t, ttl)
	}
}

// TestEnqueueEmptied: a lane that has its turn, but no log any more, has it made again with its group, also by plain jobs.
func TestEnqueueEmptied(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	m := f.join(f.workers)
	f.enqueue("a", "a")
	f.settle(m, f.read(m, 2)...)
	require.Equal(t, "0", f.text("EXISTS", f.queue.LaneKey("a")))
	require.NotEmpty(t, f.text("ZSCORE", f.queue.RingKey(), "a"))
	ids := f.enqueue("a", "a")
	require.Equal(t, ids, idsOf(f.read(m, 2)))
}

// TestEnqueueMoreAtOnce: as many plain jobs as a call may have, for a lane that has some, are all known.
func TestEnqueueMoreAtOnce(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	ids := f.enqueue("a")
	ids = append(ids, f.enqueue(slices.Repeat([]string{"a"}, 4096)...)...)
	f.counts(queue.Counts{Ready: 4097})
	require.Equal(t, "4097", f.text("HLEN", f.queue.JobsKey()))
	m := f.join(f.workers)
	claimed := append(f.read(m, 4096), f.read(m, 1)...)
	require.Equal(t, ids, idsOf(claimed))
	for i, l := range claimed[1:] {
		require.Equal(t, strconv.Itoa(i), string(l.Records[0].Data))
	}
}

// TestEnqueueMoreTold: of a queue with events, plain jobs for a lane that has some are told of, too.
func TestEnqueueMoreTold(t *testing.T) {
	w := newWitness(setUp(t, tiertest.Shared(t, tiertest.Valkey)))
	w.enqueue("a", "a")
	w.next()
	w.enqueue("a", "a")
	require.Equal(t, []string{"enqueued 2 absent>ready a//, enqueued 3 absent>ready a//"}, w.next())
}

// TestEnqueueClosed: with the client closed, who enqueues is told at once, a flow too: it is not tried again.
func TestEnqueueClosed(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	f := setUp(t, s)
	c, err := tier.Dial(f.ctx, s.URL(), tier.Options{})
	require.NoError(t, err)
	jobs, err := queue.NewClient(c, queue.Config{Queue: string(f.queue)})
	require.NoError(t, err)
	_, err = jobs.Enqueue(f.ctx, queue.Job{})
	require.NoError(t, err)
	c.Close()
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	_, err = jobs.Enqueue(ctx, queue.Job{})
	require.ErrorIs(t, err, tier.ErrClosed)
	_, err = jobs.EnqueueFlow(ctx, &queue.Flow{Job: queue.Job{ID: f.minted()}, Children: []*queue.Flow{{Job: queue.Job{ID: f.minted()}}}})
	require.ErrorIs(t, err, tier.ErrClosed)
	require.NoError(t, ctx.Err())
}

// producers are the keys of those who have enqueued.
func (f *fixture) producers() []string {
	f.t.Helper()
	m := f.do("KEYS", f.queue.CallsKey("*"))
	keys, err := m.AsStrSlice()
	require.NoError(f.t, err)
	return keys
}

// TestEnqueueOutOfOrder: a call whose number is not the one after its producer's last is not made, as one that was sent long ago; the job is enqueued
// by another producer.
func TestEnqueueOutOfOrder(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	n := 0
	for _, last := range []string{"0 ", "9 "} {
		for range 2 { // both producers
			f.enqueue("a")
		}
		before := f.producers()
		for _, key := range before {
			f.do("SET", key, last)
		}
		f.enqueue("a")
		f.enqueue("a")
		for _, key := range before {
			require.Equal(t, last, f.text("GET", key))
		}
		require.Len(t, f.producers(), len(before)+2)
		n += 4
		f.counts(queue.Counts{Ready: int64(n)})
	}
}

// TestEnqueueRecordLost: of a call whose reply was lost, and that the server knows nothing of when it is sent again, the outcome is unknown: its job may
// be done already.
func TestEnqueueRecordLost(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Shared(t, tiertest.Valkey))
	f.enqueue("a")
	f.enqueue("a")
	m := f.join(f.workers)
	enqueues := func(cmd []string) bool { return cmd[0] == "EVALSHA" && slices.Contains(cmd, f.queue.WakeKey()) }
	sent := 0
	proxy.DropRequests(1, func(cmd []string) bool { // none
		if enqueues(cmd) {
			if sent++; sent == 2 { // the job is done, and the record of the call has gone
				f.do("DEL", append(f.producers(), f.queue.LaneKey("a"), f.queue.JobsKey())...)
			}
		}
		return false
	})
	proxy.DropNextReply(enqueues)
	_, err := f.jobs.Enqueue(f.ctx, queue.Job{Lane: "a"})
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	require.Equal(t, 2, sent)
	f.none(m)
}
