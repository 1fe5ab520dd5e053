package main_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier/tiertest"
)

// TestProjections: versions are listed, switched between, made anew and dropped; a dry run changes nothing.
func TestProjections(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, server.URL())
	require.Equal(t, 3, p.run("projections", "shop/orders").code)
	p.given("a\nb\nc\n").ok("produce", "shop/orders")
	require.Empty(t, p.ok("projections", "shop/orders").out)
	client := tiertest.Dial(t, server)
	for version := 1; version <= 2; version++ {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		table, err := projection.NewTable(client, projection.TableConfig[int]{
			Config: projection.Config{Address: "shop/orders", Name: "counts", Version: version},
			Key:    func(*consumer.Delivery) string { return "all" },
			Fold: func(sum int, _ *consumer.Delivery) (int, error) {
				if n++; n == 3 {
					cancel() // what is folded is committed
				}
				return sum + 1, nil
			},
		})
		require.NoError(t, err)
		require.NoError(t, table.Run(ctx))
		cancel()
	}
	lines := p.ok("projections", "shop/orders").lines()
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `"projection":"counts","version":1,"live":true,"lag":0,"lag_exact":true,"parked":0,"dead":0,"owner":""`)
	require.Contains(t, lines[1], `"version":2,"live":false,"lag":0`)
	require.Contains(t, p.ok("projections", "shop/orders", "--output", "text").out, "counts")

	of := func(verb, version string, more ...string) []string {
		return append([]string{"projections", verb, "shop/orders", "--name", "counts", "--version", version}, more...)
	}
	require.Equal(t, 2, p.run("projections", "drop", "shop/orders").code)
	require.Equal(t, 2, p.run(of("drop", "1")...).code, "nobody was asked")
	require.Equal(t, 3, p.run(of("switch", "3", "--yes")...).code)
	r := p.run(of("drop", "1", "--yes")...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "switch to another one first")
	require.Equal(t, true, object(t, p.ok(of("switch", "2", "--dry-run")...))["dry_run"])
	require.Equal(t, lines, p.ok("projections", "shop/orders").lines(), "nothing was changed")
	for command, want := range map[string]string{
		"group reset shop/orders --group counts.2 --to head --yes":      "'pipeline projections reset shop/orders --name counts --version 2'",
		"group delete shop/orders --group counts.2 --yes":               "'pipeline projections drop shop/orders --name counts --version 2'",
		"consume shop/orders --group counts.2 --exclusive --timeout 1s": "choose another name",
	} {
		r := p.run(strings.Fields(command)...)
		require.Equal(t, 2, r.code, command)
		require.Contains(t, r.errOut, want)
	}
	require.Equal(t, lines, p.ok("projections", "shop/orders").lines(), "nothing was changed")
	p.ok(of("switch", "2", "--yes")...)
	require.Contains(t, p.ok("projections", "shop/orders").lines()[1], `"version":2,"live":true`)
	p.ok(of("reset", "2", "--yes")...)
	require.Contains(t, p.ok("projections", "shop/orders").lines()[1], `"version":2,"live":true,"lag":3`)
	require.Contains(t, p.ok(of("drop", "1", "--yes", "--output", "text")...).out, "drop version 1 of counts: lag 0; 0 dead letters, which stay")
	require.Len(t, p.ok("projections", "shop/orders").lines(), 1)
	p.ok("check", "shop")
}
