package main_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestForeignLog: a log of another program is addressed by its key, as docs/migrating-from-watermill-redisstream.md has it, to look at
// it, at its groups, and at their dead letters; what would change the log itself is refused.
func TestForeignLog(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	client := tiertest.Dial(t, shared)
	key := "orders of " + tiertest.Scope(t)
	log, err := stream.NewForeign(client, key)
	require.NoError(t, err)
	_, err = log.Append(t.Context(), [][]string{{"who", "a stranger"}, {"who", "another"}}, 0)
	require.NoError(t, err)
	addr := tier.KeyAddress(key)
	give(t, addr, 1, "no message")
	require.Contains(t, p.ok("dead", "ls", addr, "--group", "g").out, "no message")
	require.Contains(t, p.ok("groups", addr).out, `"g"`)
	require.Contains(t, p.ok("range", addr).out, "a stranger")
	require.NotZero(t, p.run("stream", "rm", addr, "--yes").code)
	require.NotZero(t, p.run("produce", addr, "x").code)
}
