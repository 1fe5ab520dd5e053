package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestStreamsAndGroups(t *testing.T) {
	t.Parallel()
	p, s := onShared(t), scope(t)
	p.given("1\n2\n3\n").ok("produce", s+"/packed", "--pack", "3")
	p.given("1\n2\n3\n").ok("produce", s+"/plain")
	require.Regexp(t, `^\{"stream":"`+s+`/packed","brand":"PAC","entries":1,"added":1,"first":"\d+-\d+","last":"\d+-\d+","groups":0\}\n`+
		`\{"stream":"`+s+`/plain","brand":"PLA","entries":3,"added":3,"first":"\d+-\d+","last":"\d+-\d+","groups":0\}\n$`, p.ok("streams", s).out)
	require.Contains(t, p.ok("streams").out, p.ok("streams", s).out, "all scopes")
	require.Regexp(t, `^STREAM +BRAND +ENTRIES  FIRST +LAST +GROUPS\n`+s+`/packed  PAC          1  2\d{3}-\d\d-\d\d \d\d:\d\d  [-\d]{10} \d\d:\d\d       0\n`,
		p.ok("streams", s, "--output", "text").out)
	require.Equal(t, 3, p.run("streams", s+"x").code)
	for _, line := range p.ok("streams", s, "--output", "text").lines() {
		require.LessOrEqual(t, len(line)-len(s+"/packed"), 80-len("shop/earthquakes"), line)
	}

	r := p.ok("groups", s+"/plain")
	require.Empty(t, r.out)
	require.Contains(t, r.errOut, "has no groups: 'pipeline consume "+s+"/plain --group NAME' makes one")
	p.ok("consume", s+"/plain", "--group", "slow", "--count", "1")
	p.ok("consume", s+"/plain", "--group", "all", "--count", "3")
	groups := p.ok("groups", s+"/plain").lines()
	require.Len(t, groups, 2)
	require.Regexp(t, `^\{"kind":"group","group":"all","state":"idle","lag":0,"lag_exact":true,"pending":0,"parked":0,"consumers":0,"dead":0,"oldest_unread":"","oldest_unread_seconds":0,`+
		`"oldest_pending":"","oldest_pending_seconds":0,"last_delivered":"\d+-\d+","start":"","floor":"\d+-\d+","lease_seconds":30,"paused":false,`+
		`"next_due_seconds":null,"oldest_parked":"","oldest_parked_seconds":0,"oldest_dead":"","oldest_dead_seconds":0\}$`, groups[0])
	require.Regexp(t, `^\{"kind":"group","group":"slow","state":"dead","lag":2,"lag_exact":true,"pending":0,"parked":0,"consumers":0,"dead":0,"oldest_unread":"\d+-\d+","oldest_unread_seconds":[\d.]+,`, groups[1])
	require.Regexp(t, `^GROUP +STATE +LAG +PENDING +PARKED +CONSUMERS +DEAD +OLDEST UNREAD +OLDEST PENDING +NEXT DUE +OLDEST PARKED +OLDEST DEAD +LEASE +START +FLOOR\n`+
		`all +idle +0 +0 +0 +0 +0 +- +- +- +- +- +30s +- +[-\d]{10} \d\d:\d\d\nslow +dead +2 +0 +0 +0 +0 +[\dms.]+ +- +- +- +- +30s +- +[-\d]{10} \d\d:\d\d\n$`,
		p.ok("groups", s+"/plain", "--output", "text").out)
	require.Equal(t, 3, p.run("groups", s+"/none").code)
}

func TestStreamsTrimmed(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 5)
	raw(t, shared, "XTRIM", logKey(t, addr), "MAXLEN", "=", "2")
	scope, _, _ := strings.Cut(addr, "/")
	require.Regexp(t, `/numbers +NUM +2 +5  2`, p.ok("streams", scope, "--output", "text").out, "added, where it is more")
}

func TestGroupsEstimate(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 10)
	all := messages(t, p.ok("range", addr))
	p.ok("consume", addr, "--group", "g", "--count", "3")
	raw(t, shared, "XDEL", logKey(t, addr), all[5].Entry)
	require.Contains(t, p.ok("groups", addr).out, `"lag_exact":false`)
	require.Contains(t, p.ok("groups", addr, "--output", "text").out, " ~")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	s := tiertest.Scope(t)
	p.given("1\n").ok("produce", s+"/a", "--brand", "AAA")
	r := p.ok("check", s)
	require.Empty(t, r.out)
	require.Contains(t, r.errOut, "scope "+s+": everything holds")

	key := tier.ScopeKey(s)
	raw(t, shared, "HSET", key, "brand:AAA", "elsewhere")
	for _, output := range []string{"text", "json"} {
		r = p.run("check", s, "--output", output)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.out, key)
		require.Contains(t, r.errOut, "findings: see what wrote to these keys")
	}
	require.Contains(t, r.out, `{"broken":"`)
	r = p.run("check", s+"x")
	require.Equal(t, 3, r.code)
	require.Contains(t, r.errOut, "no scope "+s+"x: check its name")
}
