package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestPartitions: a scope is given partitions, produced to, looked at, and changed to another number.
func TestPartitions(t *testing.T) {
	t.Parallel()
	p := onServer(t, tiertest.Private(t, tiertest.Valkey).URL())
	require.Equal(t, true, object(t, p.ok("scope", "partition", "shop", "--count", "3", "--dry-run"))["dry_run"])
	require.EqualValues(t, 3, object(t, p.ok("scope", "partition", "shop", "--count", "3"))["to"])
	p.ok("scope", "partition", "shop", "--count", "3")
	var lines strings.Builder
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "a"} {
		lines.WriteString(`{"k":"` + key + `"}` + "\n")
	}
	require.EqualValues(t, 9, object(t, p.given(lines.String()).ok("produce", "shop/orders", "--format", "json", "--key", "k", "--output", "json"))["written"])
	out := p.ok("streams", "shop").out
	n := 0
	for k, name := range []string{"shop/orders@0", "shop/orders@1", "shop/orders@2"} {
		require.Contains(t, out, `"stream":"`+name+`"`)
		n += len(p.ok("range", name).lines())
		if k == 0 {
			p.ok("consume", name, "--group", "g", "--count", "1")
		}
	}
	require.Equal(t, 9, n)
	require.Contains(t, p.ok("groups", "shop/orders").out, `{"partition":"shop/orders@0","kind":"group","group":"g"`)
	r := p.given("x\n").run("produce", "shop/orders@1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "write to shop/orders")

	all := p.ok("range", "shop/orders").lines()
	require.Len(t, all, 9)
	ids := make([]string, len(all))
	for i, m := range messages(t, p.ok("range", "shop/orders")) {
		ids[i] = m.ID
	}
	require.True(t, slices.IsSorted(ids), ids)
	require.Equal(t, "9\n", p.ok("range", "shop/orders", "--count", "--from", "1h").out)
	require.Equal(t, all[:4], p.ok("range", "shop/orders", "--limit", "4").lines())
	require.Equal(t, all[5:], p.ok("tail", "shop/orders", "-n", "4").lines())
	r = p.run("range", "shop/orders", "--from", ids[0])
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "shop/orders@3")
	require.Equal(t, 3, p.run("range", "shop/none").code)

	plan := object(t, p.ok("scope", "partition", "shop", "--count", "5", "--dry-run"))
	require.Len(t, plan["undrained"], 1)
	r = p.run("scope", "partition", "shop", "--count", "5")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "give --yes")
	r = p.run("scope", "partition", "shop", "--count", "5", "--yes", "--timeout", "2s")
	require.NotZero(t, r.code)
	require.Contains(t, r.errOut, "or with --count 3 to go back")
	require.Contains(t, r.errOut, "shop.0/orders")
	p.ok("group", "delete", "shop/orders@0", "--group", "g", "--yes")
	require.EqualValues(t, 3, object(t, p.ok("scope", "partition", "shop", "--count", "5"))["from"])
	p.given(lines.String()).ok("produce", "shop/orders", "--format", "json", "--key", "k")
	require.Contains(t, p.ok("streams", "shop").out, `"stream":"shop/orders@4"`)
	p.ok("check", "shop")
	p.ok("check", "shop.4")
}

// TestPartitionsAreShared: of those that consume a partitioned stream each partition is one's at a time; what is appended to any
// partition is followed; when one is killed the others go on, in the order of each key.
func TestPartitionsAreShared(t *testing.T) {
	t.Parallel()
	p := onServer(t, tiertest.Private(t, tiertest.Valkey).URL())
	p.ok("scope", "partition", "shop", "--count", "16")
	const keys = 10
	placed := 1
	produce := func(n int) {
		var lines strings.Builder
		for range n {
			fmt.Fprintf(&lines, "{\"k\":\"%d\",\"n\":%d}\n", placed%keys, placed)
			placed++
		}
		p.given(lines.String()).ok("produce", "shop/orders", "--format", "json", "--key", "k")
	}
	produce(40)
	args := []string{"consume", "shop/orders", "--group", "mailer", "--order", "key"}
	first := p.start(append(args, "--exec", "cat")...)
	first.line()
	second := p.start(append(args, "--metrics", ":0")...)
	tiertest.Eventually(t, limit, func() (bool, string) {
		owners := map[string]bool{}
		for _, line := range p.ok("groups", "shop/orders").lines() {
			owner := fmt.Sprint(object(t, result{out: line})["owner"])
			owners[owner[:max(0, strings.LastIndexByte(owner, '-'))]] = true // the process
		}
		return len(owners) == 2 && !owners[""], fmt.Sprint(owners)
	})
	tiertest.Eventually(t, limit, func() (bool, string) { // partitions change hands until each process has its part
		told, listed := scrape(t, second), p.ok("groups", "shop/orders").out
		return strings.Contains(told, `echomq_stream_cursor_owned{cursor="mailer",scope="shop.3",stream="orders"} 1`) &&
			strings.Contains(listed, `{"partition":"shop/orders@3","kind":"cursor","group":"mailer","state":"active"`), told + listed
	})
	follower := p.start("tail", "shop/orders", "-n", "1", "--follow")
	follower.line() // it is at work
	require.Len(t, p.ok("group", "pause", "shop/orders", "--group", "mailer").lines(), 16)
	require.Equal(t, 16, strings.Count(p.ok("groups", "shop/orders").out, `"state":"paused"`))
	require.Equal(t, 16, strings.Count(p.ok("group", "resume", "shop/orders", "--group", "mailer").out, `"changed":true`))
	require.Equal(t, 3, p.run("group", "pause", "shop/orders", "--group", "none").code)
	require.Contains(t, p.run("dead", "ls", "shop/orders", "--group", "mailer").errOut, "name one of them, as in shop/orders@0")
	require.NoError(t, first.cmd.Process.Signal(os.Interrupt))
	first.wait()
	produce(40)
	seen := map[string]bool{}
	for range 40 {
		seen[follower.line()] = true
	}
	require.Len(t, seen, 40)
	follower.interrupted()
	tiertest.Eventually(t, limit, func() (bool, string) {
		out := p.ok("groups", "shop/orders").out
		return strings.Count(out, `"lag":0`) == 16, out
	})
	r := second.interrupted()
	require.Contains(t, r.errOut, "handled by cursor mailer of shop/orders")
	last := map[string]int{}
	for _, m := range messages(t, r) {
		var order struct{ N int }
		require.NoError(t, json.Unmarshal(m.Data, &order))
		require.Greater(t, order.N, last[m.Key], "key %s", m.Key)
		last[m.Key] = order.N
	}
	require.Len(t, last, keys, "all partitions are its own in the end")
}
