package queue_test

import (
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

// short is a queue of one lane, and a member that takes the short way to it.
type short struct {
	*fixture
	proxy *tiertest.Proxy
	me    *queue.Member
	ids   []codec.ID // of all jobs
	mine  []tier.Leased
}

// newShort has claimed two jobs of ten, of which the second was claimed the short way.
func newShort(t *testing.T, s *tiertest.Server) *short {
	f, proxy := setUpProxied(t, s)
	sh := &short{fixture: f, proxy: proxy, me: f.join(f.workers)}
	sh.me.Direct(f.ctx)
	sh.ids = f.enqueue(slices.Repeat([]string{"a"}, 10)...)
	sh.mine = f.read(sh.me, 1)
	sh.taken(1, func() { sh.mine = append(sh.mine, f.read(sh.me, 1)...) })
	return sh
}

// taken says how many transactions there are of what is done.
func (s *short) taken(transactions int, do func()) {
	s.t.Helper()
	before := s.proxy.Commands()
	do()
	after := s.proxy.Commands()
	require.Equal(s.t, transactions, after["EXEC"]-before["EXEC"], "transactions")
}

// TestShortWay: many jobs are claimed and settled by transactions, one round trip each once there is one: in the order of the lane, each once, and with
// the last one the lane is gone.
func TestShortWay(t *testing.T) {
	tiertest.EachPrivate(t, func(t *testing.T, s *tiertest.Server) {
		sh := newShort(t, s)
		require.Equal(t, sh.ids[:2], idsOf(sh.mine))
		require.Equal(t, 1, sh.mine[1].Deliveries)
		require.Equal(t, "1", string(sh.mine[1].Records[0].Data))
		require.Equal(t, queue.Active, sh.get(sh.ids[1]).State)
		require.NotEmpty(t, sh.text("ZSCORE", sh.queue.LeasedKey(), "a"))
		require.Equal(t, "2", sh.text("ZSCORE", sh.queue.RingKey(), "a"))

		sh.taken(1, func() { sh.settle(sh.me, sh.mine...) })
		scripts := sh.proxy.Commands()["EVALSHA"]
		sh.taken(3, func() {
			sh.mine = sh.read(sh.me, 7)
			sh.settle(sh.me, sh.mine[:3]...)
			sh.settle(sh.me, sh.mine[3:]...)
		})
		require.Equal(t, 2, sh.proxy.Commands()["EVALSHA"]-scripts, "one in each settle")
		require.Equal(t, sh.ids[2:9], idsOf(sh.mine))
		sh.gone(sh.ids[:9]...)
		sh.taken(2, func() {
			leased, err := sh.me.Read(sh.ctx, 5, 0)
			require.NoError(t, err)
			require.Equal(t, sh.ids[9:], idsOf(leased))
			require.Equal(t, "10", sh.text("ZSCORE", sh.queue.RingKey(), "a"), "the lane pays for what it was served")
			sh.settle(sh.me, leased...)
		})
		require.Equal(t, "0", sh.text("EXISTS", sh.queue.LaneKey("a"), sh.queue.JobsKey(), sh.queue.LeasedKey()))
		sh.none(sh.me)
	})
}

// TestShortWayClosed: what is not plain any more, behind the back of an open transaction, goes by the scripts: nothing is given that should not be, and
// nothing is left of what is settled.
func TestShortWayClosed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*short) error
		given  int
	}{
		"plain":       {func(*short) error { return nil }, 7},
		"paused":      {func(s *short) error { return s.jobs.Pause(s.ctx) }, 0},
		"lane paused": {func(s *short) error { return s.jobs.PauseLane(s.ctx, "a") }, 0},
		"events":      {func(s *short) error { return s.jobs.DeclareEvents(s.ctx, 100) }, 7},
		"rate":        {func(s *short) error { return s.jobs.Limit(s.ctx, queue.Rate{Jobs: 3, Per: time.Hour}) }, 3},
		"lane's rate": {func(s *short) error {
			_, err := s.jobs.LimitLane(s.ctx, "a", queue.Rate{Jobs: 3, Per: time.Hour})
			return err
		}, 3},
		"ceiling":   {func(s *short) error { return s.jobs.SetCeiling(s.ctx, 5) }, 3},
		"lane's":    {func(s *short) error { _, err := s.jobs.SetLane(s.ctx, "a", 1, 5); return err }, 3},
		"note":      {func(s *short) error { return s.jobs.Progress(s.ctx, s.ids[0], []byte("half")) }, 7},
		"cancelled": {func(s *short) error { _, err := s.jobs.Cancel(s.ctx, s.ids[0], "enough"); return err }, 7},
		"unique key": {func(s *short) error {
			_, err := s.jobs.Enqueue(s.ctx, queue.Job{Lane: "a", Unique: queue.Unique{Key: "k", Until: queue.UntilStarted}})
			return err
		}, 8},
		"beat": {func(s *short) error { _, err := s.me.Renew(s.ctx, entriesOf(s.mine)); return err }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
			s.taken(1, func() { s.settle(s.me, s.mine[1]) })
			s.mine = append(s.mine[:1], s.read(s.me, 1)...)
			require.NoError(t, c.change(s))
			held := len(s.mine)
			for _, n := range []int{1, 1, 20} { // a claim that brings all that is wanted lets the next one try the short way again
				leased, err := s.me.Read(s.ctx, n, 0)
				require.NoError(t, err)
				s.mine = append(s.mine, leased...)
			}
			require.Len(t, s.mine[held:], c.given)
			require.Equal(t, "0", s.text("EXISTS", s.queue.UniqueKey()), "a job that has started has it no more")
			s.settle(s.me, s.mine...)
			require.Equal(t, "0", s.text("EXISTS", s.queue.NotesKey(), s.queue.CancelledKey()))
			if name == "events" {
				done := slices.DeleteFunc(s.told(s.messages(codec.EntryID{})), func(e queue.Event) bool { return e.To != "done" })
				require.Len(t, done, len(s.mine))
			}
		})
	}
}

// TestShortWayTurns: a lane that comes to the ring, or is to come back to it since its limit allows another job, has its turn at the third claim, which the
// second has told of it, and one claim sooner when what was seen of the ring is old.
func TestShortWayTurns(t *testing.T) {
	for name, c := range map[string]struct {
		within  int // claims
		old     time.Duration
		limited bool
	}{"at once": {within: 3}, "later": {within: 2, old: time.Second}, "limited": {within: 3, limited: true}} {
		t.Run(name, func(t *testing.T) {
			s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
			id := s.enqueue("b")[0]
			if c.limited {
				s.do("ZREM", s.queue.RingKey(), "b")
				s.do("ZADD", s.queue.LimitedKey(), "1", "b")
			}
			s.me.Jump(c.old)
			var claimed []codec.ID
			for range c.within {
				claimed = append(claimed, idOf(s.read(s.me, 1)[0]))
			}
			require.Contains(t, claimed, id)
		})
	}
}

// TestShortWayLooks: a claim says when its lane is to be looked at, unless that is to be sooner already.
func TestShortWayLooks(t *testing.T) {
	s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
	s.do("ZADD", s.queue.LeasedKey(), "1", "a")
	s.taken(1, func() { s.read(s.me, 1) })
	require.Equal(t, "1", s.text("ZSCORE", s.queue.LeasedKey(), "a"))
	s.do("DEL", s.queue.LeasedKey())
	s.taken(1, func() { s.read(s.me, 1) })
	look, err := strconv.ParseInt(s.text("ZSCORE", s.queue.LeasedKey(), "a"), 10, 64)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(lease), time.UnixMilli(look), lease/2)
}

// TestShortWayPartly: where one command of a transaction is refused and others have run, nobody is told that nothing was done, and Sync tells what was.
func TestShortWayPartly(t *testing.T) {
	s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
	s.do("SET", s.queue.LeasedKey(), "of another program")
	_, err := s.me.Read(s.ctx, 3, 0)
	require.ErrorIs(t, err, tier.ErrPartly)
	require.True(t, tier.OutcomeUnknown(err))
	s.do("DEL", s.queue.LeasedKey())
	s.do("ZADD", s.queue.LeasedKey(), "1", "a")
	held, err := s.me.Sync(s.ctx)
	require.NoError(t, err)
	require.Len(t, held, 5)
}

// TestShortWayLaneGone: a lane that is gone by the time of the claim has nothing to give.
func TestShortWayLaneGone(t *testing.T) {
	s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
	other := s.join(s.workers)
	for range 2 { // by a script, since a member has joined, and the short way
		s.mine = append(s.mine, s.read(s.me, 1)...)
	}
	s.settle(other, s.read(other, 6)...)
	s.settle(s.me, s.mine...)
	require.Equal(t, "0", s.text("EXISTS", s.queue.LaneKey("a")))
	s.taken(1, func() { s.none(s.me) })
}

// TestShortWayClockBack: with the server's clock put back by an hour, jobs that are enqueued keep their order behind those that are there; a lane that was
// emptied begins anew with lower ids, whose jobs a settle that is repeated leaves alone.
func TestShortWayClockBack(t *testing.T) {
	s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	s.do("XSETID", s.queue.LaneKey("a"), ahead+"-0")
	for range 2 {
		s.ids = append(s.ids, s.enqueue("a", "a")...)
	}
	s.taken(2, func() { s.mine = append(append(s.mine, s.read(s.me, 8)...), s.read(s.me, 4)...) })
	require.Equal(t, s.ids, idsOf(s.mine))
	old := s.mine
	s.settle(s.me, old...)
	require.Equal(t, "0", s.text("EXISTS", s.queue.LaneKey("a")))

	s.ids = s.enqueue("a", "a")
	require.Less(t, s.last(), ahead)
	s.mine = s.read(s.me, 2)
	require.Equal(t, s.ids, idsOf(s.mine))
	n, err := s.me.Settle(s.ctx, entriesOf(old))
	require.NoError(t, err)
	require.Zero(t, n)
	s.settle(s.me, s.mine...)
	s.gone(s.ids...)
}

// TestShortWayFenced: of what another has taken over a member settles nothing, and is given nothing, before it has asked what is left to it.
func TestShortWayFenced(t *testing.T) {
	s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
	other := s.join(s.workers)
	s.age("a")
	taken, _ := s.takeOver(other, 10, 0)
	require.Len(t, taken, 2)
	for range 2 { // the open transaction has seen the old number, then the new one
		_, err := s.me.Settle(s.ctx, entriesOf(s.mine))
		require.ErrorIs(t, err, tier.ErrFenced)
		_, err = s.me.Read(s.ctx, 1, 0)
		require.ErrorIs(t, err, tier.ErrFenced)
	}
	for _, id := range s.ids[:2] {
		require.Equal(t, other.Name(), s.get(id).Worker)
	}
	require.Equal(t, queue.Ready, s.get(s.ids[2]).State)
}

// TestShortWayRepeated: a settle whose answer was lost, of a transaction or of the script, is repeated by the script, which leaves a job alone that has
// come again under its id.
func TestShortWayRepeated(t *testing.T) {
	for lost, before := range map[string]func(*short) error{
		"EXEC":    func(*short) error { return nil },
		"EVALSHA": func(s *short) error { _, err := s.me.Renew(s.ctx, nil); return err }, // after which the transaction is void
	} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
			require.NoError(t, before(s))
			void := false
			s.proxy.DropNextReply(func(cmd []string) bool {
				is := cmd[0] == lost && (void || lost == "EXEC")
				void = void || cmd[0] == "EXEC"
				return is
			})
			_, err := s.me.Settle(s.ctx, entriesOf(s.mine[1:]))
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			s.gone(s.ids[1])
			_, err = s.jobs.Enqueue(s.ctx, queue.Job{ID: s.ids[1], Lane: "a"})
			require.NoError(t, err)
			n, err := s.me.Settle(s.ctx, entriesOf(s.mine))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, queue.Ready, s.get(s.ids[1]).State)
		})
	}
}

// TestShortWayAsked: what was asked for before the connection was there goes by the script, whenever it is answered: it may be of another server.
func TestShortWayAsked(t *testing.T) {
	t.Parallel()
	f, proxy := setUpProxied(t, tiertest.Private(t, tiertest.Valkey))
	s := &short{fixture: f, proxy: proxy, me: f.join(f.workers)}
	s.enqueue("a", "a")
	s.settle(s.me, s.read(s.me, 1)...)
	before := proxy.Commands()["EVALSHA"]
	s.do("CLIENT", "PAUSE", "60000", "WRITE")
	read := make(chan []tier.Leased, 1)
	go func() {
		leased, _ := s.me.Read(s.ctx, 1, 0)
		read <- leased
	}()
	tiertest.Eventually(t, 10*time.Second, func() (bool, string) { return proxy.Commands()["EVALSHA"] > before, "not sent" })
	s.me.Direct(s.ctx)
	s.do("CLIENT", "UNPAUSE")
	leased := <-read
	require.Len(t, leased, 1)
	s.taken(0, func() { s.settle(s.me, leased...) })
}

// TestShortWayLost: when the reply to a claim was lost, Sync tells what was given.
func TestShortWayLost(t *testing.T) {
	s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
	s.proxy.DropNextReply(func(cmd []string) bool { return cmd[0] == "EXEC" })
	_, err := s.me.Read(s.ctx, 3, 0)
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	held, err := s.me.Sync(s.ctx)
	require.NoError(t, err)
	require.Len(t, held, 5)
	entries := make([]codec.EntryID, len(held))
	for i := range held {
		entries[i] = held[i].Entry
	}
	n, err := s.me.Settle(s.ctx, entries)
	require.NoError(t, err)
	require.Equal(t, 5, n)
}

// TestShortWayUndecoded: a job whose message does not decode keeps its bytes when others are claimed after it.
func TestShortWayUndecoded(t *testing.T) {
	s := newShort(t, tiertest.Shared(t, tiertest.Valkey))
	s.do("XADD", s.queue.LaneKey("a"), "*", "j", "JOB00000000001", "m", "\xc1")
	s.do("HSET", s.queue.JobsKey(), "JOB00000000001", s.last()+" a")
	s.ids = append(s.ids, s.enqueue("a", "a")...)
	s.mine = append(s.mine, s.read(s.me, 9)...)
	bad := s.mine[10].Records
	require.Error(t, bad[0].Err)
	want := slices.Clone(bad[0].Fields)
	require.Equal(t, []string{"j", "JOB00000000001", "m", "\xc1"}, want)
	s.mine = append(s.mine, s.read(s.me, 2)...)
	require.Equal(t, want, bad[0].Fields)
	s.settle(s.me, s.mine...)
}

// last is the id of the last entry of the lane.
func (s *short) last() string {
	m := s.do("XREVRANGE", s.queue.LaneKey("a"), "+", "-", "COUNT", "1")
	rows, err := m.ToArray()
	require.NoError(s.t, err)
	row, err := rows[0].ToArray()
	require.NoError(s.t, err)
	id, err := row[0].ToString()
	require.NoError(s.t, err)
	return id
}

// TestShortWayUnknownScript: a server that has forgotten the scripts leaves no empty lane behind.
func TestShortWayUnknownScript(t *testing.T) {
	s := newShort(t, tiertest.Private(t, tiertest.Valkey))
	s.mine = append(s.mine, s.read(s.me, 8)...)
	s.do("SCRIPT", "FLUSH")
	s.taken(1, func() { s.settle(s.me, s.mine...) })
	require.Equal(t, "0", s.text("EXISTS", s.queue.LaneKey("a"), s.queue.JobsKey(), s.queue.LeasedKey()))
}
