package main_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// letter is a dead letter in JSON.
type letter struct {
	Letter   string
	Attempts int
	Reason   string
	Message  struct {
		ID, Entry, Type, Key string
		Data                 any
	}
}

func lettersOf(t testing.TB, r result) (list []letter) {
	t.Helper()
	for _, line := range r.lines() {
		var l letter
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		list = append(list, l)
	}
	return list
}

// give makes the group g give up the next n entries, with these reasons in turn.
func give(t testing.TB, addr string, n int, reasons ...string) {
	t.Helper()
	g, err := stream.NewGroup(tiertest.Dial(t, shared), stream.GroupConfig{Address: addr, Name: "g", Start: stream.Head()})
	require.NoError(t, err)
	m, err := g.Join(t.Context(), "m")
	require.NoError(t, err)
	leased, err := m.Read(t.Context(), n, 0)
	require.NoError(t, err)
	require.Len(t, leased, n)
	var list []tier.Ending
	for i, l := range leased {
		list = append(list, tier.Ending{Entry: l.Entry, Deliveries: l.Deliveries, Dead: []tier.Letter{{Index: -1, Reason: reasons[i%len(reasons)], Attempts: 3}}})
	}
	require.NoError(t, m.Commit(t.Context(), list))
	require.NoError(t, m.Leave(t.Context()))
}

func TestDead(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := numbers(t, p, 5, "--type", "number.made")
	all := messages(t, p.ok("range", addr))
	of := func(command string, args ...string) []string {
		return append([]string{"dead", command, addr, "--group", "g"}, args...)
	}
	require.Equal(t, 3, p.run(of("ls")...).code, "no such group")
	give(t, addr, 4, "refused: \x1b[2J", strings.Repeat("timeout ", 40))
	letters := lettersOf(t, p.ok(of("ls")...))
	require.Len(t, letters, 4)
	for i, l := range letters {
		require.Equal(t, all[i].ID, l.Message.ID)
		require.Equal(t, fmt.Sprint(i+1), l.Message.Data)
		require.Equal(t, 3, l.Attempts)
	}
	require.Equal(t, "refused: \x1b[2J", letters[0].Reason)
	text := p.ok(of("ls", "--output", "text")...)
	require.Regexp(t, `^LETTER +MESSAGE +TYPE +KEY +ATTEMPTS +AGE  REASON\n`+letters[0].Letter+` +`+all[0].ID+` +number\.made +3 +[\d.µms]+  refused: \\x1b\[2J\n`, text.out)
	require.Len(t, p.ok(of("ls", "--match", "timeout", "--limit", "1")...).lines(), 1)
	require.Len(t, p.ok(of("ls", "--match", "number.made")...).lines(), 4)
	for _, id := range []string{letters[1].Letter, all[1].ID} {
		one := p.ok(of("show", "--id", id, "--output", "text")...).out
		require.Contains(t, one, "letter   "+letters[1].Letter+"\ndead     2")
		require.Contains(t, one, "attempts 3\nreason   "+strings.Repeat("timeout ", 40)+"\nid       "+all[1].ID+"\n")
		require.Contains(t, one, "\ndata     \"2\"\n")
	}
	require.Equal(t, 3, p.run(of("show", "--id", all[4].ID)...).code)
	require.Regexp(t, `"pending":0,"parked":0,.*"dead":4,`, p.ok("groups", addr).out)

	require.Equal(t, "would redrive 2 dead letters of group g of "+addr+"\n", p.ok(of("redrive", "--match", "refused", "--dry-run", "--output", "text")...).out)
	require.Len(t, p.ok(of("ls")...).lines(), 4)
	require.EqualValues(t, 2, object(t, p.ok(of("redrive", "--match", "refused", "--yes")...))["redriven"])
	require.Regexp(t, `"state":"dead",.*"pending":0,"parked":2,.*"dead":2,`, p.ok("groups", addr).out)
	require.EqualValues(t, 0, object(t, p.ok(of("redrive", "--match", "refused", "--yes")...))["chosen"])
	require.Regexp(t, `"message":.*"id":"`+all[1].ID, p.ok(of("ls")...).lines()[0])
	r := p.ok("consume", addr, "--group", "g", "--count", "3")
	got := messages(t, r)
	require.ElementsMatch(t, []string{all[0].ID, all[2].ID, all[4].ID}, []string{got[0].ID, got[1].ID, got[2].ID})

	require.EqualValues(t, 1, object(t, p.ok(of("drop", "--id", all[1].ID, "--yes")...))["dropped"])
	require.Equal(t, 3, p.run(of("drop", "--id", all[1].ID, "--yes")...).code)
	raw(t, shared, "XTRIM", logKey(t, addr), "MAXLEN", "0")
	r = p.run(of("redrive", "--all", "--yes")...)
	require.Equal(t, 1, r.code)
	require.EqualValues(t, 1, object(t, result{out: r.out})["trimmed"])
	require.Contains(t, r.errOut, "1 dead letter of 1 stay: 1 ("+letters[3].Letter+", ...), their messages were trimmed")

	for _, typed := range []string{"\n", "y\n", addr + "\n"} {
		r = p.onTerminal(typed, of("drop", "--all")...)
		require.Equal(t, 1, r.code, r.out)
		require.Contains(t, r.out, "would drop 1 dead letter of group g of "+addr+"\nType g to go on: ")
	}
	r = p.onTerminal("g\n", of("drop", "--all")...)
	require.Zero(t, r.code, r.out)
	require.Contains(t, r.out, "dropped 1 dead letter of group g of "+addr)
	require.Empty(t, p.ok(of("ls")...).out)
	require.Contains(t, p.run(of("ls")...).errOut, "group g of "+addr+" has no dead letters")
}

// TestRedriveKilled (B114): a redrive of 1,000 that is killed in the middle leaves each message in one place, and the next
// one gets to its end.
func TestRedriveKilled(t *testing.T) {
	t.Parallel()
	const n = 1000
	addr := scope(t) + "/numbers"
	p := onShared(t)
	p.given(strings.Repeat("x\n", n)).ok("produce", addr)
	give(t, addr, n, "broken")
	at, err := tier.ParseAddress(addr)
	require.NoError(t, err)

	proxy := tiertest.NewProxy(t, shared)
	killed := make(chan *process, 1)
	var calls atomic.Int32
	proxy.DropReplies(n, func(cmd []string) bool {
		if slices.Contains(cmd, at.RetryKey("g")) && slices.Contains(cmd, at.DeadKey("g")) && calls.Add(1) == 5 {
			running := <-killed
			_ = running.cmd.Process.Signal(syscall.SIGKILL)
			killed <- running
		}
		return false
	})
	running := onServer(t, proxy.URL()).start("dead", "redrive", addr, "--group", "g", "--all", "--yes")
	killed <- running
	require.Negative(t, running.wait().code)

	places := func() (dead, parked int) {
		letters := lettersOf(t, p.ok("dead", "ls", addr, "--group", "g"))
		list := map[string]bool{}
		for _, l := range letters {
			list[l.Message.Entry] = true
		}
		ctx := t.Context()
		c, err := tiertest.Raw(shared)
		require.NoError(t, err)
		defer c.Close()
		entries, err := c.Do(ctx, c.B().Zrange().Key(at.RetryKey("g")).Min("0").Max("-1").Build()).AsStrSlice()
		require.NoError(t, err)
		for _, e := range entries {
			require.False(t, list[e], "%s is in two places", e)
			list[e] = true
		}
		require.Len(t, list, n)
		return len(letters), len(entries)
	}
	var dead, parked int
	tiertest.Eventually(t, limit, func() (bool, string) { // the last call may still be on its way
		before := parked
		dead, parked = places()
		return parked > 0 && parked == before, "nothing is parked"
	})
	require.Positive(t, dead)
	require.EqualValues(t, dead, object(t, p.ok("dead", "redrive", addr, "--group", "g", "--all", "--yes"))["redriven"])
	dead, parked = places()
	require.Zero(t, dead)
	require.Equal(t, n, parked)
	require.Len(t, p.ok("consume", addr, "--group", "g", "--count", fmt.Sprint(n)).lines(), n)
}
