package main_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// object reads a line of JSON.
func object(t testing.TB, r result) map[string]any {
	t.Helper()
	require.Len(t, r.lines(), 1)
	var o map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.out), &o))
	return o
}

// onTerminal runs the program on a terminal on which somebody types.
func (p *program) onTerminal(typed string, args ...string) result {
	p.t.Helper()
	cmd := exec.Command("script", "-qec", "pipeline "+strings.Join(args, " "), "/dev/null")
	cmd.Dir, cmd.Env = p.dir, append(p.env, "TERM=dumb")
	cmd.Stdin = strings.NewReader(typed)
	out, err := cmd.CombinedOutput()
	return result{code: exitCode(p.t, err), out: strings.ReplaceAll(string(out), "\r", "")}
}

// TestStreamRemove (B30): live consumers, one of them on its first message, and a live reader end when the stream is
// removed, with the exit code of what is not there; the key stays absent.
func TestStreamRemove(t *testing.T) {
	t.Parallel()
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind)
			p := onServer(t, s.URL())
			p.given("1\n2\n3\n").ok("produce", "shop/orders")
			busy := p.start("consume", "shop/orders", "--group", "g")
			idle := p.start("consume", "shop/orders", "--group", "h", "--start", "new")
			reader := p.start("tail", "shop/orders", "--follow")
			for range 3 {
				busy.line()
				reader.line()
			}
			tiertest.Eventually(t, limit, func() (bool, string) {
				out := p.ok("groups", "shop/orders").out
				return strings.Count(out, `"state":"active"`) == 2, out
			})

			plan := object(t, p.ok("stream", "rm", "shop/orders", "--dry-run"))
			require.Equal(t, true, plan["dry_run"])
			require.EqualValues(t, 3, plan["entries"])
			require.Positive(t, plan["bytes"])
			require.Len(t, plan["groups"], 2)
			gone := object(t, p.ok("stream", "rm", "shop/orders", "--yes"))
			require.Equal(t, "remove", gone["action"])
			require.Equal(t, false, gone["dry_run"])
			require.EqualValues(t, 3, gone["entries"])
			require.EqualValues(t, 1, gone["producers"])
			require.Equal(t, "ORD", gone["brand"])
			for _, running := range []*process{busy, idle, reader} {
				r := running.wait()
				require.Equal(t, 3, r.code, r.errOut)
				require.Contains(t, r.errOut, "the stream was removed: a writer that is started again makes it anew")
			}
			require.Contains(t, p.run("range", "shop/orders").errOut, "the stream was removed")
			require.Contains(t, raw(t, s, "EXISTS", logKey(t, "shop/orders")), `"Value":0`)
			require.Contains(t, p.ok("streams", "--output", "text").out, "removed")
			require.Equal(t, 3, p.run("groups", "shop/orders").code)
			again := object(t, p.ok("stream", "rm", "shop/orders", "--yes"))
			require.EqualValues(t, 0, again["entries"], "again")
			require.NotContains(t, again, "bytes", "nothing is known of them")
			require.Equal(t, 3, p.run("stream", "rm", "shop/nothing", "--yes").code)

			p.given("4\n").ok("produce", "shop/orders")
			require.Contains(t, p.ok("tail", "shop/orders").out, `"id":"ORD`)
		})
	}
}

// TestStreamReset: a consumer and a reader at work go on with what comes next.
func TestStreamReset(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis, tiertest.ValkeyCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			resetUnderWork(t, onServer(t, tiertest.Private(t, kind).URL()), "shop/orders")
		})
	}
}

func resetUnderWork(t *testing.T, p *program, addr string) {
	p.given("1\n2\n3\n").ok("produce", addr)
	busy := p.start("consume", addr, "--group", "g")
	reader := p.start("tail", addr, "--follow")
	for range 3 {
		busy.line()
		reader.line()
	}
	before := p.ok("groups", addr).out
	require.EqualValues(t, 3, object(t, p.ok("stream", "reset", addr, "--dry-run"))["entries"])
	require.Equal(t, "3\n", p.ok("range", addr, "--count").out)
	require.Contains(t, before, `"state":"active"`)
	require.Equal(t, "emptied "+addr+": 3 entries", strings.Split(p.ok("stream", "reset", addr, "--yes", "--output", "text").out, " (")[0])
	require.Equal(t, "0\n", p.ok("range", addr, "--count").out)
	p.given("4\n").ok("produce", addr)
	for _, running := range []*process{busy, reader} {
		require.Contains(t, running.line(), `"data":"4"`)
		require.Zero(t, running.interrupted().code%130)
	}
	require.Contains(t, p.ok("groups", addr).out, `"lag":0`)
	require.Equal(t, 3, p.run("stream", "reset", addr+"x", "--yes").code)
}

func TestGroupResetAndDelete(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 5)
	p.ok("consume", addr, "--group", "g", "--count", "5")
	all := messages(t, p.ok("range", addr))
	next := func() (unread string) {
		return fmt.Sprint(object(t, p.ok("groups", addr))["oldest_unread"])
	}
	for _, tt := range []struct {
		to, next       string
		again, skipped float64
	}{
		{"head", all[0].Entry, 5, 0},
		{"new", "", 0, 5},
		{all[3].ID, all[3].Entry, 2, 0},
		{all[2].Entry, all[2].Entry, 1, 0},
		{"1h", all[0].Entry, 2, 0},
		{all[4].ID, all[4].Entry, 0, 4},
		{"2026-01-01", all[0].Entry, 4, 0},
	} {
		was := next()
		plan := object(t, p.ok("group", "reset", addr, "--group", "g", "--to", tt.to, "--dry-run"))
		require.Equal(t, was, next())
		require.Equal(t, tt.to, plan["to"])
		require.Equal(t, map[string]any{"again": tt.again, "skipped": tt.skipped, "exact": true, "next": tt.next}, plan["move"], tt.to)
		text := p.ok("group", "reset", addr, "--group", "g", "--to", tt.to, "--dry-run", "--output", "text").out
		require.Regexp(t, fmt.Sprintf(`; (%v messages? again|%v messages? skipped); on (with what is appended next|at %s)\n$`, tt.again, tt.skipped, cmp.Or(tt.next, "-")), text)
		require.Equal(t, "move-group", object(t, p.ok("group", "reset", addr, "--group", "g", "--to", tt.to, "--yes"))["action"])
		require.Equal(t, tt.next, next(), tt.to)
	}
	for _, args := range [][]string{{"group", "reset", addr, "--group", "g", "--to", "2099-01-01", "--dry-run"}, {"group", "reset", addr, "--group", "g", "--to", "2099-01-01", "--yes"}, {"consume", addr, "--group", "late", "--start", "2099-01-01"}} {
		r := p.run(args...)
		require.Equal(t, 2, r.code, r.errOut)
		require.Contains(t, r.errOut, "beyond the stream's end and the server's clock")
		require.Contains(t, r.errOut, `take "new" for what is appended from now on`)
	}
	raw(t, shared, "XREADGROUP", "GROUP", "g", "other", "COUNT", "2", "STREAMS", logKey(t, addr), ">")
	require.Equal(t, "would delete group g of "+addr+": lag 3; 2 pending, which it forgets; 1 consumer\n",
		p.ok("group", "delete", addr, "--group", "g", "--dry-run", "--output", "text").out)
	require.EqualValues(t, 2, object(t, p.ok("group", "reset", addr, "--group", "g", "--to", "head", "--yes"))["pending"])
	require.Equal(t, "delete-group", object(t, p.ok("group", "delete", addr, "--group", "g", "--yes"))["action"])
	require.Empty(t, p.ok("groups", addr).out)
	for _, args := range [][]string{{"delete"}, {"reset", "--to", "head"}} {
		r := p.run(append([]string{"group", args[0], addr, "--group", "g", "--yes"}, args[1:]...)...)
		require.Equal(t, 3, r.code)
		require.Contains(t, r.errOut, addr+" has no group g: 'pipeline groups "+addr+"' lists them")
		r = p.run(append([]string{"group", args[0], addr + "x", "--group", "g", "--yes"}, args[1:]...)...)
		require.Equal(t, 3, r.code)
		require.Contains(t, r.errOut, "no such stream")
	}
}

// TestConfirm: on a terminal it shows what would go and wants the name typed; nothing else will do.
func TestConfirm(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 5)
	p.ok("consume", addr, "--group", "g", "--count", "2")
	for _, typed := range []string{"\n", "y\n", "g\n", addr + "x\n", "\x04"} {
		r := p.onTerminal(typed, "stream", "rm", addr)
		require.Equal(t, 1, r.code, r.out)
		require.Contains(t, r.out, "would remove "+addr+": 5 entries")
		require.Contains(t, r.out, "GROUP  LAG  PENDING  CONSUMERS  DEAD\ng        3        0          0     0\n")
		require.Contains(t, r.out, "Type "+addr+" to go on: ")
		require.Contains(t, r.out, "pipeline: not confirmed: nothing was changed")
	}
	require.Equal(t, "5\n", p.ok("range", addr, "--count").out)
	r := p.onTerminal("g\n", "group", "delete", addr, "--group", "g")
	require.Zero(t, r.code, r.out)
	require.Contains(t, r.out, "Type g to go on: deleted group g of "+addr)
	r = p.onTerminal(addr+"\n", "stream", "rm", addr)
	require.Zero(t, r.code, r.out)
	require.Contains(t, r.out, "removed "+addr)
	require.Equal(t, 3, p.run("range", addr).code)
}

func TestGroupsConsumers(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 5)
	p.ok("consume", addr, "--group", "g", "--count", "1")
	require.Contains(t, p.run("groups", addr, "--consumers", "--output", "text").errOut, "no group of "+addr+" has a consumer")
	require.Equal(t, []any{}, object(t, p.ok("groups", addr, "--consumers"))["consumer_list"])
	at, err := tier.ParseAddress(addr)
	require.NoError(t, err)
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	raw(t, shared, "HSET", at.OwnersKey("g"), "m-alive", "7", "m-alive:beat", now, "m-dead", "8", "m-dead:beat", "1")
	for _, consumer := range []string{"m-alive", "m-dead", "other"} {
		raw(t, shared, "XREADGROUP", "GROUP", "g", consumer, "COUNT", "1", "STREAMS", logKey(t, addr), ">")
	}
	require.NotContains(t, p.ok("groups", addr).out, "consumer_list")
	g := object(t, p.ok("groups", addr, "--consumers"))
	require.Equal(t, "active", g["state"])
	list := g["consumer_list"].([]any)
	require.Len(t, list, 3)
	for i, want := range []map[string]any{
		{"consumer": "m-alive", "kind": "member", "pending": 1.0, "lease_ended": false},
		{"consumer": "m-dead", "kind": "member", "pending": 1.0, "lease_ended": true},
		{"consumer": "other", "kind": "raw", "pending": 1.0, "lease_ended": false, "beat_seconds": nil},
	} {
		require.Subset(t, list[i], want)
	}
	out := p.ok("groups", addr, "--consumers", "--output", "text").out
	require.Regexp(t, `\n\nGROUP  CONSUMER  KIND +PENDING +IDLE +LAST BEAT  LEASE\n`+
		`g +m-alive +member +1 +\S+ +\S+  holds\ng +m-dead +member +1 +\S+ +\d+h\S+  ended\ng +other +raw +1 +\S+ +-  holds\n$`, out)
}

// A group is paused while a consumer runs, and resumed.
func TestGroupPause(t *testing.T) {
	t.Parallel()
	p, addr := alone(t), "shop/orders"
	p.given("1\n2\n").ok("produce", addr)
	c := p.start("consume", addr, "--group", "g")
	for range 2 {
		c.line()
	}
	r := object(t, p.ok("group", "pause", addr, "--group", "g"))
	require.Equal(t, map[string]any{"action": "pause-group", "stream": addr, "group": "g", "changed": true}, r)
	require.Equal(t, false, object(t, p.ok("group", "pause", addr, "--group", "g"))["changed"])
	g := object(t, p.ok("groups", addr))
	require.Equal(t, "paused", g["state"])
	require.Equal(t, true, g["paused"])
	require.Regexp(t, `^\d{4}-`, g["paused_since"])
	require.Contains(t, p.ok("groups", addr, "--output", "text").out, "paused")
	require.Contains(t, p.ok("doctor").out, `"code":"group-paused"`)
	require.Contains(t, p.ok("group", "pause", addr, "--group", "g", "--output", "text").out, "group g of "+addr+" was paused already")
	require.Contains(t, p.ok("group", "resume", addr, "--group", "g", "--output", "text").out, "resumed group g of "+addr+": lag 0, ")
	require.Equal(t, false, object(t, p.ok("group", "resume", addr, "--group", "g"))["changed"])
	p.given("3\n").ok("produce", addr)
	c.line()
	require.NotContains(t, p.ok("doctor").out, "group-paused")
	require.Equal(t, 3, p.run("group", "pause", addr, "--group", "none").code)
	require.Equal(t, 2, p.run("group", "pause", addr).code)
	require.Equal(t, 2, p.run("group", "resume", "no address", "--group", "g").code)
}
