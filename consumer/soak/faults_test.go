package soak_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// fault is something that happens to a crew, and is over when do returns. One that loses may take from the server what
// it had acknowledged before.
type fault struct {
	name  string
	loses bool
	do    func(c *crew)
}

func (c *crew) suffer(f fault) {
	c.t.Helper()
	f.do(c)
	if f.loses {
		c.book.lost()
	}
}

// ofProcesses happens to a consumer.
var ofProcesses = []fault{
	{name: "consumer killed", do: func(c *crew) { c.child.crash() }},
	{name: "consumer frozen past its lease", do: func(c *crew) { c.child.freeze(func() {}) }},
}

// throughAProxy happens between the processes and the server.
func throughAProxy(p *tiertest.Proxy) []fault {
	return []fault{
		{name: "replies lost after the work was done (B74)", do: func(c *crew) {
			script := func(cmd []string) bool { return cmd[0] == "EVALSHA" || cmd[0] == "EVAL" }
			appends := func(cmd []string) bool {
				return script(cmd) && slices.ContainsFunc(cmd, func(word string) bool { return strings.Contains(word, ":pid:") })
			}
			p.DropReplies(5, appends)
			p.DropReplies(5, func(cmd []string) bool { return script(cmd) && !appends(cmd) })
			pause(2 * time.Second)
		}},
		{name: "connections cut", do: func(*crew) { p.Cut() }},
	}
}

// ofTheGroup is what an operator does to it.
var ofTheGroup = []fault{
	{name: "group reset while a consumer is frozen (B16)", do: func(c *crew) {
		c.child.freeze(func() {
			client := tiertest.Dial(c.t, at(c.url))
			c.book.again() // before it: what is handled at once counts
			tiertest.Eventually(c.t, patience, func() (bool, string) {
				_, err := group(c.t, client, c.addr).Reset(context.Background(), stream.Head())
				return err == nil || errors.Is(err, tier.ErrNoGroup), errText(err)
			})
		})
	}},
}

// ofOneServer are the faults of a server that keeps an append-only file.
func ofOneServer(s *tiertest.Server) []fault {
	return []fault{
		{name: "FLUSHALL", loses: true, do: func(c *crew) { tell(c.t, s, "FLUSHALL") }},
		{name: "DEL of the stream", loses: true, do: func(c *crew) { tell(c.t, s, "DEL", c.addr.LogKey()) }},
		{name: "ids ahead of the clock, then DEL (B90)", loses: true, do: func(c *crew) {
			lead := 3 * time.Second
			tell(c.t, s, "XSETID", c.addr.LogKey(), strconv.FormatInt(time.Now().Add(lead).UnixMilli(), 10)+"-0")
			pause(500 * time.Millisecond)
			tell(c.t, s, "DEL", c.addr.LogKey())
			pause(lead) // a FLUSHALL while ids are ahead takes what keeps those of two writers apart: docs/architecture.md says so
		}},
		{name: "XGROUP DESTROY", do: func(c *crew) { tell(c.t, s, "XGROUP", "DESTROY", c.addr.LogKey(), groupName) }},
		{name: "kill -9, and its append-only file (B36)", loses: true, do: func(c *crew) {
			s.Kill()
			pause(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			require.NoError(c.t, s.Restart(ctx))
		}},
		{name: "CLIENT KILL of every connection", do: func(c *crew) { tell(c.t, s, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }},
		{name: "SIGSTOP for 5 s (B57)", do: func(c *crew) {
			require.NoError(c.t, s.Freeze())
			pause(5 * time.Second)
			require.NoError(c.t, s.Thaw())
		}},
		{name: "maxmemory reached, and raised again (B68)", do: func(c *crew) {
			tell(c.t, s, "CONFIG", "SET", "maxmemory", "1")
			pause(2 * time.Second)
			tell(c.t, s, "CONFIG", "SET", "maxmemory", "0")
		}},
		{name: "SCRIPT FLUSH (B146)", do: func(c *crew) { tell(c.t, s, "SCRIPT", "FLUSH") }},
	}
}

func pause(d time.Duration) { tier.Pause(context.Background(), d) }

// tell runs a command past package tier, on a server that may have just come back.
func tell(t testing.TB, s *tiertest.Server, command ...string) {
	t.Helper()
	tiertest.Eventually(t, patience, func() (bool, string) {
		raw, err := tiertest.Raw(s)
		if err != nil {
			return false, err.Error()
		}
		defer raw.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = raw.Do(ctx, raw.B().Arbitrary(command...).Build()).Error()
		if _, refused := rueidis.IsRedisErr(err); refused {
			return true, "" // such as a key that is not there
		}
		return err == nil, strings.Join(command, " ") + ": " + strconv.Quote(errText(err))
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ofACluster are the faults of three masters with a replica each, the scope's slot being on one of them.
func ofACluster(cl *tiertest.Cluster) []fault {
	return []fault{
		{name: "DEL of the stream", loses: true, do: func(c *crew) { tell(c.t, cl.Master(c.t, c.addr.LogKey()), "DEL", c.addr.LogKey()) }},
		{name: "master killed (B37)", loses: true, do: func(c *crew) {
			old := cl.Master(c.t, c.addr.LogKey())
			old.Kill()
			tiertest.Eventually(c.t, patience, func() (bool, string) {
				return cl.Master(c.t, c.addr.LogKey()) != old, "nobody has taken the slot over"
			})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			require.NoError(c.t, old.Restart(ctx))
			cl.WaitWhole(c.t)
		}},
		{name: "failover by command", do: func(c *crew) { cl.Failover(c.t, c.addr.LogKey()) }},
		{name: "slot moved (B145)", do: func(c *crew) { cl.Move(c.t, c.addr.LogKey(), nil) }},
		{name: "CLIENT KILL of every connection", do: func(c *crew) {
			tell(c.t, cl.Master(c.t, c.addr.LogKey()), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}},
	}
}
