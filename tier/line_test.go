package tier_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// lined is a counter that a line counts up.
type lined struct {
	*fixture
	client *tier.Client
	line   *tier.Line
	count  string
	other  string
	call   tier.Call
}

func newLined(t *testing.T, f *fixture, client *tier.Client) *lined {
	scope := tiertest.Scope(t)
	l := &lined{fixture: f, client: client, line: client.Line(), count: tier.StateKey(scope, "n"), other: tier.StateKey(scope, "m")}
	l.call = tier.Call{Script: tier.NewScript("up", `#!lua
-- KEYS[1] count STRING
-- KEYS[2] other STRING
if ARGV[1] == 'none' then return {} end
if ARGV[1] == 'full' then return redis.error_reply('OOM it is full') end
redis.call('GET', KEYS[2])
return {ARGV[1], tostring(redis.call('INCR', KEYS[1]))}`), Keys: []string{l.count, l.other}}
	return l
}

// newLinedThrough makes one whose connections go through a proxy.
func newLinedThrough(t *testing.T) (*lined, *tiertest.Proxy) {
	s := tiertest.Shared(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, s)
	f := setUpThrough(t, s, proxy)
	return newLined(t, f, f.client), proxy
}

func (l *lined) texts(ctx context.Context, word string) ([]string, error) {
	call := l.call
	call.Args = []string{word}
	return l.line.Texts(ctx, call, 2)
}

func (l *lined) up(want string) {
	l.t.Helper()
	texts, err := l.texts(l.ctx, "x")
	require.NoError(l.t, err)
	require.Equal(l.t, []string{"x", want}, texts)
}

// TestLine: a line answers what the client would. It has a connection when it is called often, until something goes wrong.
func TestLine(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		l := newLined(t, f, f.client)
		l.up("1")
		require.False(t, l.line.Connected(), "called once")
		l.line.Always()
		l.up("2")
		l.up("3")
		require.True(t, l.line.Connected())

		_, err := l.texts(l.ctx, "none")
		require.ErrorContains(t, err, "0 parts, not 2")
		_, err = l.texts(l.ctx, "full")
		require.ErrorIs(t, err, tier.ErrStoreFull)
		require.False(t, l.line.Connected())
		l.up("4")
		require.True(t, l.line.Connected())

		unknown := l.call // no server has it, and the client brings it
		unknown.Script, unknown.Args = tier.NewScript("up", l.call.Script.Source+"\n-- "+l.count), []string{"y"}
		texts, err := l.line.Texts(l.ctx, unknown, 2)
		require.NoError(t, err)
		require.Equal(t, []string{"y", "5"}, texts)

		f.text("RPUSH", l.other, "of another program")
		_, err = l.texts(l.ctx, "x")
		require.ErrorIs(t, err, tier.ErrWrongType)
		var said *tier.Error
		require.ErrorAs(t, err, &said)
		require.Equal(t, l.other, said.Key)
	})
}

// TestLineRests: it is not used for a while after a failure, nor when it is called rarely.
func TestLineRests(t *testing.T) {
	t.Parallel()
	l, _ := newLinedThrough(t)
	l.up("1")
	tiertest.Eventually(t, soon, func() (bool, string) {
		_, err := l.texts(l.ctx, "x")
		require.NoError(t, err)
		return l.line.Connected(), "no connection"
	})
	_, err := l.texts(l.ctx, "full")
	require.ErrorIs(t, err, tier.ErrStoreFull)
	_, err = l.texts(l.ctx, "x")
	require.NoError(t, err)
	require.False(t, l.line.Connected())
}

// TestLineUnused: a connection that is not used for a while is given up, and there is one again for who calls often again.
func TestLineUnused(t *testing.T) {
	t.Parallel()
	l, proxy := newLinedThrough(t)
	l.up("1")
	l.line.Always()
	before := proxy.Connections()
	for _, counts := range [][]string{{"2", "3"}, {"4", "5"}} {
		l.up(counts[0])
		l.up(counts[1])
		require.True(t, l.line.Connected())
		l.line.Unused()
		tiertest.Eventually(t, soon, func() (bool, string) {
			return !l.line.Connected() && proxy.Connections() == before, "it is kept"
		})
	}
}

// TestLineLost: of a call whose reply was lost, or that was, the outcome is unknown, and the next one is answered what is its own.
func TestLineLost(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(p *tiertest.Proxy, n int, match func([]string) bool)
		next string
	}{
		"reply":   {(*tiertest.Proxy).DropReplies, "3"},
		"request": {(*tiertest.Proxy).DropRequests, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, proxy := newLinedThrough(t)
			l.up("1")
			l.line.Always()
			c.lose(proxy, 1, func(cmd []string) bool { return cmd[0] == "EVALSHA" })
			_, err := l.texts(l.ctx, "lost")
			require.True(t, tier.OutcomeUnknown(err), "%v", err)
			require.ErrorIs(t, err, tier.ErrNetwork)
			require.False(t, l.line.Connected())
			l.up(c.next)
		})
	}
}

// TestLineCancelled: who stops waiting is not held up by a server that does not answer, and the next call is answered what is its own.
func TestLineCancelled(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	f := setUp(t, s)
	l := newLined(t, f, f.client)
	l.up("1")
	l.line.Always()
	l.up("2")
	f.text("CLIENT", "PAUSE", "60000", "WRITE")
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := l.texts(ctx, "left")
	require.ErrorIs(t, err, tier.ErrTimeout)
	require.Less(t, time.Since(began), soon/2)
	f.text("CLIENT", "UNPAUSE")
	texts, err := l.texts(l.ctx, "x")
	require.NoError(t, err)
	require.Equal(t, "x", texts[0])
}

// TestLineHangs: who has no deadline of its own does not wait longer than a call may take.
func TestLineHangs(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	f := setUp(t, s)
	c, err := tier.Dial(t.Context(), s.URL(), tier.Options{CallTimeout: 200 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	l := newLined(t, f, c)
	l.up("1")
	l.line.Always()
	l.up("2")
	require.True(t, l.line.Connected())
	f.text("CLIENT", "PAUSE", "60000", "WRITE")
	defer f.text("CLIENT", "UNPAUSE")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err = l.texts(ctx, "x")
	require.ErrorIs(t, err, tier.ErrTimeout)
	require.NoError(t, ctx.Err())
}

// TestLineClosed: a call that is under way ends with the client, and none is made after it.
func TestLineClosed(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	f := setUp(t, s)
	c, err := tier.Dial(t.Context(), s.URL(), tier.Options{})
	require.NoError(t, err)
	l := newLined(t, f, c)
	l.up("1")
	l.line.Always()
	l.up("2")
	f.text("CLIENT", "PAUSE", "60000", "WRITE")
	ended := make(chan error, 1)
	go func() { _, err := l.texts(l.ctx, "x"); ended <- err }()
	c.Close()
	require.Error(t, <-ended)
	_, err = l.texts(l.ctx, "x")
	require.ErrorIs(t, err, tier.ErrClosed)
	f.text("CLIENT", "UNPAUSE")
	require.Contains(t, []string{"2", "3"}, f.text("GET", l.count))
}

// TestLineNotAllowed: a user who may not do what a connection begins with is not refused again and again.
func TestLineNotAllowed(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, s)
	f := setUp(t, s)
	user := tiertest.NewUser(t, []*tiertest.Server{s}, "~*", "+@all", "-type")
	c, err := tier.Dial(f.ctx, user.At(proxy), tier.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	l := newLined(t, f, c)
	l.up("1")
	l.line.Always()
	l.up("2")
	attempts := proxy.Attempts()
	l.up("3")
	require.Equal(t, attempts, proxy.Attempts())
}

// TestLineClasses: a refusal has the class that it has by the client, also one whose text has no code of its own.
func TestLineClasses(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	l := newLined(t, f, f.client)
	refusing := tier.NewScript("refusing", "#!lua\nreturn redis.error_reply(ARGV[1])")
	for text, class := range map[string]*tier.Class{
		"ERR Script attempted to access a non local key in a cluster node":               tier.ErrCutShort,
		"ERR The user executing the script can't run this command or subcommand":         tier.ErrPermission,
		"ERR ACL failure in script: User u has no permissions to run the 'xadd' command": tier.ErrPermission,
		"ERR max number of clients reached":                                              tier.ErrCrowded,
		"ERR it is something else":                                                       tier.ErrServer,
		"LOADING the data":                                                               tier.ErrLoading,
	} {
		call := tier.Call{Script: refusing, Keys: []string{l.count}, Args: []string{text}}
		_, err := f.client.Run(l.ctx, call)
		require.Equal(t, class, tier.Classify(err), text)
		l.line.Always()
		_, said := l.line.Texts(l.ctx, call, 1)
		require.Equal(t, class, tier.Classify(said), text)
		require.Equal(t, err.Error(), said.Error())
	}
}

// TestLineGivenUp: a primary that hangs, and goes on when another has taken its place, does not answer for it: what it takes then is
// lost when it follows the other. Nor does one in a transaction.
func TestLineGivenUp(t *testing.T) {
	t.Parallel()
	s := tiertest.NewSentinel(t, tiertest.Valkey)
	f := setUpThrough(t, s.Primary, s)
	l, watched := newLined(t, f, f.client), f.client.Transaction()
	l.up("1")
	l.line.Always()
	l.up("2")
	_, err := watched.Open(l.ctx, []string{l.other})
	require.NoError(t, err)
	s.WaitSynced(t)
	f.text("CLIENT", "PAUSE", "60000", "WRITE")
	ended := make(chan error, 2)
	go func() { _, err := l.texts(l.ctx, "lost"); ended <- err }()
	go func() {
		_, _, err := watched.Exec(l.ctx, func(conn *tier.Conn) int {
			conn.Send(tier.AppendCommand(nil, "SET", l.other, "lost"))
			return 1
		}, skip)
		ended <- err
	}()
	tiertest.Eventually(t, soon, func() (bool, string) {
		return strings.Contains(f.text("INFO", "clients"), "blocked_clients:2"), "they do not wait"
	})
	s.Failover(t)
	tiertest.Eventually(t, soon, func() (bool, string) {
		return f.client.Nodes()[0].Addr == s.Replica.Addr(), "the client is at the one before"
	})
	f.text("CLIENT", "UNPAUSE")
	for range 2 {
		err := <-ended
		require.True(t, tier.OutcomeUnknown(err), "%v", err)
		require.ErrorIs(t, err, tier.ErrNetwork)
	}
	l.up("3")
}

// TestLineSwitched: between two calls sentinels have named another primary: the one before, which takes writes for a while more, is not asked.
func TestLineSwitched(t *testing.T) {
	t.Parallel()
	s := tiertest.NewSentinel(t, tiertest.Valkey)
	f := setUpThrough(t, s.Primary, s)
	l := newLined(t, f, f.client)
	l.up("1")
	l.line.Always()
	l.up("2")
	s.WaitSynced(t)
	s.Failover(t)
	tiertest.Eventually(t, soon, func() (bool, string) {
		return f.client.Nodes()[0].Addr == s.Replica.Addr(), "the client is at the one before"
	})
	l.up("3")
	require.Equal(t, "2", f.text("GET", l.count), "of the one before")
}

// TestLineMoved: a line whose slot has moved away goes on at the node that has it.
func TestLineMoved(t *testing.T) {
	t.Parallel()
	cluster := tiertest.NewCluster(t, tiertest.Valkey)
	l := newLined(t, &fixture{t: t, ctx: testContext(t)}, tiertest.Dial(t, cluster))
	l.up("1")
	l.line.Always()
	l.up("2")
	require.True(t, l.line.Connected())
	to := cluster.Move(t, l.count, func() {})
	l.up("3")
	l.up("4")
	require.True(t, l.line.Connected())
	require.Equal(t, "4", text(t, to, "GET", l.count))
}

// TestLineAtRest: on a cluster, a script that runs at rest only is given the key for it over a line, too.
func TestLineAtRest(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		l := newLined(t, f, f.client)
		l.call.Script = tier.NewScript("keys", "#!lua\n"+tier.AtRestLine+"\nreturn {ARGV[1], tostring(#KEYS)}")
		want, err := f.client.Run(l.ctx, tier.Call{Script: l.call.Script, Keys: l.call.Keys, Args: []string{"x"}})
		require.NoError(t, err)
		keys, err := want.AsStrSlice()
		require.NoError(t, err)
		l.line.Always()
		l.up(keys[1])
		require.True(t, l.line.Connected())
	})
}
