package tiertest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

var singles = []tiertest.Kind{tiertest.Valkey, tiertest.Redis}

// TestCluster: a slot's master, its replica, a failover, a move, a death.
func TestCluster(t *testing.T) {
	for _, kind := range singles {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := tiertest.NewCluster(t, kind)
			master := c.Master(t, "{k}")
			replica := c.Replica(t, master)
			require.NotEqual(t, master, replica)
			master.Command(t, "SET", "{k}", "v")

			c.Failover(t, "{k}")
			require.Equal(t, replica, c.Master(t, "{k}"))

			moved := c.Move(t, "{k}", nil)
			require.NotEqual(t, replica, moved)
			c.WaitWhole(t)
			require.Equal(t, moved, c.Master(t, "{k}"))
			require.Equal(t, "v", text(t, moved, "GET", "{k}"))

			next := c.Replica(t, moved)
			moved.Kill()
			tiertest.Eventually(t, limit, func() (bool, string) { return c.Master(t, "{k}") == next, "no failover" })
			require.NoError(t, moved.Restart(t.Context()))
			c.WaitWhole(t)
			require.Equal(t, moved, c.Replica(t, next))
		})
	}
}

// TestReplicated: the replica has what the primary has; promoted, it takes writes, and the primary follows it.
func TestReplicated(t *testing.T) {
	for _, kind := range singles {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := tiertest.NewReplicated(t, kind)
			was := r.Replica
			for _, v := range []string{"1", "2"} {
				r.Primary.Command(t, "SET", "k", v)
				r.WaitSynced(t)
				require.Equal(t, v, text(t, r.Replica, "GET", "k"))
				r.Promote(t)
			}
			require.Equal(t, was, r.Replica)
		})
	}
}

// TestSentinel: a failover on request, and one after a death.
func TestSentinel(t *testing.T) {
	for _, kind := range singles {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.NewSentinel(t, kind)
			require.Equal(t, s.Primary, s.Now())
			s.Failover(t)
			require.Equal(t, s.Replica, s.Now())
			s.WaitFollowing(t)
			s.Replica.Kill()
			s.WaitOther(t, s.Replica)
			require.Equal(t, s.Primary, s.Now())
		})
	}
}

func text(t *testing.T, s *tiertest.Server, args ...string) string {
	m := s.Command(t, args...)
	text, err := m.ToString()
	require.NoError(t, err)
	return text
}
