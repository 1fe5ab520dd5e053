package tier_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

var singles = []tiertest.Kind{tiertest.Valkey, tiertest.Redis}

// backsOff: the call failed with a class that is waited for, and has not happened.
func backsOff(t testing.TB, class *tier.Class, err error) {
	t.Helper()
	require.ErrorIs(t, err, class)
	require.Equal(t, tier.BackOff, tier.Classify(err).Reaction)
	require.False(t, tier.OutcomeUnknown(err))
	require.ErrorContains(t, err, class.Advice)
}

// TestNoReplicas: too few replicas follow, so writes are refused, of scripts too, until they do. Reads go on.
func TestNoReplicas(t *testing.T) {
	for _, kind := range singles {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := tiertest.NewReplicated(t, kind)
			f := setUp(t, r.Primary)
			r.WaitSynced(t)
			r.Primary.Command(t, "CONFIG", "SET", "min-replicas-to-write", "1")
			tiertest.Eventually(t, soon, func() (bool, string) { // the primary may count its replica a little later
				err := f.do("k", "SET", "k", "v")
				return err == nil, fmt.Sprint(err)
			})
			r.Replica.Command(t, "REPLICAOF", "NO", "ONE")
			var err error
			tiertest.Eventually(t, soon, func() (bool, string) {
				err = f.do("k", "SET", "k", "w")
				return err != nil, "not noticed"
			})
			backsOff(t, tier.ErrNoReplicas, err)
			backsOff(t, tier.ErrNoReplicas, f.run("return redis.call('SET', KEYS[1], 'w')", "k"))
			require.NoError(t, f.do("k", "GET", "k"))
			r.Promote(t)
			r.Promote(t) // the first follows the second, which is a primary, and the other way round again
			tiertest.Eventually(t, soon, func() (bool, string) {
				err := f.do("k", "SET", "k", "w")
				return err == nil, fmt.Sprint(err)
			})
		})
	}
}

// TestLoading (B148): a server that reads its data is waited for, by those that are connected and those that come.
func TestLoading(t *testing.T) {
	for _, kind := range singles {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind, "--appendonly", "yes", "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
			f := setUp(t, s)
			f.text("EVAL", "for i = 1, 5000 do redis.call('SET', 'k' .. i, 'v') end", "0")
			s.Kill()
			back := make(chan error, 1)
			go func() { back <- s.Restart(f.ctx) }()
			var connected, coming error
			tiertest.Eventually(t, soon, func() (bool, string) {
				connected = f.do("k", "SET", "k", "v")
				return tier.Classify(connected) == tier.ErrLoading, fmt.Sprint(connected)
			})
			_, coming = tier.Dial(f.ctx, s.URL(), tier.Options{})
			backsOff(t, tier.ErrLoading, connected)
			backsOff(t, tier.ErrLoading, coming)
			tiertest.Eventually(t, soon, func() (bool, string) {
				err := f.do("k", "SET", "k", "v")
				return err == nil, fmt.Sprint(err)
			})
			require.NoError(t, <-back)
		})
	}
}

// TestMovedSlot: a slot that has moved is followed. While it is on its way, a script with keys of which some have gone
// and some have not is to be tried again (TRYAGAIN), and what is only at the new owner is asked for there (ASK).
func TestMovedSlot(t *testing.T) {
	for _, kind := range singles {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := tiertest.NewCluster(t, kind)
			client := tiertest.Dial(t, c)
			f := &fixture{t: t, ctx: testContext(t), client: client}
			require.NoError(t, f.do("{k}1", "SET", "{k}1", "v"))
			both := func() error {
				script := tier.NewScript("both", "#!lua\nreturn redis.call('SET', KEYS[1], 'w') and redis.call('SET', KEYS[2], 'w')")
				_, err := client.Run(f.ctx, tier.Call{Script: script, Keys: []string{"{k}1", "{k}2"}})
				return err
			}
			old := c.Master(t, "{k}")
			to := c.Move(t, "{k}", func() {
				backsOff(t, tier.ErrTryAgain, both())
				require.NoError(t, f.do("{k}3", "SET", "{k}3", "v"), "asked for at the new owner")
				require.NoError(t, f.do("{k}1", "GET", "{k}1"))
			})
			require.NoError(t, both(), "moved")
			require.Equal(t, "w", text(t, to, "GET", "{k}1"))
			require.Equal(t, "v", text(t, to, "GET", "{k}3"))
			c.WaitWhole(t)

			// A client that may not ask where slots are is told of a wrong node, which it cannot follow: it waits.
			user := tiertest.NewUser(t, c.Nodes, "~*", "+@all", "-cluster")
			lost, err := tier.Dial(f.ctx, user.At(old), tier.Options{})
			require.NoError(t, err)
			defer lost.Close()
			_, err = lost.Do(f.ctx, "{k}", set(lost, "{k}"))
			backsOff(t, tier.ErrMoved, err)
		})
	}
}

// TestNoAuth: the password was changed while a client was connected; on its next connection it is refused for good, and
// the text has no password.
func TestNoAuth(t *testing.T) {
	for _, kind := range singles {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			proxy := tiertest.NewProxy(t, s)
			user := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all")
			f := setUpThrough(t, s, address(user.At(proxy)))
			anonymous := setUpThrough(t, s, proxy)
			require.NoError(t, f.do("k", "SET", "k", "v"))
			user.Grant(t, []*tiertest.Server{s}, "resetpass", ">other")
			proxy.Cut()
			s.Command(t, "CONFIG", "SET", "requirepass", "other")
			for _, f := range []*fixture{f, anonymous} {
				var err error
				tiertest.Eventually(t, soon, func() (bool, string) { // the first call may find that the connection is cut
					err = f.do("k", "SET", "k", "w")
					return err != nil && tier.Classify(err).Reaction == tier.Surface, fmt.Sprint(err)
				})
				require.ErrorIs(t, err, tier.ErrAuth)
				require.False(t, tier.OutcomeUnknown(err))
				require.NotContains(t, err.Error(), "other")
			}
		})
	}
}
