package main_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestRetention: a policy is declared, listed and removed; what would go and who holds the rest is shown before it goes.
func TestRetention(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, server.URL())
	require.Equal(t, 3, p.run("retention", "set", "shop/orders", "--settled").code, "no such stream")
	p.given(strings.Repeat("a\n", 40)).ok("produce", "shop/orders")
	p.ok("produce", "shop/logs", "-")
	require.Empty(t, p.ok("retention", "ls", "shop").out)
	require.Contains(t, p.ok("retention", "ls", "shop").errOut, "shop has no policies, and keeps everything")
	require.Contains(t, p.ok("retention", "plan", "shop/orders", "--output", "text").out, "shop/orders: no policy; 40 entries (")

	set := p.ok("retention", "set", "shop/orders", "--max-length", "10", "--max-age", "1d", "--max-bytes", "1GiB", "--exact")
	require.Contains(t, set.out, `"policy":{"max_length":10,"max_age_seconds":86400,"max_bytes":1073741824,"exact":true}`)
	p.ok("consume", "shop/orders", "--group", "slow", "--count", "25")
	client := tiertest.Dial(t, server)
	g, err := stream.NewGroup(client, stream.GroupConfig{Address: "shop/orders", Name: "dead", Start: stream.Head()})
	require.NoError(t, err)
	require.NoError(t, g.Create(t.Context()))

	plan := object(t, p.ok("retention", "plan", "shop"))
	require.EqualValues(t, 0, plan["goes"].(map[string]any)["entries"])
	require.EqualValues(t, 30, plan["held"].(map[string]any)["entries"])
	holders := plan["holders"].([]any)
	require.Len(t, holders, 2)
	first := holders[0].(map[string]any)
	require.Equal(t, "dead", first["holder"])
	require.Equal(t, "unread", first["why"])
	require.EqualValues(t, 40, first["entries"])
	require.Positive(t, first["bytes"])
	text := p.ok("retention", "plan", "shop/orders", "--output", "text").out
	require.Contains(t, text, "\n  would go: 0 entries\n  would go, but is held: 30 entries (")
	require.Regexp(t, `(?m)^dead +unread +40 `, text)
	require.NotContains(t, text, "1970")
	require.Regexp(t, `(?m)^slow +unread +15 `, text)

	ran := p.ok("retention", "run", "shop")
	require.Contains(t, ran.out, `{"stream":"shop/orders","went":0,"left":40,"held":30,"dropped":{}}`)
	p.ok("group", "delete", "shop/orders", "--group", "dead", "--yes")
	require.Contains(t, p.ok("retention", "run", "shop/orders").out, `"went":25,"left":15,"held":5`)
	require.Equal(t, "15\n", p.ok("range", "shop/orders", "--count").out)

	require.Contains(t, p.ok("retention", "set", "shop/orders", "--retire-after", "30d").out, `"policy":{"retire_after_seconds":2592000}`)
	p.ok("retention", "set", "shop/orders", "--hard-cap", "4")
	require.Contains(t, p.ok("retention", "run", "shop").out, `"went":11,"left":4,"held":0,"dropped":{"slow":11}`)
	require.Contains(t, p.ok("retention", "ls", "shop").out, `"policy":{"hard_cap":4},"entries":4,"trimmed":36,"dropped":{"slow":11}`)
	require.Regexp(t, `(?m)^shop/orders +4 +36 +11 +hard-cap=4$`, p.ok("retention", "ls", "shop/orders", "--output", "text").out)
	require.Contains(t, p.ok("retention", "rm", "shop/orders", "--output", "text").out, "shop/orders keeps everything")
	require.Empty(t, p.ok("retention", "run", "shop").out)
	p.ok("check", "shop")
}

// TestRetentionFollow: one goes on until it is interrupted, another is told who works, and its metrics are served.
func TestRetentionFollow(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, server.URL())
	p.given(strings.Repeat("a\n", 20)).ok("produce", "shop/orders")
	p.ok("retention", "set", "shop/orders", "--max-length", "5", "--exact")
	follow := p.start("retention", "run", "shop", "--follow", "--beat", "20ms", "--metrics", ":0")
	follow.said("sweeping shop")
	left := func(n string) {
		t.Helper()
		tiertest.Eventually(t, limit, func() (bool, string) {
			out := p.ok("range", "shop/orders", "--count").out
			return out == n+"\n", out
		})
	}
	left("5")
	r := p.run("retention", "run", "shop")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "another sweeper is at work on scope shop")
	p.given("a\nb\n").ok("produce", "shop/orders")
	left("5")
	require.Equal(t, 130, follow.interrupted().code)
	require.Contains(t, p.ok("retention", "run", "shop").out, `"left":5`, "the right was given back")
	require.Equal(t, 0, p.run("retention", "run", "shop", "--follow", "--timeout", time.Second.String()).code)
}

// TestRetentionOfPartitions: a stream's policy is that of each of its partitions.
func TestRetentionOfPartitions(t *testing.T) {
	t.Parallel()
	p := onServer(t, tiertest.Private(t, tiertest.Valkey).URL())
	p.ok("scope", "partition", "shop", "--count", "2")
	var rows strings.Builder
	for i := range 40 {
		fmt.Fprintf(&rows, "{\"customer\":%d}\n", i)
	}
	p.given(rows.String()).ok("produce", "shop/orders", "--format", "json", "--key", "customer")
	require.Len(t, p.ok("retention", "set", "shop/orders", "--max-length", "3", "--exact").lines(), 2)
	require.Len(t, p.ok("retention", "ls", "shop").lines(), 2)
	require.Len(t, p.ok("retention", "plan", "shop/orders").lines(), 2)
	for _, line := range p.ok("retention", "run", "shop").lines() {
		require.Contains(t, line, `"left":3`)
	}
	require.Len(t, p.ok("retention", "rm", "shop/orders").lines(), 2)
	require.Empty(t, p.ok("retention", "ls", "shop").out)
}
