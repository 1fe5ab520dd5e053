package tier_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestDial: over a socket and over TCP, to a single server and to a cluster, with one address and with several.
func TestDial(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster, tiertest.Redis, tiertest.RedisCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Shared(t, kind)
			urls := []string{s.URL(), s.URL() + "?db=0"}
			if !kind.Cluster() {
				urls = append(urls, tiertest.NewProxy(t, s).URL())
			} else {
				host := strings.TrimPrefix(s.URL(), "valkey://")
				urls = append(urls, "redis://"+host+","+host, "valkey://127.0.0.1:1,"+host) // the first node is down
			}
			for _, url := range urls {
				c, err := tier.Dial(t.Context(), url, tier.Options{ClientName: "dial-test"})
				require.NoError(t, err, url)
				server := c.Server()
				require.Equal(t, strings.TrimSuffix(string(kind), "-cluster"), server.Name)
				require.Equal(t, kind.Cluster(), server.Cluster)
				require.Equal(t, strings.Fields(s.Version())[1], server.Version)
				key := tiertest.Scope(t)
				_, err = c.Do(t.Context(), key, set(c, key))
				require.NoError(t, err)
				_, err = c.Do(t.Context(), key, c.B().Del().Key(key).Build())
				require.NoError(t, err)
				now, err := c.Now(t.Context(), key)
				require.NoError(t, err)
				require.WithinDuration(t, time.Now(), now, time.Minute)
				f := &fixture{t: t, ctx: t.Context(), server: s}
				f.raw, err = tiertest.Raw(s)
				require.NoError(t, err)
				require.Contains(t, f.text("CLIENT", "LIST"), "name=dial-test")
				f.raw.Close()
				c.Close()
			}
		})
	}
}

// TestDialErrors: each reason is a class, and none of the texts has the password.
func TestDialErrors(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	f.text("ACL", "SETUSER", "bob", "on", ">secret", "~*", "+@all")
	f.text("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-set", "-get")
	f.text("ACL", "SETUSER", "blind", "on", ">secret", "~*", "+@all", "-info")
	locked := setUp(t, tiertest.Private(t, tiertest.Redis))
	locked.text("CONFIG", "SET", "requirepass", "secret")
	proxy, closed := tiertest.NewProxy(t, f.server).URL(), tiertest.NewProxy(t, locked.server).URL()
	at := func(userinfo, url string) string { return strings.Replace(url, "://", "://"+userinfo+"@", 1) }
	tests := []struct {
		name string
		url  string
		want error // nil: it connects
	}{
		{"fine", at("bob:secret", proxy), nil},
		{"may not look at INFO", at("blind:secret", proxy), nil},
		{"wrong password", at("bob:secret1", proxy), tier.ErrAuth},
		{"no such user", at("eve:secret", proxy), tier.ErrAuth},
		{"no password", closed, tier.ErrAuth},
		{"password only", at(":secret", closed), nil},
		{"no rights on the fence", at("reader:secret", proxy), tier.ErrPermission},
		{"refused", "valkey://bob:secret@127.0.0.1:1", tier.ErrUnreachable},
		{"no socket", "unix:///nowhere/secret.sock", tier.ErrUnreachable},
		{"no such host", "valkey://bob:secret@nowhere.invalid", tier.ErrUnreachable},
		{"no such database", at("bob:secret", proxy) + "/99", tier.ErrServer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tier.Dial(f.ctx, tt.url, tier.Options{})
			if tt.want == nil {
				require.NoError(t, err)
				c.Close()
				return
			}
			require.ErrorIs(t, err, tt.want)
			if strings.HasPrefix(tt.name, "wrong") || strings.HasPrefix(tt.name, "no such user") {
				require.ErrorContains(t, err, "the user or the password is wrong")
				require.ErrorIs(t, tier.Classify(err), tier.ErrAuth)
			}
			if tt.name != "no socket" {
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

// TestDialEndsWithItsContext, at a server that accepts and says nothing.
func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = tier.Dial(ctx, "valkey://"+l.Addr().String(), tier.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), soon/2)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = tier.Dial(stopped, "valkey://"+l.Addr().String(), tier.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestDialDoesNotEndWithItsContext: the context bounds the dialing, not the client.
func TestDialDoesNotEndWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := tiertest.Shared(t, tiertest.Valkey)
	c, err := tier.Dial(ctx, s.URL(), tier.Options{})
	require.NoError(t, err)
	defer c.Close()
	cancel()
	for range 3 {
		_, err = c.Do(t.Context(), "k", c.B().Get().Key("none").Build())
		require.True(t, err == nil || tier.Classify(err) == nil, "%v", err)
	}
}

// TestCallTimeout (B57): a call at a server that hangs ends with its time; whether it happened is not known. The client
// goes on when the server does.
func TestCallTimeout(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	c, err := tier.Dial(t.Context(), s.URL(), tier.Options{CallTimeout: 200 * time.Millisecond})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, s.Freeze())
	began := time.Now()
	_, err = c.Do(t.Context(), "k", set(c, "k"))
	require.True(t, tier.OutcomeUnknown(err), "%v", err)
	_, err = c.Wait(t.Context(), "k", 50*time.Millisecond, c.B().Blpop().Key("l").Timeout(0.05).Build())
	require.Error(t, err)
	require.Less(t, time.Since(began), soon/2)
	require.NoError(t, s.Thaw())
	tiertest.Eventually(t, soon, func() (bool, string) {
		_, err := c.Do(t.Context(), "k", set(c, "k"))
		return err == nil, fmt.Sprint(err)
	})
}

// TestWaitsDoNotHoldUpCalls (B48, B49, B53): many reads that wait take connections of their own, which are used again.
func TestWaitsDoNotHoldUpCalls(t *testing.T) {
	t.Parallel()
	s := tiertest.Shared(t, tiertest.Valkey)
	proxy := tiertest.NewProxy(t, s)
	f := setUpThrough(t, s, proxy)
	key := tiertest.Scope(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			list := fmt.Sprintf("{%s}%d", key, i)
			for range 5 {
				m, err := f.client.Wait(f.ctx, list, 100*time.Millisecond, f.client.B().Blpop().Key(list).Timeout(0.1).Build())
				if tier.Classify(err) != nil {
					t.Error(m, err)
				}
			}
		})
	}
	tiertest.Eventually(t, soon, func() (bool, string) { return proxy.Commands()["BLPOP"] >= 20, "nobody waits" })
	began := time.Now()
	_, err := f.client.Do(f.ctx, key, set(f.client, key))
	require.NoError(t, err)
	require.Less(t, time.Since(began), soon/2)
	wg.Wait()
	require.LessOrEqual(t, proxy.Commands()["HELLO"], 23)
	_, err = f.client.Do(f.ctx, key, f.client.B().Del().Key(key).Build())
	require.NoError(t, err)
}

// TestClosedClient: calls after Close say so.
func TestClosedClient(t *testing.T) {
	t.Parallel()
	c, err := tier.Dial(t.Context(), tiertest.Shared(t, tiertest.Valkey).URL(), tier.Options{})
	require.NoError(t, err)
	c.Close()
	c.Close()
	_, err = c.Do(t.Context(), "k", set(c, "k"))
	require.ErrorIs(t, err, tier.ErrClosed)
	require.True(t, tier.OutcomeUnknown(err))
}

// TestSlotsAreChecked: keys of several slots are refused, where the client library would panic.
func TestSlotsAreChecked(t *testing.T) {
	script := tier.NewScript("test", "#!lua\nreturn 1")
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.ValkeyCluster} {
		c := tiertest.Dial(t, tiertest.Shared(t, kind))
		_, err := c.Run(t.Context(), tier.Call{Script: script, Keys: []string{"{a}", "{b}"}})
		require.ErrorIs(t, err, tier.ErrServer)
		require.ErrorContains(t, err, "slots")
		results := c.RunMulti(t.Context(), tier.Call{Script: script, Keys: []string{"{a}"}}, tier.Call{Script: script, Keys: []string{"{b}"}})
		for _, r := range results {
			require.ErrorIs(t, r.Err, tier.ErrServer)
		}
		_, err = c.DoMulti(t.Context(), "{a}", set(c, "{a}1"), set(c, "{a}2"), c.B().Incr().Key("{a}1").Build(), c.B().Del().Key("{a}1", "{a}2").Build())
		require.ErrorIs(t, err, tier.ErrServer)
	}
}

// TestRunMulti: calls run in order, errors stand where they belong, and a script that the server does not know is sent
// whole, once for all.
func TestRunMulti(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		key := tiertest.Scope(t)
		push := tier.NewScript("push", "#!lua\n-- "+key+"\nif ARGV[1] == 'bad' then return redis.error_reply('BAD one') end\nreturn redis.call('RPUSH', KEYS[1], ARGV[1])")
		calls := make([]tier.Call, 20)
		for i := range calls {
			calls[i] = tier.Call{Script: push, Keys: []string{key}, Args: []string{fmt.Sprint(i)}}
		}
		calls[7].Args[0] = "bad"
		for range 2 {
			for i, r := range f.client.RunMulti(f.ctx, calls...) {
				if i == 7 {
					require.ErrorIs(t, r.Err, tier.ErrServer)
					continue
				}
				require.NoError(t, r.Err)
				n, err := r.Message.AsInt64()
				require.NoError(t, err)
				if i < 7 {
					require.EqualValues(t, i+1, n)
				} else {
					require.EqualValues(t, i, n)
				}
			}
			f.text("DEL", key)
		}
	})
}

// TestNewScript: a script says at once that it is one.
func TestNewScript(t *testing.T) {
	require.Panics(t, func() { tier.NewScript("x", "return 1") })
	s := tier.NewScript("x", "#!lua\n-- KEYS[1] log  STREAM  x\n-- KEYS[2] any  of any type\n-- KEYS[3] h HASH\nreturn 1")
	require.False(t, s.AllowsOOM())
	require.Equal(t, map[int]string{1: "stream", 3: "hash"}, s.KeyTypes())
	require.True(t, tier.NewScript("x", "#!lua flags=allow-oom\nreturn 1").AllowsOOM())
	require.False(t, tier.NewScript("x", "#!lua\n-- flags=allow-oom").AllowsOOM())
}

// TestErrorsAreOfTheirCommand: of several commands, the error names the one that failed and its key.
func TestErrorsAreOfTheirCommand(t *testing.T) {
	f := setUp(t, tiertest.Shared(t, tiertest.Valkey))
	scope := tiertest.Scope(t)
	bad := "{" + scope + "}bad"
	f.text("SET", bad, "x")
	defer f.text("DEL", bad)
	b := f.client.B
	_, err := f.client.DoMulti(f.ctx, "{"+scope+"}", b().Exists().Key("{"+scope+"}").Build(), b().Xlen().Key(bad).Build())
	var e *tier.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, "XLEN", e.Op)
	require.Equal(t, bad, e.Key)
	require.Equal(t, tier.ErrWrongType, e.Class)
}
