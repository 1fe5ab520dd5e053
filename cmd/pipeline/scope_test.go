package main_test

import (
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
	for _, command := range []string{"range", "tail"} {
		r := p.run(command, "shop/orders")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.errOut, "shop/orders@0")
	}
	r := p.given("x\n").run("produce", "shop/orders@1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "write to shop/orders")

	plan := object(t, p.ok("scope", "partition", "shop", "--count", "5", "--dry-run"))
	require.Len(t, plan["undrained"], 1)
	r = p.run("scope", "partition", "shop", "--count", "5")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "give --yes")
	r = p.run("scope", "partition", "shop", "--count", "5", "--yes", "--timeout", "300ms")
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
