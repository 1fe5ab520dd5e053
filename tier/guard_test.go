package tier_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// guarded is a counter that a guard of the field "me" counts up, in a hash where it holds 7.
type guarded struct {
	*fixture
	client      *tier.Client
	guard       *tier.Guard
	hash, count string
}

func newGuarded(t *testing.T, f *fixture, client *tier.Client) *guarded {
	scope := tiertest.Scope(t)
	g := &guarded{fixture: f, client: client, hash: tier.ScopeKey(scope), count: tier.Address{Scope: scope, Stream: "n"}.LogKey()}
	f.text("HSET", g.hash, "me", "7")
	f.text("SET", g.count, "0")
	g.renew(t)
	return g
}

// renew makes a guard that has no transaction open.
func (g *guarded) renew(t *testing.T) {
	g.guard = g.client.Guard(g.hash, "me")
	t.Cleanup(g.guard.Close)
}

func (g *guarded) up() rueidis.Completed { return g.client.B().Incr().Key(g.count).Build() }

func TestAGuardRunsACommandWhileItsFieldHoldsTheValue(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := newGuarded(t, f, f.client)
		for want := int64(1); want <= 3; want++ {
			m, ran, err := g.guard.Do(f.ctx, "7", g.up())
			require.NoError(t, err)
			require.True(t, ran)
			n, err := m.AsInt64()
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		for _, value := range []string{"8", ""} {
			_, ran, err := g.guard.Do(f.ctx, value, g.up())
			require.NoError(t, err)
			require.False(t, ran)
		}
		f.text("HDEL", g.hash, "me")
		_, ran, err := g.guard.Do(f.ctx, "7", g.up())
		require.NoError(t, err)
		require.False(t, ran)
		require.Equal(t, "3", f.text("GET", g.count))
		g.guard.Close()
		f.text("HSET", g.hash, "me", "7")
		_, ran, err = g.guard.Do(f.ctx, "7", g.up())
		require.NoError(t, err)
		require.False(t, ran)
		require.Equal(t, "3", f.text("GET", g.count))
	})
}

// A command that the server itself refuses is an error of that command, and one that it does not know undoes nothing.
func TestAGuardTellsWhatTheServerSaysOfTheCommand(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := newGuarded(t, f, f.client)
		f.text("SET", g.count, "no number")
		_, ran, err := g.guard.Do(f.ctx, "7", g.up())
		require.True(t, ran)
		require.Error(t, err)
		_, ran, err = g.guard.Do(f.ctx, "7", g.client.B().Arbitrary("INCR").Keys(g.count).Args("too", "many").Build())
		require.NoError(t, err)
		require.False(t, ran)
		f.text("SET", g.count, "4")
		_, ran, err = g.guard.Do(f.ctx, "7", g.up())
		require.NoError(t, err)
		require.True(t, ran)
		require.Equal(t, "5", f.text("GET", g.count))
	})
}

// Whatever happens to the hash between the look and the command, also what leaves the field as it was, voids the command.
func TestAGuardIsVoidOnceItsHashHasChanged(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := newGuarded(t, f, f.client)
		for name, change := range map[string]func(){
			"the field":           func() { f.text("HSET", g.hash, "me", "8") },
			"another field":       func() { f.text("HSET", g.hash, "other", "1") },
			"there and back":      func() { f.text("HSET", g.hash, "me", "8"); f.text("HSET", g.hash, "me", "7") },
			"the hash is deleted": func() { f.text("DEL", g.hash) },
		} {
			f.text("HSET", g.hash, "me", "7")
			g.renew(t)
			ran, err := g.guard.OpenAndExec(f.ctx, "7", g.up(), change)
			require.NoError(t, err, name)
			require.False(t, ran, name)
			require.Equal(t, "0", f.text("GET", g.count), name)
		}
		f.text("HSET", g.hash, "me", "7")
		g.renew(t)
		ran, err := g.guard.OpenAndExec(f.ctx, "7", g.up(), func() {})
		require.NoError(t, err)
		require.True(t, ran)
	})
}

// A user that may run the command and not MULTI would run it unguarded, if it were sent in the same breath.
func TestAGuardRunsNothingForAUserThatMayNotUseIt(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		for _, lacks := range []string{"watch", "multi", "exec", "hget"} {
			user := tiertest.NewUser(t, []*tiertest.Server{s}, "+@all", "~*", "&*")
			client, err := tier.Dial(f.ctx, user.At(s), tier.Options{})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			g := newGuarded(t, f, client)
			_, ran, err := g.guard.Do(f.ctx, "7", g.up())
			require.NoError(t, err)
			require.True(t, ran)
			user.Grant(t, []*tiertest.Server{s}, "-"+lacks) // while it is connected
			_, ran, err = g.guard.Do(f.ctx, "7", g.up())
			require.NoError(t, err, lacks)
			require.Equal(t, lacks != "exec", ran, "%s: in the transaction that was open", lacks)
			count := f.text("GET", g.count)
			for range 2 {
				_, ran, err = g.guard.Do(f.ctx, "7", g.up())
				require.NoError(t, err, lacks)
				require.False(t, ran, lacks)
			}
			require.Equal(t, count, f.text("GET", g.count), lacks)
		}
	})
}

// What runs a command opens the transaction for the next one: what changes between two voids the second, as it should, and no later one.
func TestAGuardLooksAhead(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		g := newGuarded(t, f, f.client)
		for i, change := range []func(){
			func() {}, func() { f.text("HSET", g.hash, "other", "1") }, func() {}, func() { f.text("HSET", g.hash, "me", "8") }, func() {}, func() {},
		} {
			change()
			_, ran, err := g.guard.Do(f.ctx, "7", g.up())
			require.NoError(t, err)
			require.Equal(t, i == 0 || i == 2, ran, i)
		}
		require.Equal(t, "2", f.text("GET", g.count))
		_, ran, err := g.guard.Do(f.ctx, "8", g.up())
		require.NoError(t, err)
		require.True(t, ran)
	})
}

func TestAGuardsLostReplyIsOfUnknownOutcome(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			s := tiertest.Shared(t, kind)
			p := tiertest.NewProxy(t, s)
			f := setUpThrough(t, s, p)
			g := newGuarded(t, f, f.client)
			p.DropNextReply(func(cmd []string) bool { return cmd[0] == "EXEC" })
			_, _, err := g.guard.Do(f.ctx, "7", g.up())
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			require.Equal(t, 1, p.Dropped())
			_, ran, err := g.guard.Do(f.ctx, "7", g.up()) // on another connection
			require.NoError(t, err)
			require.True(t, ran)
			require.Equal(t, "2", f.text("GET", g.count))
		})
	}
}
