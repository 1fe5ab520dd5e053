package retention_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestSweeper: streams with a policy are kept to it while others grow; of two sweepers one works, and the other goes on when it
// stops.
func TestSweeper(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		for _, name := range []string{"few", "queue", "all"} {
			s.append(name, 300, 10)
		}
		m := s.member("queue", "workers")
		s.settles(m, 200)
		s.declare("few", stream.Retention{MaxLength: 50, Exact: true})
		s.declare("queue", stream.Retention{Settled: true, Exact: true})
		stop := s.runs(s.sweeper(retention.SweeperConfig{}))
		s.becomes("few", 50)
		s.becomes("queue", 100)
		second := s.sweeper(retention.SweeperConfig{})
		_, err := second.Once(s.ctx)
		var held *retention.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, s.scope, held.Scope)
		require.LessOrEqual(t, held.Wait, stream.DefaultSweepLease)
		s.runs(second)
		s.settles(m, 50)
		s.append("few", 7, 10)
		s.becomes("queue", 50)
		s.becomes("few", 50)
		stop()
		s.settles(m, 50)
		s.becomes("queue", 0)
		require.EqualValues(t, 300, s.holdings("all").Length)
		require.Equal(t, 257.0, s.metric("trimmed_entries_total", "stream", "few"))
		tiertest.Eventually(t, soon, func() (bool, string) {
			return s.metric("trimmed_entries_total", "stream", "queue") == 300, "the last entries are not counted"
		})
		require.Zero(t, s.metric("dropped_entries_total"))
		require.Zero(t, s.metric("failures_total"))
		problems, err := testutil.GatherAndLint(s.reg)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

// TestSettledIsEmptied (B69): what is used as a queue takes no memory for what is done.
func TestSettledIsEmptied(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	const n = 20_000
	s.append("queue", n, 10)
	s.settles(s.member("queue", "workers"), n)
	s.declare("queue", stream.Retention{Settled: true, Exact: true})
	before := s.holdings("queue").Bytes
	list, err := s.sweeper(retention.SweeperConfig{}).Once(s.ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, n, list[0].Entries)
	require.Zero(t, list[0].Left)
	h := s.holdings("queue")
	require.Zero(t, h.Length)
	require.Less(t, h.Bytes, before/50)
}

// TestMaxBytes (B70): few huge messages, far below the max length, are bounded by their bytes.
func TestMaxBytes(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append("orders", 64, 256<<10)
		s.declare("orders", stream.Retention{MaxLength: 1000, MaxBytes: 4 << 20, Exact: true})
		list, err := s.sweeper(retention.SweeperConfig{}).Once(s.ctx)
		require.NoError(t, err)
		require.Positive(t, list[0].Left)
		require.LessOrEqual(t, list[0].Left, int64(16))
		require.LessOrEqual(t, s.holdings("orders").Bytes, int64(5<<20))
	})
}

// TestHardCap (B60, B61): what is held stays, and metrics tell that nothing goes; above the hard cap it goes, and from whom is told.
func TestHardCap(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append("orders", 1000, 10)
		s.member("orders", "dead")
		s.settles(s.member("orders", "slow"), 400)
		s.declare("orders", stream.Retention{MaxLength: 100, Exact: true})
		sw := s.sweeper(retention.SweeperConfig{})
		list, err := sw.Once(s.ctx)
		require.NoError(t, err)
		require.Zero(t, list[0].Entries)
		require.EqualValues(t, 900, list[0].Over)
		require.Equal(t, 900.0, s.metric("over_entries"))
		require.Positive(t, s.metric("held_age_seconds"))

		s.declare("orders", stream.Retention{MaxLength: 100, Exact: true, HardCap: 150})
		o, err := retention.Look(s.ctx, s.client, s.address("orders"))
		require.NoError(t, err)
		require.EqualValues(t, 850, o.Drops.Entries)
		list, err = sw.Once(s.ctx)
		require.NoError(t, err)
		require.EqualValues(t, 850, list[0].Entries)
		require.EqualValues(t, 150, list[0].Left)
		require.Equal(t, map[string]int64{"dead": 850, "slow": 450}, list[0].Dropped)
		require.Equal(t, map[string]int64{"dead": 850, "slow": 450}, s.holdings("orders").Dropped)
		require.Equal(t, 850.0, s.metric("dropped_entries_total", "group", "dead"))
		require.Equal(t, 450.0, s.metric("dropped_entries_total", "group", "slow"))
		require.Equal(t, 50.0, s.metric("over_entries"))
	})
}

// TestRetire: a group that nobody consumes holds entries until the policy retires it; then they go, and it is told which it was.
func TestRetire(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append("orders", 100, 10)
		m := s.member("orders", "alive")
		s.settles(m, 60)
		g, err := stream.NewGroup(s.client, stream.GroupConfig{Address: s.address("orders"), Name: "dead", Start: stream.Head(), Lease: time.Second})
		require.NoError(t, err)
		require.NoError(t, g.Create(s.ctx))
		c, err := stream.NewCursor(s.client, stream.CursorConfig{Address: s.address("orders"), Name: "projection", Start: stream.Head()})
		require.NoError(t, err)
		_, err = c.Join(s.ctx, "m")
		require.NoError(t, err)
		s.declare("orders", stream.Retention{Settled: true, Exact: true, Retire: 2 * time.Second})
		s.runs(s.sweeper(retention.SweeperConfig{Beat: 50 * time.Millisecond}))
		tiertest.Eventually(t, soon, func() (bool, string) { return s.metric("retired_groups_total") == 1, "it is not retired" })
		groups, err := stream.Groups(s.ctx, s.client, s.address("orders"))
		require.NoError(t, err)
		require.Len(t, groups, 1)
		require.Equal(t, "alive", groups[0].Name)
		require.EqualValues(t, 100, s.holdings("orders").Length, "the cursor holds them, and is not retired")
		require.NoError(t, c.Delete(s.ctx))
		s.becomes("orders", 40)
	})
}

// TestFailingStream: one stream that cannot be swept keeps nobody else from its turn, keeps all that it has, and is counted.
func TestFailingStream(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	for _, name := range []string{"a", "b", "c"} {
		s.append(name, 10, 10)
		s.declare(name, stream.Retention{MaxLength: 1, Exact: true})
	}
	key := tier.ScopeKey(s.scope)
	s.do("HSET", key, "retention:a", "max-length=1 unless=tuesday")
	defer s.do("HDEL", key, "retention:a")
	b := tier.Address{Scope: s.scope, Stream: "b"}
	s.do("DEL", b.CursorsKey())
	s.do("SET", b.CursorsKey(), "of another type")
	defer s.do("DEL", b.CursorsKey())
	list, err := s.sweeper(retention.SweeperConfig{}).Once(s.ctx)
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.ErrorIs(t, list[0].Err, stream.ErrRetention)
	require.Error(t, list[1].Err)
	require.NoError(t, list[2].Err)
	require.EqualValues(t, 1, s.holdings("c").Length)
	require.EqualValues(t, 10, s.holdings("a").Length)
	require.Equal(t, 2.0, s.metric("failures_total"))
}

// TestSweeperIsFenced (B8): a sweeper whose right was taken while it ran trims nothing, waits, and goes on when it is free.
func TestSweeperIsFenced(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		s.append("orders", 20, 10)
		s.declare("orders", stream.Retention{MaxLength: 10, Exact: true})
		s.runs(s.sweeper(retention.SweeperConfig{}))
		s.becomes("orders", 10)
		key := tier.SweeperKey(s.scope)
		ahead := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
		s.do("HSET", key, "owner", "another", "epoch", "9007199254740000", "until", ahead)
		tiertest.Eventually(t, soon, func() (bool, string) { return s.metric("sweeping") == 0, "it does not notice" })
		s.append("orders", 5, 10)
		beats := s.metric("beats_total")
		require.EqualValues(t, 15, s.holdings("orders").Length)
		require.Equal(t, beats, s.metric("beats_total"))
		s.do("HSET", key, "until", "0")
		s.becomes("orders", 10)
	})
}

// TestOneStream: a sweeper of one stream leaves the others alone, and the age of what somebody holds is told.
func TestOneStream(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	for _, name := range []string{"a", "b"} {
		s.append(name, 10, 10)
		s.declare(name, stream.Retention{MaxLength: 1, Exact: true})
	}
	list, err := s.sweeper(retention.SweeperConfig{Stream: "b"}).Once(s.ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, 10, s.holdings("a").Length)
	require.EqualValues(t, 1, s.holdings("b").Length)
}

// TestLook: what is told of a stream before is what the sweeper does to it.
func TestLook(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, srv *tiertest.Server) {
		s := newStage(t, srv)
		_, err := retention.Look(s.ctx, s.client, s.address("orders"))
		require.ErrorIs(t, err, stream.ErrNoStream)
		s.append("orders", 500, 10)
		s.settles(s.member("orders", "slow"), 120)
		s.settles(s.member("orders", "fast"), 450)
		s.declare("orders", stream.Retention{MaxLength: 100, Exact: true})
		o, err := retention.Look(s.ctx, s.client, s.address("orders"))
		require.NoError(t, err)
		require.EqualValues(t, 120, o.Goes.Entries)
		require.EqualValues(t, 280, o.Held.Entries)
		require.Positive(t, o.Held.Bytes)
		require.Len(t, o.Claims, 2)
		require.Equal(t, "slow", o.Claims[0].Name)
		require.EqualValues(t, 380, o.Claims[0].Entries)
		require.EqualValues(t, 50, o.Claims[1].Entries)
		require.EqualValues(t, 500, s.holdings("orders").Length)
		list, err := s.sweeper(retention.SweeperConfig{}).Once(s.ctx)
		require.NoError(t, err)
		require.Equal(t, o.Goes.Entries, list[0].Entries)
		require.Equal(t, o.Held.Entries, list[0].Over)
	})
}

// TestSweeperConfig: what breaks a rule is refused before anything is sent, and Run runs once.
func TestSweeperConfig(t *testing.T) {
	s := newStage(t, tiertest.Shared(t, tiertest.Valkey))
	for _, cfg := range []retention.SweeperConfig{
		{}, {Scope: "a:b"}, {Scope: "shop", Stream: "a:b"}, {Scope: "shop", Beat: -1}, {Scope: "shop", Lease: time.Millisecond},
	} {
		_, err := retention.NewSweeper(s.client, cfg)
		require.Error(t, err, "%+v", cfg)
	}
	sw := s.sweeper(retention.SweeperConfig{})
	stop := s.runs(sw)
	tiertest.Eventually(t, soon, func() (bool, string) { return s.metric("beats_total") > 0, "no beat" })
	require.Error(t, sw.Run(s.ctx))
	stop()
	require.Zero(t, s.metric("sweeping"))
}
