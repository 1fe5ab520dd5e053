package stream_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// silence makes a member look as if it had not beaten for long.
func (f *fixture) silence(group, member string, long time.Duration) {
	f.t.Helper()
	f.do("HSET", f.addr().OwnersKey(group), member+":beat", strconv.FormatInt(f.now().Add(-long).UnixMilli(), 10))
}

// details are the groups of the stream, by name.
func (f *fixture) details() map[string]stream.GroupDetail {
	f.t.Helper()
	list, err := stream.GroupDetails(f.ctx, f.client, f.address)
	require.NoError(f.t, err)
	all := map[string]stream.GroupDetail{}
	for _, g := range list {
		all[g.Name] = g
	}
	return all
}

// TestGroupDetails: who takes part, what each holds, whether it is alive; what that makes of the group.
func TestGroupDetails(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		require.Empty(t, f.details())
		f.append(f.writer(stream.WriterConfig{}), 3)
		g := f.group("g", stream.Head(), 0)
		quiet, busy := f.join(g), f.join(g) // Redis does not list one that has read nothing
		f.read(busy, 2)
		f.do("XREADGROUP", "GROUP", "g", "raw", "COUNT", "1", "STREAMS", f.log(), ">")
		f.do("XGROUP", "CREATE", f.log(), "raw: a", "0")

		d := f.details()["g"]
		require.Equal(t, stream.Active, d.State)
		require.Equal(t, 3, d.Alive)
		who := map[string]stream.ConsumerInfo{}
		for _, c := range d.Who {
			require.Less(t, c.Idle, time.Minute)
			require.Less(t, c.Silence, time.Minute)
			c.Idle, c.Silence = 0, 0
			who[c.Name] = c
		}
		require.Equal(t, map[string]stream.ConsumerInfo{
			quiet.Name(): {Name: quiet.Name(), Member: true},
			busy.Name():  {Name: busy.Name(), Member: true, Pending: 2},
			"raw":        {Name: "raw", Pending: 1},
		}, who)
		foreign := f.details()["raw: a"]
		require.Equal(t, stream.Dead, foreign.State) // nobody reads it
		require.Empty(t, foreign.Who)
		require.Equal(t, stream.DefaultLease, foreign.LeaseOrDefault())

		f.do("XGROUP", "DELCONSUMER", f.log(), "g", "raw")
		for _, m := range []*stream.Member{quiet, busy} {
			f.silence("g", m.Name(), time.Hour)
		}
		d = f.details()["g"]
		require.Equal(t, stream.Dead, d.State)
		require.Zero(t, d.Alive)
		for _, c := range d.Who {
			require.Equal(t, c.Name == busy.Name(), c.Overdue)
			require.GreaterOrEqual(t, c.Silence, time.Hour)
		}
		f.do("HSET", f.addr().GroupKey("g"), "floor", "5-1")
		_, err := busy.Settle(f.ctx, []codec.EntryID{f.pending("g")[0].entry, f.pending("g")[1].entry})
		require.NoError(t, err)
		d = f.details()["g"]
		require.Equal(t, stream.Idle, d.State)
		require.Equal(t, codec.EntryID{Ms: 5, Seq: 1}, d.Floor)
		f.do("HDEL", f.addr().GroupKey("g"), "floor")
	})
}

// TestListingAfterARestart (B154): what is listed is the server's own state: after a restart between read and
// acknowledgement, the same entries are pending with the same consumer, and the next acknowledgement counts.
func TestListingAfterARestart(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind, "--appendonly", "yes", "--appendfsync", "always")
			f := setUp(t, s)
			f.append(f.writer(stream.WriterConfig{}), 5)
			m := f.join(f.group("g", stream.Head(), 0))
			held := f.read(m, 3)
			listed := func() stream.GroupDetail {
				d := f.details()["g"]
				for i := range d.Who { // idle times go on
					d.Who[i].Idle, d.Who[i].Silence = 0, 0
				}
				d.OldestPendingAge, d.OldestUnreadAge = 0, 0
				return d
			}
			before := listed()
			require.EqualValues(t, 3, before.Pending)
			require.EqualValues(t, 2, before.Lag)
			s.Kill()
			require.NoError(t, s.Restart(f.ctx))
			tiertest.Eventually(t, time.Minute, func() (bool, string) {
				_, err := f.client.Now(f.ctx, f.log())
				return err == nil, "no answer"
			})
			after := listed()
			if after.LagExact { // Redis 7.0 cannot tell it any more, and that is said
				require.EqualValues(t, 2, after.Lag)
			}
			require.GreaterOrEqual(t, after.Lag, before.Lag)
			after.Lag, after.LagExact = before.Lag, before.LagExact
			require.Equal(t, before, after)
			n, err := m.Settle(f.ctx, entriesOf(held))
			require.NoError(t, err)
			require.Equal(t, 3, n)
			require.Zero(t, listed().Pending)
		})
	}
}

// TestGroupsCountWhatFails: an entry that fails and comes again, over and over, is pending or parked whenever a group is looked at: who waits
// until nothing is does not end before it.
func TestGroupsCountWhatFails(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.append(f.writer(stream.WriterConfig{}), 1)
	m := f.join(f.group("g", stream.Head(), time.Minute))
	leased := f.read(m, 1)
	looks, looked := 400, make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < looks && err == nil; i++ {
			var list []stream.GroupInfo
			if list, err = stream.Groups(f.ctx, f.client, f.address); err == nil && list[0].Pending+list[0].Parked == 0 {
				err = fmt.Errorf("look %d: nothing is pending or parked", i)
			}
		}
		looked <- err
	}()
	for {
		select {
		case err := <-looked:
			require.NoError(t, err)
			return
		default:
		}
		for _, l := range leased {
			require.NoError(t, m.Commit(f.ctx, []tier.Ending{{Entry: l.Entry, Deliveries: l.Deliveries, Open: []tier.Open{{Attempt: 1}}}}))
		}
		taken, err := m.Due(f.ctx, 1)
		require.NoError(t, err)
		leased = taken.Leased
	}
}

// What is parked and what is dead: how many, the oldest, when the first is due.
func TestGroupsTellOfParkedAndDead(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.append(f.writer(stream.WriterConfig{}), 6)
		g := f.group("g", stream.Head(), 0)
		me := f.join(g)
		leased := f.read(me, 6)
		d := f.details()["g"]
		require.Zero(t, d.DueIn)
		require.True(t, d.OldestParked.IsZero())
		require.True(t, d.OldestDead.IsZero())
		require.Zero(t, d.OldestParkedAge+d.OldestDeadAge)
		aside := func(i int, delay time.Duration) tier.Ending {
			return tier.Ending{Entry: leased[i].Entry, Deliveries: 1, Open: []tier.Open{{Attempt: 1, Delay: delay}}}
		}
		require.NoError(t, me.Commit(f.ctx, []tier.Ending{aside(4, time.Minute), aside(3, time.Hour), aside(1, 24*time.Hour)}))
		require.NoError(t, me.Commit(f.ctx, lettersOf(heldOf(leased[2:3]), "first")))
		require.NoError(t, me.Commit(f.ctx, lettersOf(heldOf(leased[5:6]), "second")))
		d = f.details()["g"]
		require.EqualValues(t, 3, d.Parked)
		require.Greater(t, d.DueIn, 30*time.Second)
		require.LessOrEqual(t, d.DueIn, time.Minute)
		require.Equal(t, leased[1].Entry, d.OldestParked)
		require.EqualValues(t, 2, d.Dead)
		require.Equal(t, f.dead()[0].ID, d.OldestDead)
		f.do("ZADD", f.addr().RetryKey("g"), "1000", leased[4].Entry.String())
		require.Zero(t, f.details()["g"].DueIn, "it is due")
	})
}
