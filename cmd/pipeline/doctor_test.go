package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey, "--appendonly", "yes")
	p := onServer(t, s.URL())
	p.given("1\n").ok("produce", "shop/orders")
	for _, args := range [][]string{{"doctor"}, {"doctor", "shop"}, {"doctor", "--strict", "--output", "text"}} {
		r := p.ok(args...)
		require.Empty(t, r.out)
		require.Equal(t, "pipeline: nothing wrong was found in 1 node, 1 scope, 1 stream, 0 groups, 0 cursors\n", r.errOut)
	}
	r := p.run("doctor", "none")
	require.Equal(t, 3, r.code)
	require.Contains(t, r.errOut, "no scope none")
	r = p.run("doctor", "shop/orders")
	require.Equal(t, 2, r.code)
	require.Equal(t, "pipeline: doctor takes scopes: shop\n", r.errOut)
	p.ok("doctor", "shop/orders", "--as", "consumer", "--group", "mailer")
	for _, args := range [][]string{
		{"shop", "--group", "mailer"}, {"shop/orders", "shop", "--as", "writer"}, {"--as", "king"}, {"shop", "--as", "consumer", "--group", "a:b"},
	} {
		require.Equal(t, 2, p.run(append([]string{"doctor"}, args...)...).code, "%q", args)
	}
	user := tiertest.NewUser(t, []*tiertest.Server{s}, "+@all", "-xreadgroup", "~*")
	guest := onServer(t, user.At(s))
	require.Equal(t, "note", object(t, guest.given("").ok("doctor", "shop", "--strict"))["severity"])
	require.Equal(t, "error", object(t, guest.run("doctor", "shop", "--as", "consumer"))["severity"])

	raw(t, s, "CONFIG", "SET", "appendonly", "no")
	r = p.ok("doctor")
	require.Equal(t, "persistence", object(t, r)["code"])
	require.Equal(t, "warning", object(t, r)["severity"])
	require.Contains(t, r.errOut, "0 errors, 1 warning, 0 notes in 1 node")
	require.Equal(t, 1, p.run("doctor", "--strict").code)

	raw(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	r = p.run("doctor", "--output", "text")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `^ERRORS\n  \S+  eviction\n    maxmemory-policy is allkeys-lru: .*\n    -> CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE, or write it into the\n       configuration file: a restart forgets it otherwise\nWARNINGS\n  \S+  persistence\n`, r.out)
	require.Contains(t, r.errOut, "1 error, 1 warning, 0 notes")
	for _, line := range r.lines() {
		require.LessOrEqual(t, len(line), 100)
	}

	raw(t, s, "SET", tier.VersionKey, "echomq:9.0.0")
	r = p.run("doctor")
	require.Equal(t, 1, r.code)
	require.Equal(t, "wire-version", object(t, r)["code"])
	require.Equal(t, 1, strings.Count(r.errOut, "\n"))
}

// TestDoctorAtTheDoor: who is not let in gets a finding all the same, in either form, and exit code 1.
func TestDoctorAtTheDoor(t *testing.T) {
	t.Parallel()
	frozen := tiertest.NewProxy(t, shared)
	frozen.Freeze()
	for _, tt := range []struct {
		url, what string
		args      []string
	}{
		{"unix:///nowhere.sock", "the server cannot be reached", nil},
		{frozen.URL(), "it let nobody in within --timeout 1s", []string{"--timeout", "1s"}},
	} {
		p := onServer(t, tt.url)
		r := p.run(append(tt.args, "doctor")...)
		require.Equal(t, 1, r.code)
		found := object(t, r)
		require.Equal(t, "unreachable", found["code"])
		require.Equal(t, "error", found["severity"])
		require.Contains(t, found["what"], tt.what)
		require.Equal(t, "pipeline: 1 error, 0 warnings, 0 notes: nothing could be examined\n", r.errOut)
		r = p.run(append(tt.args, "doctor", "--output", "text")...)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.out, "ERRORS\n  server  unreachable\n    "+tt.what)
	}

	down := tiertest.Private(t, tiertest.ValkeyCluster, "--appendonly", "yes")
	raw(t, down, "CLUSTER", "DELSLOTS", "0")
	tiertest.Eventually(t, limit, func() (bool, string) { // the server sees it after a while
		r := onServer(t, down.URL()).run("doctor")
		return r.code == 1, r.errOut
	})
	r := onServer(t, down.URL()).run("doctor", "--output", "text")
	require.Contains(t, r.out, "  server  cluster\n    the cluster does not serve this slot: ")
	require.Contains(t, r.out, "  cluster\n    the cluster is not ok: fail\n") // said by the node, which answers
	require.Equal(t, "pipeline: 2 errors, 0 warnings, 0 notes in 1 node, 0 scopes, 0 streams, 0 groups, 0 cursors\n", r.errOut)
}
