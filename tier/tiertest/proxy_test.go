package tiertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// through returns a client that goes through the proxy.
func through(t testing.TB, p *tiertest.Proxy) *raw {
	return connect(t, "tcp", strings.TrimPrefix(p.URL(), "valkey://"))
}

// rest reads until the other side hangs up.
func (c *raw) rest() string {
	b, err := io.ReadAll(c.r)
	if err != nil {
		require.ErrorContains(c.t, err, "reset") // its last bytes were not asked for
	}
	return string(b)
}

func named(name string) func([]string) bool {
	return func(cmd []string) bool { return cmd[0] == name }
}

func eachSingle(t *testing.T, f func(t *testing.T, s *tiertest.Server)) {
	for _, k := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			f(t, tiertest.Shared(t, k))
		})
	}
}

func TestProxyPasses(t *testing.T) {
	eachSingle(t, func(t *testing.T, s *tiertest.Server) {
		p := tiertest.NewProxy(t, s)
		c, key := through(t, p), tiertest.Scope(t)
		big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB, larger than all buffers
		require.Equal(t, "+OK", c.line("set", key, big))
		require.Equal(t, big, c.bulk("get", key))
		require.Equal(t, ":1", c.line("DEL", key))
		require.Equal(t, map[string]int{"SET": 1, "GET": 1, "DEL": 1}, p.Commands())
		require.Equal(t, 1, p.Connections())
		require.Zero(t, p.Dropped())
	})
}

// TestProxyDropsOneReply pipelines commands whose replies have every shape that
// a server has, and loses the reply of each in turn.
func TestProxyDropsOneReply(t *testing.T) {
	for _, k := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		for _, proto := range []string{"2", "3"} {
			t.Run(fmt.Sprintf("%s RESP%s", k, proto), func(t *testing.T) {
				t.Parallel()
				s := tiertest.Private(t, k, "--enable-debug-command", "local")
				dropEach(t, s, proto)
			})
		}
	}
}

func dropEach(t *testing.T, s *tiertest.Server, proto string) {
	setup := direct(t, s)
	setup.line("XADD", "st", "1-1", "f", "v")
	setup.line("SADD", "se", "m")
	setup.line("HSET", "ha", "f", "v")
	setup.line("ZADD", "zs", "1.5", "m")
	batch := [][]string{
		{"PING"},
		{"GET", "none"},
		{"NO-SUCH-COMMAND"},
		{"ECHO", "a\r\nb"},
		{"ECHO", strings.Repeat("x", 200_000)},
		{"LRANGE", "none", "0", "-1"},
		{"LPOP", "none", "2"},
		{"MULTI"},
		{"GET", "none"},
		{"ECHO", "in"},
		{"EXEC"},
		{"XRANGE", "st", "-", "+"},
		{"XREAD", "STREAMS", "st", "0"},
		{"XREAD", "STREAMS", "st", "$"},
		{"XINFO", "STREAM", "st", "FULL"},
		{"SMEMBERS", "se"},
		{"HGETALL", "ha"},
		{"ZSCORE", "zs", "m"},
		{"CONFIG", "GET", "maxmemory*"},
		{"COMMAND", "DOCS", "get"},
		{"EVAL", "return {1, {2, 'x', false}, redis.status_reply('s')}", "0"},
		{"EVALSHA", strings.Repeat("0", 40), "0"},
		{"DEBUG", "PROTOCOL", "string"},
		{"DEBUG", "PROTOCOL", "integer"},
		{"DEBUG", "PROTOCOL", "double"},
		{"DEBUG", "PROTOCOL", "null"},
		{"DEBUG", "PROTOCOL", "array"},
		{"DEBUG", "PROTOCOL", "set"},
		{"DEBUG", "PROTOCOL", "map"},
		{"DEBUG", "PROTOCOL", "bignum"},
		{"DEBUG", "PROTOCOL", "true"},
		{"DEBUG", "PROTOCOL", "verbatim"},
		{"PING", "finis"},
	}
	if proto == "3" { // RESP2 has neither
		batch = append(batch, []string{"DEBUG", "PROTOCOL", "attrib"}, []string{"DEBUG", "PROTOCOL", "push"},
			[]string{"SUBSCRIBE", "a", "b"}, []string{"UNSUBSCRIBE"}, []string{"PING", "after the pushes"})
	}
	send := func(c *raw) {
		var all []byte
		for _, cmd := range batch {
			all = append(all, tiertest.Encode(cmd...)...)
		}
		_, err := c.conn.Write(all)
		require.NoError(t, err)
	}
	hello := func(c *raw) *raw {
		c.send("HELLO", proto)
		_, err := c.r.Peek(1)
		require.NoError(t, err)
		require.Contains(t, c.upTo("role"), "version") // the first part of the reply; the rest is the same for all
		return c
	}

	// What the server says when all is well; QUIT makes an end of it.
	c := hello(direct(t, s))
	send(c)
	c.send("QUIT")
	whole := c.rest()

	p := tiertest.NewProxy(t, s)
	reached := 0
	for i, cmd := range batch {
		if strings.HasSuffix(cmd[0], "SUBSCRIBE") || cmd[len(cmd)-1] == "push" {
			continue // answered by pushes, which belong to no command
		}
		seen := 0
		p.DropNextReply(func(c []string) bool {
			if c[0] == "HELLO" {
				return false
			}
			seen++
			return seen == i+1
		})
		c := hello(through(t, p))
		send(c)
		got := c.rest()
		if at := differ(whole, got); at < len(got) {
			require.Fail(t, "other bytes", "before %q: %q, not %q", cmd, around(got, at), around(whole, at))
		}
		require.Greater(t, len(got)+1, reached, "before %q", cmd)
		reached = len(got) + 1
		require.True(t, startsReply(whole[len(got):]), "%q is cut inside a reply", cmd)
	}
	require.True(t, strings.Contains(whole[reached-1:], lastWord(batch)), "the last reply was lost last")
	require.False(t, strings.Contains(whole[:reached-1], lastWord(batch)))
}

// differ is the first index at which b is not a.
func differ(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func around(s string, at int) string { return s[max(0, at-100):min(len(s), at+100)] }

// upTo reads until a word has been seen.
func (c *raw) upTo(word string) string {
	var b strings.Builder
	for !strings.Contains(b.String(), word) {
		line, err := c.r.ReadString('\n')
		require.NoError(c.t, err)
		b.WriteString(line)
	}
	return b.String()
}

func lastWord(batch [][]string) string { last := batch[len(batch)-1]; return last[len(last)-1] }

func startsReply(s string) bool { return strings.ContainsAny(s[:1], "+-:$*_#,(!=~%|>") }

// TestProxyDropsTheRightOne: what the server did and what the client was told
// differ by exactly the reply that was asked for.
func TestProxyDropsTheRightOne(t *testing.T) {
	eachSingle(t, func(t *testing.T, s *tiertest.Server) {
		key := tiertest.Scope(t)
		p := tiertest.NewProxy(t, s)
		p.DropReplies(2, named("INCR"))
		for i := range 2 {
			c := through(t, p)
			require.Equal(t, "+PONG", c.line("PING"))
			c.send("INCR", key)
			require.Empty(t, c.rest())
			require.Equal(t, i+1, p.Dropped())
		}
		require.Equal(t, ":3", through(t, p).line("INCR", key), "the other two were carried out")
		require.Equal(t, 3, p.Commands()["INCR"])
	})
}

func TestProxyDropsAnyReplyButAHandshake(t *testing.T) {
	p := tiertest.NewProxy(t, tiertest.Shared(t, tiertest.Valkey))
	p.DropNextReply(nil)
	c := through(t, p)
	require.Equal(t, "+PONG", c.line("PING"))
	c.send("ECHO", "x")
	require.Empty(t, c.rest())
}

func TestProxyPushes(t *testing.T) {
	eachSingle(t, func(t *testing.T, s *tiertest.Server) {
		key := tiertest.Scope(t)
		p := tiertest.NewProxy(t, s)
		c := through(t, p)
		c.send("HELLO", "3")
		c.send("SUBSCRIBE", key)
		c.upTo(key)
		require.Equal(t, ":1", c.line(), "the end of the push")
		p.DropNextReply(named("GET"))
		require.Equal(t, ":1", direct(t, s).line("PUBLISH", key, "news"))
		c.upTo("news")
		require.Equal(t, ":1", c.line("INCR", key), "a push is nobody's reply")
		c.send("GET", key)
		require.Empty(t, c.rest())
	})
}

func TestProxyDropsRequests(t *testing.T) {
	eachSingle(t, func(t *testing.T, s *tiertest.Server) {
		key := tiertest.Scope(t)
		p := tiertest.NewProxy(t, s)
		p.DropRequests(1, named("INCR"))
		c := through(t, p)
		c.send("INCR", key)
		require.Empty(t, c.rest())
		require.Equal(t, 1, p.Dropped())
		require.Equal(t, ":1", through(t, p).line("INCR", key), "the first was not carried out")
	})
}

func TestProxyCutAndRefuse(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	p := tiertest.NewProxy(t, s)
	c, busy := through(t, p), through(t, p)
	require.Equal(t, "+PONG", c.line("PING"))
	require.Equal(t, "+PONG", busy.line("PING"))
	busy.send("BLPOP", "none", "0")
	p.Cut()
	require.Empty(t, c.rest())
	require.Empty(t, busy.rest())
	c = through(t, p)
	require.Equal(t, "+PONG", c.line("PING"), "cut does not refuse")

	p.Refuse(true)
	require.Empty(t, through(t, p).rest())
	require.Equal(t, "+PONG", c.line("PING"), "refuse does not cut")
	p.Refuse(false)
	require.Equal(t, "+PONG", through(t, p).line("PING"))

	s.Kill()
	require.Empty(t, c.rest(), "a server that dies")
	require.Empty(t, through(t, p).rest(), "a server that is down")
	tiertest.Eventually(t, limit, func() (bool, string) {
		return p.Connections() == 0, fmt.Sprintf("%d connections", p.Connections())
	})
}

func TestProxyFreeze(t *testing.T) {
	p := tiertest.NewProxy(t, tiertest.Shared(t, tiertest.Valkey))
	c := through(t, p)
	require.Equal(t, "+PONG", c.line("PING"))
	p.Freeze()
	p.Freeze()
	c.send("PING")
	require.NoError(t, c.conn.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	_, err := c.r.ReadByte()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.conn.SetReadDeadline(time.Now().Add(limit)))
	p.Thaw()
	p.Thaw()
	require.Contains(t, c.upTo("\n"), "PONG")

	p.Freeze() // and the end of the test does not wait for a thaw
	c.send("PING")
}

func TestProxyDelay(t *testing.T) {
	const delay = 30 * time.Millisecond
	p := tiertest.NewProxy(t, tiertest.Shared(t, tiertest.Valkey))
	c := through(t, p)
	p.Delay(delay)
	start := time.Now()
	require.Equal(t, "+PONG", c.line("PING"))
	require.GreaterOrEqual(t, time.Since(start), delay)
	p.Delay(0)
	require.Equal(t, "+PONG", c.line("PING"))

	p.Delay(time.Hour) // and the end of the test does not wait for it
	c.send("PING")
}

// TestProxyCluster: a client that asks the cluster where the slots are stays
// with the proxy.
func TestProxyCluster(t *testing.T) {
	for _, k := range []tiertest.Kind{tiertest.ValkeyCluster, tiertest.RedisCluster} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			p := tiertest.NewProxy(t, tiertest.Private(t, k))
			opt, err := rueidis.ParseURL(p.URL())
			require.NoError(t, err)
			opt.DisableCache, opt.PipelineMultiplex = true, -1
			c, err := rueidis.NewClient(opt)
			require.NoError(t, err)
			defer c.Close()
			require.Equal(t, rueidis.ClientModeCluster, c.Mode())
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			for i := range 10 {
				require.NoError(t, c.Do(ctx, c.B().Incr().Key("k"+strconv.Itoa(i)).Build()).Error())
			}
			require.Equal(t, 10, p.Commands()["INCR"])
		})
	}
	said := failure(func(ft testing.TB) { tiertest.NewProxy(ft, tiertest.Shared(t, tiertest.ValkeyCluster)) })
	require.Contains(t, said, "Private")
}

// TestProxyWithTheClient loses replies under the client that the pipeline uses.
func TestProxyWithTheClient(t *testing.T) {
	eachSingle(t, func(t *testing.T, s *tiertest.Server) {
		p := tiertest.NewProxy(t, s)
		opt, err := rueidis.ParseURL(p.URL())
		require.NoError(t, err)
		opt.ForceSingleClient, opt.DisableCache, opt.PipelineMultiplex = true, true, -1
		c, err := rueidis.NewClient(opt)
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()

		key := tiertest.Scope(t)
		const n, lost = 20, 7
		seen := 0
		p.DropNextReply(func(cmd []string) bool {
			if cmd[0] == "INCR" {
				seen++
			}
			return seen == lost
		})
		var cmds rueidis.Commands
		for range n {
			cmds = append(cmds, c.B().Incr().Key(key).Build())
		}
		for i, r := range c.DoMulti(ctx, cmds...) {
			v, err := r.AsInt64()
			if i+1 < lost && err == nil { // the client may drop what it has read before an error
				require.EqualValues(t, i+1, v)
				continue
			}
			require.Error(t, err)
			require.False(t, rueidis.IsRedisNil(err) || errors.As(err, new(*rueidis.RedisError)))
		}
		done, err := strconv.Atoi(direct(t, s).bulk("GET", key))
		require.NoError(t, err)
		require.GreaterOrEqual(t, done, lost)
	})
}

func TestProxyEndsWithTheTest(t *testing.T) {
	var url string
	t.Run("lives", func(t *testing.T) {
		p := tiertest.NewProxy(t, tiertest.Shared(t, tiertest.Redis))
		url = strings.TrimPrefix(p.URL(), "valkey://")
		through(t, p).send("BLPOP", "none", "0")
	})
	_, err := net.Dial("tcp", url)
	require.Error(t, err)
}

// TestHalfClose: one direction ends; what goes the other way still arrives.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	p := tiertest.NewProxy(t, s)
	open := func() *raw {
		c := connect(t, "tcp", strings.TrimPrefix(p.URL(), "valkey://"))
		require.Equal(t, "+PONG", c.line("PING"))
		return c
	}
	c := open()
	p.EndReplies()
	_, err := c.r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	c.send("SET", "k", "v")
	tiertest.Eventually(t, limit, func() (bool, string) {
		m := s.Command(t, "EXISTS", "k")
		n, err := m.AsInt64()
		return err == nil && n == 1, "not delivered"
	})
	c = open()
	p.EndRequests()
	_, err = c.r.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the server hangs up, and says so")
}

// TestSwitch: connections that come later end at the other server.
func TestSwitch(t *testing.T) {
	t.Parallel()
	r := tiertest.NewReplicated(t, tiertest.Valkey)
	p := tiertest.NewProxy(t, r.Primary)
	role := func() string {
		return connect(t, "tcp", strings.TrimPrefix(p.URL(), "valkey://")).bulk("INFO", "replication")
	}
	require.Contains(t, role(), "role:master")
	p.Switch(r.Replica)
	require.Contains(t, role(), "role:slave")
}
