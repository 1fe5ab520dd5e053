package stream_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestSweepFrozen (B8): one that was silent past its lease trims nothing, whether another has taken over or not; and the one
// that holds the right may go on while others wait.
func TestSweepFrozen(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		f.logged(10)
		policy := stream.Retention{MaxLength: 1, HardCap: 1}
		require.NoError(t, stream.SetRetention(f.ctx, f.client, f.address, policy))
		frozen, err := stream.NewSweep(f.client, f.addr().Scope, time.Second)
		require.NoError(t, err)
		refused := func(s *stream.Sweep) {
			t.Helper()
			_, err := s.Trim(f.ctx, "orders", policy, stream.Trim{Keep: 1, Exact: true})
			require.ErrorIs(t, err, stream.ErrSweepLost)
			_, err = s.Drop(f.ctx, "orders", policy)
			require.ErrorIs(t, err, stream.ErrSweepLost)
			require.Equal(t, "10", f.length())
		}
		refused(frozen) // before it has asked
		held, _, err := frozen.Take(f.ctx)
		require.NoError(t, err)
		require.True(t, held)
		next, err := stream.NewSweep(f.client, f.addr().Scope, time.Minute)
		require.NoError(t, err)
		held, wait, err := next.Take(f.ctx)
		require.NoError(t, err)
		require.False(t, held)
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, time.Second)
		refused(next)
		until := f.text("HGET", tier.SweeperKey(f.addr().Scope), "until")
		tiertest.Eventually(t, soon, func() (bool, string) {
			return len(until) > 0 && f.now().UnixMilli() > number(t, until), "the lease does not end"
		})
		refused(frozen) // nobody has taken over
		held, _, err = next.Take(f.ctx)
		require.NoError(t, err)
		require.True(t, held)
		refused(frozen)
		held, _, err = frozen.Take(f.ctx)
		require.NoError(t, err)
		require.False(t, held)
		require.NoError(t, frozen.Release(f.ctx)) // which is not its
		require.EqualValues(t, 9, f.trim(next, policy, stream.Trim{Keep: 1, Exact: true}))
		require.NoError(t, next.Release(f.ctx))
		held, _, err = frozen.Take(f.ctx)
		require.NoError(t, err)
		require.True(t, held)
		held, _, err = frozen.Take(f.ctx) // keeps it
		require.NoError(t, err)
		require.True(t, held)
		f.do("HINCRBY", tier.SweeperKey(f.addr().Scope), "epoch", "1") // as if it had lost it and taken it again since the call was sent
		_, err = frozen.Trim(f.ctx, "orders", policy, stream.Trim{Keep: 0, Exact: true})
		require.ErrorIs(t, err, stream.ErrSweepLost)
	})
}

// TestSweepClockSetBack: of a lease that ends far in the future, since the clock was set back, a lease's time is left.
func TestSweepClockSetBack(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	f.logged(1)
	f.do("HSET", tier.SweeperKey(f.addr().Scope), "owner", "other", "epoch", "1", "until", "9999999999999")
	s, err := stream.NewSweep(f.client, f.addr().Scope, time.Minute)
	require.NoError(t, err)
	held, wait, err := s.Take(f.ctx)
	require.NoError(t, err)
	require.False(t, held)
	require.LessOrEqual(t, wait, time.Minute)
}

// TestSweepBadCalls: what breaks a rule is told without the server.
func TestSweepBadCalls(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	_, err := stream.NewSweep(f.client, "a:b", 0)
	require.Error(t, err)
	_, err = stream.NewSweep(f.client, "shop", time.Second-1)
	require.ErrorIs(t, err, stream.ErrBadCall)
	_, err = stream.HoldingsOf(f.ctx, f.client, f.address)
	require.ErrorIs(t, err, stream.ErrNoStream)
	_, err = stream.HoldingsOf(f.ctx, f.client, strings.Repeat("a", 200))
	require.Error(t, err)
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}
