package tier_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestClasses provokes on real servers what a server can be made to say, and looks at class and reaction. Failed writes
// of all of these have not happened.
func TestClasses(t *testing.T) {
	tests := []struct {
		name     string
		class    *tier.Class
		reaction tier.Reaction
		kind     tiertest.Kind // another than both single ones
		args     []string
		provoke  func(t *testing.T, f *fixture) error
	}{
		{name: "NOGROUP", class: tier.ErrNoGroup, reaction: tier.Heal, provoke: func(t *testing.T, f *fixture) error {
			f.text("XADD", "k", "*", "a", "b")
			return f.do("k", "XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">")
		}},
		{name: "UNBLOCKED", class: tier.ErrUnblocked, reaction: tier.Heal, provoke: unblocked},
		{name: "NOSCRIPT", class: tier.ErrNoScript, reaction: tier.Heal, provoke: func(t *testing.T, f *fixture) error {
			return f.do("k", "EVALSHA", strings.Repeat("0", 40), "1", "k")
		}},
		{name: "READONLY", class: tier.ErrReadOnly, reaction: tier.BackOff, provoke: func(t *testing.T, f *fixture) error {
			f.text("REPLICAOF", "127.0.0.1", "1")
			return f.do("k", "SET", "k", "v")
		}},
		{name: "READONLY, script", class: tier.ErrReadOnly, reaction: tier.BackOff, provoke: func(t *testing.T, f *fixture) error {
			f.text("REPLICAOF", "127.0.0.1", "1")
			return f.run("return redis.call('SET', KEYS[1], 'v')", "k")
		}},
		{name: "MASTERDOWN", class: tier.ErrMasterDown, reaction: tier.BackOff, provoke: func(t *testing.T, f *fixture) error {
			f.text("CONFIG", "SET", "replica-serve-stale-data", "no")
			f.text("REPLICAOF", "127.0.0.1", "1")
			return f.do("k", "GET", "k")
		}},
		{name: "CLUSTERDOWN", class: tier.ErrClusterDown, reaction: tier.BackOff, kind: tiertest.ValkeyCluster, provoke: clusterDown},
		{name: "CLUSTERDOWN", class: tier.ErrClusterDown, reaction: tier.BackOff, kind: tiertest.RedisCluster, provoke: clusterDown},
		{name: "BUSY", class: tier.ErrBusy, reaction: tier.BackOff, args: []string{"--busy-reply-threshold", "10"}, provoke: busy},
		{name: "OOM", class: tier.ErrStoreFull, reaction: tier.BackOff, provoke: func(t *testing.T, f *fixture) error {
			f.text("CONFIG", "SET", "maxmemory", "1")
			return f.do("k", "SET", "k", "v")
		}},
		{name: "OOM, script", class: tier.ErrStoreFull, reaction: tier.BackOff, provoke: func(t *testing.T, f *fixture) error {
			f.text("CONFIG", "SET", "maxmemory", "1")
			return f.run("return redis.call('SET', KEYS[1], 'v')", "k")
		}},
		{name: "MISCONF", class: tier.ErrMisconf, reaction: tier.BackOff, provoke: misconf}, // B150
		{name: "NOPERM, command", class: tier.ErrPermission, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("ACL", "SETUSER", "default", "-set")
			return permission(t, f.do("k", "SET", "k", "v"), "set", "")
		}},
		{name: "NOPERM, key", class: tier.ErrPermission, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("ACL", "SETUSER", "default", "resetkeys", "~{emq}:*")
			return permission(t, f.do("k", "SET", "k", "v"), "", "k")
		}},
		{name: "NOPERM, in a script", class: tier.ErrPermission, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("ACL", "SETUSER", "default", "-set")
			return f.run("return redis.call('SET', KEYS[1], 'v')", "k")
		}},
		{name: "NOPERM, caught in a script", class: tier.ErrPermission, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("ACL", "SETUSER", "default", "-set")
			return f.run("return redis.pcall('SET', KEYS[1], 'v')", "k")
		}},
		{name: "NOPERM, key of a script", class: tier.ErrPermission, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("ACL", "SETUSER", "default", "resetkeys", "~{emq}:*")
			return f.run("return redis.call('SET', KEYS[1], 'v')", "k")
		}},
		{name: "WRONGTYPE", class: tier.ErrWrongType, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("SET", "k", "v")
			return f.do("k", "XADD", "k", "*", "a", "b")
		}},
		{name: "WRONGTYPE, script", class: tier.ErrWrongType, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("SET", "k", "v")
			return f.run("return redis.call('XADD', KEYS[1], '*', 'a', 'b')", "k")
		}},
		{name: "anything else", class: tier.ErrServer, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			f.text("SET", "k", "v")
			return f.do("k", "INCR", "k")
		}},
		{name: "no command", class: tier.ErrServer, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error { return f.do("k", "NOSUCH", "k") }},
		{name: "error of a script", class: tier.ErrServer, reaction: tier.Surface, provoke: func(t *testing.T, f *fixture) error {
			return f.run("return redis.error_reply('BROKEN it is')", "k")
		}},
	}
	for _, tt := range tests {
		kinds := []tiertest.Kind{tiertest.Valkey, tiertest.Redis}
		if tt.kind != "" {
			kinds = []tiertest.Kind{tt.kind}
		}
		for _, kind := range kinds {
			t.Run(fmt.Sprintf("%s, %s", tt.name, kind), func(t *testing.T) {
				t.Parallel()
				f := setUp(t, tiertest.Private(t, kind, tt.args...))
				err := tt.provoke(t, f)
				require.ErrorIs(t, err, tt.class)
				require.Equal(t, tt.class, tier.Classify(err), "%v", err)
				require.Equal(t, tt.reaction, tier.Classify(err).Reaction)
				require.False(t, tier.OutcomeUnknown(err))
				var e *tier.Error
				require.ErrorAs(t, err, &e)
				require.Contains(t, err.Error(), tt.class.Advice)
				require.Contains(t, err.Error(), "k: ")
			})
		}
	}
}

// do sends a command through package tier.
func (f *fixture) do(key, cmd string, args ...string) error {
	b := f.client.B().Arbitrary(cmd)
	var keyed bool
	for _, a := range args {
		if a == key && !keyed {
			b, keyed = b.Keys(a), true
		} else {
			b = b.Args(a)
		}
	}
	_, err := f.client.Do(f.ctx, key, b.Build())
	return err
}

func (f *fixture) run(code, key string) error {
	_, err := f.client.Run(f.ctx, tier.Call{Script: tier.NewScript("test", "#!lua\n"+code), Keys: []string{key}})
	return err
}

func permission(t *testing.T, err error, command, key string) error {
	t.Helper()
	var e *tier.PermissionError
	require.ErrorAs(t, err, &e)
	require.Equal(t, command, e.Command)
	require.Contains(t, []string{"", key}, e.Key) // servers do not name it
	return err
}

func unblocked(t *testing.T, f *fixture) error {
	ended := make(chan error, 1)
	go func() {
		_, err := f.client.Wait(f.ctx, "k", time.Minute/2, f.client.B().Blpop().Key("k").Timeout(30).Build())
		ended <- err
	}()
	tiertest.Eventually(t, soon, func() (bool, string) {
		for line := range strings.Lines(f.text("CLIENT", "LIST")) {
			if strings.Contains(line, "cmd=blpop") {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				f.text("CLIENT", "UNBLOCK", id, "ERROR")
				return true, ""
			}
		}
		return false, "nobody waits"
	})
	return <-ended
}

func clusterDown(t *testing.T, f *fixture) error {
	f.text("CLUSTER", "DELSLOTS", fmt.Sprint(tier.Slot("k")))
	var err error
	tiertest.Eventually(t, soon, func() (bool, string) { // the node takes a moment to notice
		err = f.do("k", "SET", "k", "v")
		return err != nil, ""
	})
	return err
}

func busy(t *testing.T, f *fixture) error {
	loops := make(chan struct{})
	other := setUp(t, f.server)
	go func() {
		defer close(loops)
		other.raw.Do(f.ctx, other.raw.B().Eval().Script("while true do end").Numkeys(0).Build())
	}()
	var err error
	tiertest.Eventually(t, soon, func() (bool, string) {
		err = f.do("k", "SET", "k", "v")
		return err != nil, ""
	})
	f.text("SCRIPT", "KILL")
	<-loops
	return err
}

func misconf(t *testing.T, f *fixture) error {
	dir, err := os.MkdirTemp("", "tiertest-")
	require.NoError(t, err)
	f = setUp(t, tiertest.Private(t, f.server.Kind, "--dir", dir, "--save", "3600 1"))
	require.NoError(t, os.RemoveAll(dir)) // with it, its disk is broken
	_ = f.raw.Do(f.ctx, f.raw.B().Bgsave().Build()).Error()
	tiertest.Eventually(t, soon, func() (bool, string) {
		err = f.do("k", "SET", "k", "v")
		return err != nil, "the server writes"
	})
	require.NoError(t, f.do("k", "GET", "k")) // reads go on
	return err
}

// TestClassOfText: texts that no server here can be made to say, of old and new versions, by the code at the front.
func TestClassOfText(t *testing.T) {
	tests := []struct {
		text  string
		class *tier.Class
	}{
		{"LOADING Redis is loading the dataset in memory", tier.ErrLoading},
		{"LOADING Valkey is loading the dataset in memory", tier.ErrLoading},
		{"MOVED 3999 127.0.0.1:6381", tier.ErrMoved},
		{"ASK 3999 127.0.0.1:6381", tier.ErrMoved},
		{"TRYAGAIN Multiple keys request during rehashing of slot", tier.ErrTryAgain},
		{"Script attempted to access a non local key in a cluster node script: ba87, on @user_script:67.", tier.ErrCutShort},
		{"NOAUTH Authentication required.", tier.ErrAuth},
		{"WRONGPASS invalid username-password pair or user is disabled.", tier.ErrAuth},
		{"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", tier.ErrBusy},
		{"BUSYGROUP Consumer Group name already exists", tier.ErrServer},
		{"BUSYKEY Target key name already exists.", tier.ErrServer},
		{"max number of clients reached", tier.ErrCrowded},
		{"NOREPLICAS Not enough good replicas to write.", tier.ErrNoReplicas},
		{"NOGROUP", tier.ErrNoGroup},
		{"NOGROUPS at all", tier.ErrServer},
		{"OOM", tier.ErrStoreFull},
		{"OOM command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:1.", tier.ErrStoreFull},
		{"something with OOM in the middle", tier.ErrServer},
		{"", tier.ErrServer},
		{" ", tier.ErrServer},
	}
	for _, tt := range tests {
		err := tier.Wrap("OP", "key", serverError(t, tt.text))
		require.ErrorIs(t, err, tt.class, tt.text)
		require.Equal(t, tt.class == tier.ErrCutShort, tier.OutcomeUnknown(err), "halfway, and what it wrote stays")
		require.Equal(t, err, tier.Wrap("again", "other", err), "wrapped once")
	}
}

// serverError makes a server say a text.
func serverError(t *testing.T, text string) error {
	t.Helper()
	c, err := tiertest.Raw(tiertest.Shared(t, tiertest.Valkey))
	require.NoError(t, err)
	defer c.Close()
	err = c.Do(t.Context(), c.B().Eval().Script("return {err = ARGV[1]}").Numkeys(0).Arg(text).Build()).Error()
	require.Error(t, err)
	return err
}

// TestClassOfConnections: what is known after a failure of the connection or of the caller.
func TestClassOfConnections(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name    string
		err     error
		class   *tier.Class
		unknown bool
	}{
		{"refused", refused, tier.ErrUnreachable, false},
		{"refused, wrapped", fmt.Errorf("x: %w", refused), tier.ErrUnreachable, false},
		{"no such host", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, tier.ErrUnreachable, false},
		{"dial timed out", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, tier.ErrUnreachable, false},
		{"no slot", rueidis.ErrNoSlot, tier.ErrUnreachable, false},
		{"closed by the peer", io.EOF, tier.ErrNetwork, true},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, tier.ErrNetwork, true},
		{"broken pipe", &net.OpError{Op: "write", Err: syscall.EPIPE}, tier.ErrNetwork, true},
		{"timed out", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, tier.ErrTimeout, true},
		{"deadline", context.DeadlineExceeded, tier.ErrTimeout, true},
		{"cancelled", context.Canceled, tier.ErrCancelled, true},
		{"client closed", rueidis.ErrClosing, tier.ErrClosed, true},
		{"unheard of", errors.New("?"), tier.ErrNetwork, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tier.Wrap("OP", "key", tt.err)
			require.Equal(t, tt.class, tier.Classify(err))
			require.Equal(t, tt.unknown, tier.OutcomeUnknown(err))
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, fmt.Sprintf("tier: OP key: %s (%v)", tt.class.Advice, tt.err), err.Error())
		})
	}
	require.NoError(t, tier.Wrap("OP", "key", nil))
	require.Equal(t, rueidis.Nil, tier.Wrap("OP", "key", rueidis.Nil))
	require.Nil(t, tier.Classify(nil))
	require.Nil(t, tier.Classify(io.EOF))
	require.False(t, tier.OutcomeUnknown(io.EOF))
	version := &tier.VersionError{Found: "x"}
	require.Equal(t, error(version), tier.Wrap("OP", "key", version))
}
