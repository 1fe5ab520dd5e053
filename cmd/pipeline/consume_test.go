package main_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestConsumeStart(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 10)
	all := messages(t, p.ok("range", addr))
	for _, tc := range []struct {
		start string
		want  []string
	}{
		{"", quoted(1, 10)},
		{"head", quoted(1, 10)},
		{"new", nil},
		{all[3].ID, quoted(4, 10)},
		{all[3].Entry, quoted(4, 10)},
		{all[5].Time, quoted(6, 10)},
		{"1h", quoted(1, 10)},
	} {
		t.Run(tc.start, func(t *testing.T) {
			t.Parallel()
			args := []string{"consume", addr, "--group", tiertest.Scope(t), "--wait", "300ms"}
			if tc.start != "" {
				args = append(args, "--start", tc.start)
			}
			r := p.run(args...)
			require.Equal(t, tc.want, data(t, r))
			if tc.want == nil {
				require.Equal(t, 4, r.code)
				require.Contains(t, r.errOut, "pipeline: nothing came within --wait 300ms")
				return
			}
			require.Zero(t, r.code, r.errOut)
			require.Contains(t, r.errOut, fmt.Sprintf("pipeline: %d messages handled by group ", len(tc.want)))
		})
	}
	packs := numbers(t, p, 10, "--pack", "5")
	for i, m := range messages(t, p.ok("range", packs)) {
		r := p.ok("consume", packs, "--group", fmt.Sprint("from-", i), "--count", strconv.Itoa(10-i), "--start", m.Entry)
		require.Equal(t, quoted(i+1, 10), data(t, r), "an entry as messages show it")
	}
	r := p.run("consume", addr, "--group", "g", "--start", "XXX"+all[0].ID[3:])
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "is not of "+addr)
	require.Equal(t, 3, p.run("consume", addr+"x", "--group", "g", "--start", all[0].ID).code)
}

func TestConsumeCount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want []int // messages of three runs with --count 4
	}{
		"plain": {nil, []int{4, 4, 2}},
		"packs": {[]string{"--pack", "5"}, []int{5, 5, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := onShared(t)
			addr := numbers(t, p, 10, tc.args...)
			next := 1
			for _, n := range tc.want {
				r := p.run("consume", addr, "--group", "g", "--count", "4", "--wait", "300ms")
				require.Len(t, r.lines(), n)
				if n > 0 {
					require.Equal(t, quoted(next, next+n-1), data(t, r))
				}
				next += n
				require.Equal(t, map[bool]int{true: 0, false: 4}[n > 0], r.code)
				require.Contains(t, p.ok("groups", addr).out, `"pending":0`, "no more is taken than was asked for")
			}
		})
	}
}

// With an order, the command that fails at first is run again before those of what stands behind it; with none it is not.
func TestConsumeInOrder(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	for _, order := range []string{"none", "key", "strict"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			addr := numbers(t, p, 5)
			dir := t.TempDir()
			script := filepath.Join(dir, "handle")
			require.NoError(t, os.WriteFile(script, []byte(`#!/bin/sh
n=$(grep -o '"data":"*[0-9]*' | tr -dc 0-9)
cd "$(dirname "$0")" && echo "$n" >> seen
test "$n" != 2 || test -e failed || { touch failed; exit 1; }
`), 0o700))
			r := p.run("consume", addr, "--group", "g", "--order", order, "--backoff", "50ms", "--count", "5", "--exec", script)
			require.Zero(t, r.code, r.errOut)
			seen, err := os.ReadFile(filepath.Join(dir, "seen"))
			require.NoError(t, err)
			if order == "strict" {
				require.Equal(t, "1 2 2 3 4 5", strings.Join(strings.Fields(string(seen)), " "))
			} else {
				require.Len(t, strings.Fields(string(seen)), 6)
			}
		})
	}
	for _, args := range [][]string{{"--order", "keys"}, {"--order", "strict", "--concurrency", "2"}} {
		r := p.run(append([]string{"consume", "shop/orders", "--group", "g"}, args...)...)
		require.Equal(t, 2, r.code)
		require.Contains(t, r.errOut, "--order")
	}
}

// TestConsumeExclusive: of several, one handles everything, in order; when it is killed, another goes on.
func TestConsumeExclusive(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 500)
	one := func(args ...string) *process {
		return p.start(append([]string{"consume", addr, "--group", "g", "--exclusive", "--order", "strict"}, args...)...)
	}
	first := one("--count", "200")
	handled := first.line() // it is the owner now; the other one stands by, and does not fill its pipe
	second := one("--wait", "5s")
	rest := first.wait()
	rest.out = handled + "\n" + rest.out
	got := append(data(t, rest), data(t, second.wait())...)
	slices.SortFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	require.Equal(t, quoted(1, 500), got, "each once")
	r := p.run("consume", addr, "--group", "g", "--wait", "100ms")
	require.NotZero(t, r.code)
	require.Contains(t, r.errOut, "give --exclusive", "a group of that name")
}

func TestConsumeShares(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	const n = 2000
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, i)
	}
	addr := scope(t) + "/numbers"
	p.given(lines.String()).ok("produce", addr)
	first := p.start("consume", addr, "--group", "g", "--wait", "1s", "--concurrency", "4")
	second := p.start("consume", addr, "--group", "g", "--wait", "1s")
	got := append(data(t, first.wait()), data(t, second.wait())...)
	slices.Sort(got)
	require.Len(t, slices.Compact(got), n)
	require.Contains(t, p.ok("groups", addr).out, `"lag":0,"lag_exact":true,"pending":0,"parked":0,"consumers":0,`)
}

// TestConsumeWaitsForAServer: that nothing came while the server was away says nothing of what is left.
func TestConsumeWaitsForAServer(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, s.URL())
	addr := numbers(t, p, 3)
	running := p.start("consume", addr, "--group", "g", "--wait", "5s")
	for range 3 {
		running.line()
	}
	parsed, err := tier.ParseAddress(addr)
	require.NoError(t, err)
	tiertest.Eventually(t, 10*time.Second, func() (bool, string) {
		reply := s.Command(t, "XPENDING", parsed.LogKey(), "g")
		pending, err := reply.ToAny()
		require.NoError(t, err)
		return pending.([]any)[0] == int64(0), fmt.Sprint(pending)
	})
	s.Kill()
	running.said("the server does not answer, it is tried again")
	require.Equal(t, 1, exitCode(t, running.cmd.Wait()))
	require.Contains(t, running.errOut(), "pipeline: --wait 5s is over, and the server does not answer: nobody knows what is left")
}

func TestConsumeInterrupted(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 3)
	running := p.start("consume", addr, "--group", "g", "--metrics", ":0")
	for i := range 3 {
		require.Contains(t, running.line(), fmt.Sprintf(`"data":"%d"`, i+1))
	}
	body := scrape(t, running)
	require.Contains(t, body, "echomq_consumer_")
	require.Contains(t, body, "echomq_stream_group_lag_entries{")
	require.Contains(t, body, "go_goroutines")
	r := running.interrupted()
	require.Equal(t, 130, r.code)
	require.Contains(t, r.errOut, "3 messages handled")
	require.Contains(t, p.ok("groups", addr).out, `"pending":0,"parked":0,"consumers":0,`)

	r = p.run("consume", addr, "--group", "g", "--timeout", "300ms")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.errOut, "nothing came within --timeout 300ms")
	require.Zero(t, p.run("consume", addr, "--group", "h", "--timeout", "3s").code)
}

// TestConsumeMetrics: a consumer of a cursor serves what stands in docs/processing.md, and calls nothing a group that is none.
func TestConsumeMetrics(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 3)
	p.ok("consume", addr, "--group", "mailer", "--count", "1")
	running := p.start("consume", addr, "--group", "ledger", "--exclusive", "--metrics", ":0")
	require.Contains(t, running.line(), `"data":"1"`)
	body := scrape(t, running)
	for _, series := range []string{
		`echomq_consumer_in_flight_messages{cursor="ledger",group="",`, `echomq_stream_cursor_owned{cursor="ledger",`, `echomq_stream_group_lag_entries{group="mailer",`,
	} {
		require.Contains(t, body, series)
	}
	require.NotContains(t, body, `group="ledger"`)
	document, err := os.ReadFile("../../docs/processing.md")
	require.NoError(t, err)
	names := regexp.MustCompile(`echomq_(consumer|stream)_\w+`).FindAllString(string(document), -1)
	require.Greater(t, len(names), 5)
	for _, name := range names {
		require.Contains(t, body, "\n"+name)
	}
	r := running.interrupted()
	require.Contains(t, r.errOut, "handled by cursor ledger of "+addr)
}

func TestExec(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 3)
	p.env = append(p.env, "LANG=C", "SECRET=hunter2")
	r := p.ok("consume", addr, "--group", "cat", "--count", "3", "--exec", "cat")
	require.Equal(t, p.ok("range", addr).out, r.out, "the JSON is on the command's standard input")

	r = p.ok("consume", addr, "--group", "env", "--count", "1", "--exec", "env")
	var names []string
	for _, line := range r.lines() {
		name, value, _ := strings.Cut(line, "=")
		names = append(names, name)
		if name == "PIPELINE_MESSAGE_ID" {
			require.Equal(t, messages(t, p.ok("range", addr))[0].ID, value)
		}
	}
	slices.Sort(names)
	require.Equal(t, []string{"HOME", "LANG", "PATH", "PIPELINE_MESSAGE_ID"}, names)

	r = p.ok("consume", addr, "--group", "words", "--count", "1", "--exec", `printf '%s|' "a b" $HOME ; '*'`)
	require.Equal(t, "a b|$HOME|;|*|", r.out, "no shell")
	r = p.ok("consume", addr, "--group", "shell", "--count", "3", "--concurrency", "3", "--exec", `sh -c 'cat >> "$HOME/$PIPELINE_MESSAGE_ID"'`)
	for i, m := range messages(t, p.ok("range", addr)) {
		text, err := os.ReadFile(filepath.Join(p.dir, m.ID))
		require.NoError(t, err)
		require.Equal(t, p.ok("range", addr).lines()[i]+"\n", string(text))
	}
	require.Empty(t, r.out)
}

// A command that fails gets its message again, until it does what it should.
func TestExecFails(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 3)
	r := p.ok("consume", addr, "--group", "g", "--count", "3", "--exec",
		`sh -c 'f="$HOME/$PIPELINE_MESSAGE_ID"; test -e "$f" && exit 0; touch "$f"; echo no >&2; exit 7'`)
	require.Contains(t, r.errOut, "no\n")
	require.Regexp(t, `pipeline: warning: the command failed, the message comes again \(entry \d+-\d+, attempt 1\): NUM\w{11}: \S*/sh: exit status 7\n`, r.errOut)
	require.Contains(t, p.ok("groups", addr).out, `"lag":0,"lag_exact":true,"pending":0,`)

	r = p.run("consume", addr, "--group", "h", "--wait", "1s", "--exec", "false")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `pipeline: [123] messages? failed and will come again, to any consumer of the group: 'pipeline groups \S+' shows what is parked\n$`, r.errOut)
	h := object(t, result{out: p.ok("groups", addr).lines()[1]})
	require.Equal(t, "h", h["group"])
	require.NotEqual(t, "idle", h["state"])
	require.EqualValues(t, 3, h["pending"].(float64)+h["parked"].(float64))
}

// A stop lets the command that runs finish, and acknowledges its message.
func TestExecIsLetFinish(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 2)
	running := p.start("consume", addr, "--group", "g", "--exec", waitForGo)
	require.Equal(t, "begun", running.line())
	require.NoError(t, running.cmd.Process.Signal(os.Interrupt))
	running.said("stopping: 1 message let finish")
	p.file("go", "")
	r := running.wait()
	require.Equal(t, 130, r.code, r.errOut)
	require.Equal(t, "done\n", r.out)
	require.Contains(t, r.errOut, "1 message handled")
	require.Equal(t, quoted(2, 2), data(t, p.ok("consume", addr, "--group", "g", "--count", "1")), "what was not begun is there for others")
	require.Contains(t, p.ok("groups", addr).out, `"lag":0,"lag_exact":true,"pending":0,`)
}

// kill -9 loses nothing: what the dead one held is pending.
func TestConsumerKilled(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 4)
	running := p.start("consume", addr, "--group", "g", "--exec", waitForGo)
	require.Equal(t, "begun", running.line())
	tiertest.Eventually(t, limit, func() (bool, string) { // the others are fetched while it runs
		out := p.ok("groups", addr).out
		return strings.Contains(out, `"pending":4`), out
	})
	require.NoError(t, running.cmd.Process.Kill())
	p.file("go", "")
	running.wait()
	require.Regexp(t, `\ng +active +0 +4 +0 +1 +0 +- +[\d.]+m?s +- +- +- +30s +- +-\n`, p.ok("groups", addr, "--output", "text").out)
}

// waitForGo is a command that says when it has begun, and ends when there is a file.
const waitForGo = `sh -c 'echo begun; while ! test -e "$HOME/go"; do sleep 0.01; done; echo done'`

// A consumer with a slow command leaves a share to one that joins later.
func TestSlowConsumerShares(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	var lines strings.Builder
	for i := range 150 {
		fmt.Fprintln(&lines, i)
	}
	addr := scope(t) + "/numbers"
	p.given(lines.String()).ok("produce", addr)
	args := []string{"consume", addr, "--group", "g", "--wait", "1s", "--exec", "sh -c 'echo done; sleep 0.05'"}
	first := p.start(args...)
	require.Equal(t, "done", first.line())
	second := len(p.ok(args...).lines())
	require.Greater(t, second, 30)
	require.Equal(t, 149-second, len(first.wait().lines()))
}

// What cannot be printed ends the command, and goes back to the group.
func TestOutputFull(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	p := onShared(t)
	addr := numbers(t, p, 3)
	for _, args := range [][]string{
		{"consume", addr, "--group", "g"},
		{"consume", addr, "--group", "g", "--concurrency", "3"},
		{"range", addr},
		{"range", addr, "--count"},
		{"tail", addr, "--follow"},
		{"streams"},
	} {
		r := p.runInto(full, args...)
		require.Equal(t, 1, r.code, "%q: %s", args, r.errOut)
		require.Equal(t, 1, strings.Count(r.errOut, "standard output: no space left on device"), "%q: %s", args, r.errOut)
		require.NotContains(t, r.errOut, "comes again")
	}
	require.ElementsMatch(t, quoted(1, 3), data(t, p.ok("consume", addr, "--group", "g", "--count", "3")))
}
