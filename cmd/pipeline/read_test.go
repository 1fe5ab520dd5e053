package main_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

// numbers is a stream with the lines 1 to n in batches that are at least a
// millisecond apart, five lines each.
func numbers(t testing.TB, p *program, n int, args ...string) (addr string) {
	t.Helper()
	addr = scope(t) + "/numbers"
	for i := 1; i <= n; i += 5 {
		var lines strings.Builder
		for k := i; k < min(i+5, n+1); k++ {
			fmt.Fprintln(&lines, k)
		}
		p.given(lines.String()).ok(append([]string{"produce", addr}, args...)...)
	}
	return addr
}

// raw sends a command past the program.
func raw(t testing.TB, s interface{ URL() string }, args ...string) string {
	t.Helper()
	c, err := tiertest.Raw(s)
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := c.Do(ctx, c.B().Arbitrary(args...).Build())
	require.NoError(t, r.Error(), "%q", args)
	m, err := r.ToMessage()
	require.NoError(t, err)
	return m.String()
}

func logKey(t testing.TB, addr string) string {
	t.Helper()
	a, err := tier.ParseAddress(addr)
	require.NoError(t, err)
	return a.LogKey()
}

func quoted(from, to int) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf("%q", fmt.Sprint(i)))
	}
	return all
}

func TestTail(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"plain": nil, "packs": {"--pack", "5"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := onShared(t)
			addr := numbers(t, p, 13, args...)
			require.Equal(t, quoted(4, 13), data(t, p.ok("tail", addr)), "ten by default")
			require.Equal(t, quoted(12, 13), data(t, p.ok("tail", addr, "-n", "2")))
			require.Equal(t, quoted(1, 13), data(t, p.ok("tail", addr, "--lines", "100")))
			require.Empty(t, p.ok("tail", addr, "-n", "0").out)
		})
	}
	require.Equal(t, 3, onShared(t).run("tail", scope(t)+"/none").code)
}

func TestTailFollow(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/lines"
	early := p.start("tail", addr, "--follow")
	early.said(addr + " does not exist yet: waiting for it")
	p.given("1\n2\n3\n").ok("produce", addr, "--pack", "3")
	for i := range 3 {
		require.Contains(t, early.line(), fmt.Sprintf(`"data":"%d"`, i+1))
	}

	late := p.start("tail", addr, "-f", "-n", "1")
	require.Contains(t, late.line(), `"data":"3"`)
	none := p.start("tail", addr, "-f", "-n", "0", "--metrics", ":0")
	none.said("metrics: http://127.0.0.1:")
	tiertest.Eventually(t, limit/2, func() (bool, string) { // it has looked where the end is
		list := raw(t, shared, "CLIENT", "LIST")
		return strings.Count(list, "cmd=xread") >= 3, list
	})
	p.given("4\n").ok("produce", addr)
	for _, running := range []*process{early, late, none} {
		require.Contains(t, running.line(), `"data":"4"`)
		r := running.interrupted()
		require.Equal(t, 130, r.code, r.errOut)
		require.Empty(t, r.out)
	}

	r := p.run("tail", addr, "-f", "-n", "0", "--timeout", "300ms")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.errOut, "pipeline: nothing came within --timeout 300ms: give it longer")
	require.Zero(t, p.run("tail", addr, "-f", "-n", "1", "--timeout", "3s").code, "something came")
}

func TestRange(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"plain": nil, "packs": {"--pack", "5"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := onShared(t)
			addr := numbers(t, p, 15, args...)
			all := messages(t, p.ok("range", addr))
			require.Len(t, all, 15)
			ask := func(args ...string) []string { return data(t, p.ok(append([]string{"range", addr}, args...)...)) }

			require.Equal(t, quoted(3, 7), ask("--from", all[2].ID, "--to", all[6].ID), "both ends included")
			require.Equal(t, quoted(6, 15), ask("--from", all[5].Time), "a millisecond by its time")
			require.Equal(t, quoted(1, 10), ask("--to", all[9].Time))
			require.Equal(t, quoted(6, 10), ask("--from", all[5].Time, "--to", all[9].Time))
			require.Equal(t, quoted(1, 15), ask("--from", "0-0"))
			require.Equal(t, quoted(1, 15), ask("--from", "1h"))
			require.Equal(t, quoted(1, 15), ask("--from", "1d", "--to", "2999-01-01"))
			require.Empty(t, ask("--to", "1h"))
			require.Equal(t, quoted(1, 4), ask("--limit", "4"))
			require.Equal(t, "15\n", p.ok("range", addr, "--count").out)
			require.Equal(t, "5\n", p.ok("range", addr, "--count", "--from", all[5].ID, "--to", all[9].ID).out)
			require.Equal(t, "4\n", p.ok("range", addr, "--count", "--limit", "4", "--output", "json").out)
			require.Equal(t, "0\n", p.ok("range", addr, "--count", "--from", "2999-01-01").out)
			require.Equal(t, quoted(3, 7), ask("--from", all[2].Entry, "--to", all[6].Entry), "as the program shows them")
			require.Equal(t, quoted(6, 15), ask("--from", all[5].Entry), "the first of a pack")
			require.Equal(t, quoted(1, 8), ask("--to", all[7].Entry))
			require.Equal(t, 2, p.run("range", addr, "--from", all[7].Entry, "--to", all[6].Entry).code)
			plainEntry, _, _ := strings.Cut(all[14].Entry, "#")
			require.Contains(t, ask("--from", plainEntry), `"15"`)
		})
	}

	p := onShared(t)
	addr := numbers(t, p, 1)
	require.Equal(t, 3, p.run("range", addr, "--from", messages(t, p.ok("range", addr))[0].Entry+"#1").code, "no pack")
	other := messages(t, p.ok("range", numbers(t, p, 1)))[0].ID
	r := p.run("range", addr, "--from", other)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "id "+other+" is not of "+addr+", whose ids begin with NUM")
	require.Equal(t, 3, p.run("range", addr+"x").code)

	raw(t, shared, "XADD", logKey(t, addr), "*", "other", "program", "other", "twice")
	foreign := messages(t, p.ok("range", addr))[1]
	require.Empty(t, foreign.ID)
	require.Equal(t, []string{"other", "program", "other", "twice"}, foreign.Fields)
	raw(t, shared, "XADD", logKey(t, addr), "*", "m", "\xc1")
	broken := messages(t, p.ok("range", addr))[2]
	require.Regexp(t, `^NUM`, broken.ID)
	require.Contains(t, broken.Error, "undecodable")
	require.Equal(t, "base64", broken.Encoding)
	require.Contains(t, p.ok("range", addr, "--output", "text").out, "(undecodable)")
}

func TestRangeOfWhatWasTrimmed(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 10)
	first := messages(t, p.ok("range", addr))[0]
	raw(t, shared, "XTRIM", logKey(t, addr), "MAXLEN", "=", "5")
	require.Len(t, p.ok("range", addr).lines(), 5, "what there is")
	r := p.run("range", addr, "--from", first.ID)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "has been trimmed; it begins at")
	r = p.run("get", first.ID)
	require.NotZero(t, r.code)
	require.Contains(t, r.errOut, "has been trimmed; it begins at")
}

// What stands at the edge of what was trimmed is still there.
func TestGetAtTheEdge(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 10)
	all := messages(t, p.ok("range", addr))
	raw(t, shared, "XTRIM", logKey(t, addr), "MAXLEN", "=", "5")
	for _, m := range all[5:] {
		require.Equal(t, string(m.Data), data(t, p.ok("get", m.ID))[0])
		require.Equal(t, string(m.Data), data(t, p.ok("get", m.Entry, addr))[0])
	}
	require.Equal(t, quoted(6, 10), data(t, p.ok("range", addr, "--from", all[5].ID)))
	require.Equal(t, 1, p.run("range", addr, "--from", all[4].ID).code)
}

func TestGet(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"plain": nil, "packs": {"--pack", "5"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := onShared(t)
			addr := numbers(t, p, 12, args...)
			history := p.ok("range", addr).lines()
			for i, m := range messages(t, p.ok("range", addr)) {
				want := history[i] + "\n"
				require.Equal(t, want, p.ok("get", m.ID).out, "by its id alone")
				require.Equal(t, want, p.ok("get", m.ID, addr).out)
				require.Contains(t, p.ok("get", m.ID, "--output", "text").out, "\ndata     "+string(m.Data)+"\n")
				require.Equal(t, want, p.ok("get", m.Entry, addr).out)
			}
		})
	}
	p := onShared(t)
	s := scope(t)
	p.given("x\n").ok("produce", s+"/a", "--brand", "AAA")
	p.given("x\n").ok("produce", s+"/b", "--brand", "BBB")
	id := messages(t, p.ok("range", s+"/a"))[0].ID
	parsed, err := codec.Parse(id)
	require.NoError(t, err)
	next, err := codec.NewID("AAA", parsed.Snowflake()+1)
	require.NoError(t, err)
	minted, err := codec.NewIDAt("AAA", parsed.UnixMs(), codec.MaxNode, 0)
	require.NoError(t, err)
	for _, tc := range []struct{ args, want string }{
		{id + " " + s + "/b", "no message with this id: " + id + " is not of " + s + "/b"},
		{"CCC" + id[3:], "no stream of scope " + s + " has brand CCC"},
		{next.String(), "no message with this id"},
		{minted.String(), "its node number 1023 is that of a process that mints ids"},
		{"1-0 " + s + "/a", "1-0"},
		{messages(t, p.ok("range", s+"/a"))[0].Entry + "#1 " + s + "/a", "#1"},
		{id + " " + s + "/none", "no such stream: append to it first, or check the address (" + s + "/none)"},
	} {
		r := p.run(append([]string{"get"}, strings.Fields(tc.args)...)...)
		require.Equal(t, 3, r.code, "%s: %s", tc.args, r.errOut)
		require.Contains(t, r.errOut, tc.want)
	}
	r := onServer(t, tiertest.Private(t, tiertest.Valkey).URL()).run("get", id)
	require.Equal(t, 3, r.code)
	require.Contains(t, r.errOut, fmt.Sprintf("no scope of this server has node number %d", parsed.Node()))
}

func TestOutputClosed(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 5)
	p.file("many", strings.Repeat("a line that is long enough to fill the pipe soon\n", 5000))
	p.ok("produce", addr, "many")
	running := p.start("range", addr)
	running.line()
	require.NoError(t, running.closeOutput())
	require.Zero(t, exitCode(t, running.cmd.Wait()))
	require.NotContains(t, running.errOut(), "broken pipe")

	running = p.start("consume", addr, "--group", "g")
	running.line()
	require.NoError(t, running.closeOutput())
	require.Zero(t, exitCode(t, running.cmd.Wait()))
	require.Contains(t, p.ok("groups", addr).out, `"pending":`)
	require.NotContains(t, p.ok("groups", addr).out, `"lag":0,`, "what could not be printed is not taken")
}

func TestTimes(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 1)
	m := messages(t, p.ok("range", addr))[0]
	at, err := time.Parse(time.RFC3339, m.Time)
	require.NoError(t, err)
	zone := time.FixedZone("", 3600)
	require.Equal(t, "1\n", p.ok("range", addr, "--count", "--from", at.In(zone).Format(time.RFC3339Nano), "--to", at.In(zone).Format(time.RFC3339Nano)).out)
	require.Equal(t, "1\n", p.ok("range", addr, "--count", "--from", at.Format("2006-01-02 15:04")).out)
	require.Equal(t, "1\n", p.ok("range", addr, "--count", "--from", at.Format("2006-01-02")).out)
	require.Equal(t, "0\n", p.ok("range", addr, "--count", "--to", at.Add(-time.Millisecond).Format("2006-01-02T15:04:05.000Z")).out)
	for _, layout := range []string{"2006-01-02", "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04:05Z"} {
		require.Equal(t, "1\n", p.ok("range", addr, "--count", "--to", at.Format(layout)).out, "to the end of "+layout)
		require.Equal(t, "1\n", p.ok("range", addr, "--count", "--from", at.Format(layout), "--to", at.Format(layout)).out, layout)
	}
	require.Equal(t, "0\n", p.ok("range", addr, "--count", "--to", at.AddDate(0, 0, -1).Format("2006-01-02")).out)
}
