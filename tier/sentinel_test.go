package tier_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestSentinelFailover: the client is at the primary that the sentinels name, after a failover on request and after a
// death; behind the new one, the fence is compared before anything is written, by calls and by reads that wait.
func TestSentinelFailover(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.NewSentinel(t, kind)
			c := tiertest.Dial(t, s)
			ctx := testContext(t)
			goesOn := func() {
				tiertest.Eventually(t, soon, func() (bool, string) {
					_, err := c.Do(ctx, "k", set(c, "k"))
					return err == nil, fmt.Sprint(err)
				})
			}
			goesOn()
			s.WaitSynced(t)
			watched, guard := c.Transaction(), c.Guard("h", "f")
			defer guard.Close()
			_, err := watched.Open(ctx, []string{"k"}, []string{"GET", "k"})
			require.NoError(t, err)
			_, err = c.Do(ctx, "h", c.B().Arbitrary("HSET").Keys("h").Args("f", "v").Build())
			require.NoError(t, err)
			_, ran, err := guard.Do(ctx, "v", set(c, "k2"))
			require.NoError(t, err)
			require.True(t, ran)
			feed := c.Feed("log")
			defer feed.Close()
			entries := func(want int) {
				var page tier.Page
				_, err := c.Do(ctx, "log", c.B().Arbitrary("XADD").Keys("log").Args("*", "f", "v").Build())
				require.NoError(t, err)
				require.NoError(t, feed.Range(ctx, &page, "-", "+", 10))
				require.Len(t, page.Entries, want)
			}
			entries(1)
			s.WaitSynced(t)
			s.Failover(t)
			_, port, _ := net.SplitHostPort(s.Replica.Addr())
			tiertest.Eventually(t, soon, func() (bool, string) { // for calls, and for reads that wait
				m, err := c.Wait(ctx, "k", time.Second, c.B().Arbitrary("INFO", "server").Blocking())
				info, _ := m.ToString()
				return c.Nodes()[0].Addr == s.Replica.Addr() && strings.Contains(info, "tcp_port:"+port), fmt.Sprint(err)
			})
			_, ran, err = watched.Exec(ctx, func(conn *tier.Conn) int {
				conn.Send(tier.AppendCommand(nil, "SET", "k", "lost")) // by who is about to follow, and takes writes until then
				return 1
			}, skip)
			require.NoError(t, err)
			require.False(t, ran)
			_, ran, err = guard.Do(ctx, "v", set(c, "there"))
			require.NoError(t, err)
			require.True(t, ran)
			require.Equal(t, "1", text(t, s.Replica, "EXISTS", "there"))
			entries(2)
			goesOn()
			require.Contains(t, text(t, s.Replica, "INFO", "replication"), "role:master")
			s.WaitFollowing(t)

			// Of another version, from now on, is the one that is about to be the primary.
			s.Primary.Command(t, "CONFIG", "SET", "replica-read-only", "no")
			s.Primary.Command(t, "SET", tier.VersionKey, "echomq:4.0.0")
			s.Primary.Command(t, "DEL", "k")
			s.Replica.Kill()
			s.WaitOther(t, s.Replica)
			script := tier.NewScript("write", "#!lua\nreturn redis.call('SET', KEYS[1], 'x')")
			calls := []func() error{
				func() error { _, err := c.Do(ctx, "k", set(c, "k")); return err },
				func() error { _, err := c.DoMulti(ctx, "k", set(c, "k")); return err },
				func() error { _, err := c.Run(ctx, tier.Call{Script: script, Keys: []string{"k"}}); return err },
				func() error {
					_, err := c.Wait(ctx, "k", time.Millisecond, c.B().Arbitrary("BLMOVE").Keys("l", "m").Args("LEFT", "LEFT", "0.01").Blocking())
					return err
				},
			}
			for i, call := range calls {
				tiertest.Eventually(t, soon, func() (bool, string) {
					err := call()
					require.Error(t, err, "call %d", i)
					var version *tier.VersionError
					return errors.As(err, &version), err.Error()
				})
			}
			require.Equal(t, "0", text(t, s.Primary, "EXISTS", "k"))
			s.Primary.Command(t, "SET", tier.VersionKey, tier.Wire)
			goesOn()
		})
	}
}

// TestSentinelURL: wrong names, sentinels that are down, credentials.
func TestSentinelURL(t *testing.T) {
	t.Parallel()
	s := tiertest.NewSentinel(t, tiertest.Valkey)
	user := tiertest.NewUser(t, []*tiertest.Server{s.Primary}, "~*", "+@all")
	url := strings.Replace(s.URL(), "://", "://127.0.0.1:1,", 1) // the first is down
	guard := tiertest.NewUser(t, s.Sentinels, "+@all", "&*")
	dial := func(url string) error {
		c, err := tier.Dial(t.Context(), url, tier.Options{})
		if err == nil {
			c.Close()
		}
		return err
	}
	require.NoError(t, dial(url))
	require.NoError(t, dial(user.At(address(url))))
	require.NoError(t, dial(guard.AtSentinel(s)))
	for _, sentinel := range s.Sentinels {
		sentinel.Command(t, "ACL", "SETUSER", "default", "off")
	}
	require.ErrorIs(t, dial(s.URL()), tier.ErrAuth)
	require.NoError(t, dial(guard.AtSentinel(s)))
	err := dial(strings.Replace(guard.AtSentinel(s), "sentinel=main", "sentinel=other", 1))
	require.ErrorIs(t, err, tier.ErrServer)
	require.ErrorContains(t, err, "No such master")
	require.ErrorIs(t, dial("valkey://127.0.0.1:1,127.0.0.1:2?sentinel=main"), tier.ErrUnreachable)
}

func text(t testing.TB, s *tiertest.Server, args ...string) string {
	t.Helper()
	m := s.Command(t, args...)
	if m.IsInt64() {
		n, _ := m.AsInt64()
		return fmt.Sprint(n)
	}
	text, err := m.ToString()
	require.NoError(t, err)
	return text
}

// TestGivenUpConnection: the client library gives up its connection to a primary that hangs, with the calls that wait on
// it. They may have happened, and do not say that the client was closed, which would end their callers.
func TestGivenUpConnection(t *testing.T) {
	t.Parallel()
	s := tiertest.NewSentinel(t, tiertest.Valkey)
	c := tiertest.Dial(t, s)
	s.WaitSynced(t)
	require.NoError(t, s.Primary.Freeze())
	ended := make(chan error, 1)
	go func() { _, err := c.Do(t.Context(), "k", set(c, "k")); ended <- err }()
	s.WaitOther(t, s.Primary)
	err := <-ended
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	require.Equal(t, tier.BackOff, tier.Classify(err).Reaction, "%v", err)
	tiertest.Eventually(t, soon, func() (bool, string) {
		_, err := c.Do(t.Context(), "k", set(c, "k"))
		return err == nil, fmt.Sprint(err)
	})
}
