package stream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRetire: a group with something to do that nobody has heard of for as long as the policy says is deleted, as by its verb; one
// that lives, is paused, has nothing to do, or is not long enough silent, stays.
func TestRetire(t *testing.T) {
	policy := stream.Retention{Settled: true, Exact: true, Retire: time.Second}
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.logged(10)
		long := f.group("long", stream.Head(), time.Hour) // whose members beat when they must
		f.read(f.join(long), 3)
		alive := f.join(f.group("alive", stream.Head(), time.Second))
		f.read(alive, 3)
		dead := f.join(f.group("dead", stream.Head(), time.Second))
		leased := f.read(dead, 3)
		require.NoError(t, dead.Commit(f.ctx, failed(leased[0].Entry)))
		require.NoError(t, f.group("unused", stream.Head(), time.Second).Create(f.ctx))
		f.drain(f.join(f.group("idle", stream.Head(), time.Second)))
		paused := f.group("paused", stream.Head(), time.Second)
		require.NoError(t, paused.Create(f.ctx))
		require.NoError(t, paused.Pause(f.ctx))
		sweep := f.sweeps(policy)
		retired := map[string]stream.Retired{}
		look := func() {
			t.Helper()
			require.NoError(t, renewed(f, alive))
			for _, name := range []string{"long", "alive", "dead", "unused", "idle", "paused", "none", "its:own"} {
				is, held, err := sweep.Retire(f.ctx, "orders", policy, name)
				require.NoError(t, err)
				if is {
					require.Equal(t, name, held.Group)
					require.NotContains(t, retired, name)
					retired[name] = held
				}
			}
		}
		look()
		require.Empty(t, retired, "it is not long enough silent")
		tiertest.Eventually(t, soon, func() (bool, string) {
			look()
			return len(retired) >= 2, "nothing is retired"
		})
		require.Equal(t, map[string]stream.Retired{"dead": {Group: "dead", Pending: 2, Parked: 1}, "unused": {Group: "unused"}}, retired)
		groups, err := stream.Groups(f.ctx, f.client, f.address)
		require.NoError(t, err)
		require.Len(t, groups, 4)
		require.NotEmpty(t, f.text("HGET", f.addr().RetentionKey(), "retired:dead"))
		_, err = dead.Rebuild(f.ctx)
		require.ErrorIs(t, err, stream.ErrGroupDeleted)
		is, _, err := sweep.Retire(f.ctx, "orders", stream.Retention{Settled: true}, "long")
		require.NoError(t, err)
		require.False(t, is, "by no policy")
	})
}

// renewed is a sign of life.
func renewed(f *fixture, m *stream.Member) error {
	_, err := m.Renew(f.ctx, nil)
	return err
}

// TestRetireIsFenced: who does not hold the right, or has read another policy, retires nobody.
func TestRetireIsFenced(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.logged(1)
	require.NoError(t, f.group("unused", stream.Head(), time.Second).Create(f.ctx))
	f.do("HSET", f.addr().RetentionKey(), "silent:unused", "1")
	policy := stream.Retention{Retire: time.Second}
	sweep := f.sweeps(policy)
	_, _, err := sweep.Retire(f.ctx, "orders", stream.Retention{Retire: time.Minute}, "unused")
	require.ErrorIs(t, err, stream.ErrPolicyChanged)
	require.NoError(t, sweep.Release(f.ctx))
	_, _, err = sweep.Retire(f.ctx, "orders", policy, "unused")
	require.ErrorIs(t, err, stream.ErrSweepLost)
	groups, err := stream.Groups(f.ctx, f.client, f.address)
	require.NoError(t, err)
	require.Len(t, groups, 1)
}
