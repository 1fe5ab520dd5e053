package main_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// worker is a member of a queue of the shared server.
func worker(t testing.TB, name string) *queue.Member {
	t.Helper()
	w, err := queue.NewWorkers(tiertest.Dial(t, shared), queue.WorkersConfig{Queue: name, Lease: time.Minute})
	require.NoError(t, err)
	m, err := w.Join(t.Context(), "w")
	require.NoError(t, err)
	return m
}

// buried lets n jobs of a queue die, and returns their ids.
func buried(t testing.TB, name string, n int, reason string) (ids []string) {
	t.Helper()
	m := worker(t, name)
	leased, err := m.Read(t.Context(), n, 0)
	require.NoError(t, err)
	require.Len(t, leased, n)
	for _, l := range leased {
		letter := tier.Letter{Index: -1, Reason: reason, Attempts: 1}
		require.NoError(t, m.Commit(t.Context(), []tier.Ending{{Entry: l.Entry, Deliveries: 1, Dead: []tier.Letter{letter}}}))
		ids = append(ids, l.Records[0].ID.String())
	}
	return ids
}

func TestJobsEnqueue(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	one := object(t, p.ok("jobs", "enqueue", q, "--type", "welcome", "--data", `{"to":"ann"}`, "--delay", "1h", "--unique", "ann", "--lane", "slow", "--max-attempts", "3"))
	require.Equal(t, map[string]any{"job": one["job"], "queue": q, "lane": "slow", "existing": false}, one)
	again := p.ok("jobs", "enqueue", q, "--type", "welcome", "--data", `{"to":"ann"}`, "--unique", "ann", "--output", "text")
	require.Equal(t, one["job"].(string)+" (existing)\n", again.out)
	shown := object(t, p.ok("jobs", "show", q, "--id", one["job"].(string)))
	require.Equal(t, "scheduled", shown["state"])
	require.Equal(t, map[string]any{"type": "welcome", "key": "", "headers": map[string]any{"content-type": "application/json"}, "data": map[string]any{"to": "ann"}}, shown["message"])

	var csv strings.Builder
	csv.WriteString("to,n\n")
	for i := range 2500 { // more than two calls
		fmt.Fprintf(&csv, "bob,%d\n", i)
	}
	p.file("users.csv", csv.String())
	require.Len(t, p.ok("jobs", "enqueue", q, "users.csv", "--type", "welcome", "--key", "to").lines(), 2500)
	bad := p.given("{\"n\":1}\n{\n").run("jobs", "enqueue", q, "--type", "t", "--format", "json")
	require.Equal(t, 1, bad.code)
	require.Len(t, bad.lines(), 1)
	require.Contains(t, bad.errOut, "-:2: not JSON")
	require.Contains(t, bad.errOut, "1 line of - refused")
	counts, err := jobsOf(t, q).Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, queue.Counts{Ready: 2501, Scheduled: 1}, counts)
	require.Equal(t, 3, p.run("jobs", "enqueue", q, "none.csv", "--type", "t").code)
}

func TestJobsListAndShow(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.given("1\n2\n3\n4\n").ok("jobs", "enqueue", q, "--type", "t", "--lane", "a")
	p.given("5\n").ok("jobs", "enqueue", q, "--type", "later", "--at", "2100-01-01")
	dead := buried(t, q, 2, "no such customer")
	m := worker(t, q)
	_, err := m.Read(t.Context(), 1, 0)
	require.NoError(t, err)

	states := func(args ...string) (states string) {
		for _, line := range p.ok(append([]string{"jobs", "ls", q}, args...)...).lines() {
			states += object(t, result{out: line + "\n"})["state"].(string) + " "
		}
		return states
	}
	require.Equal(t, "active ready scheduled dead dead ", states())
	require.Equal(t, "active dead dead ", states("--state", "active", "--state", "dead"))
	require.Equal(t, "active ready dead dead ", states("--lane", "a"))
	require.Equal(t, "scheduled ", states("--match", "later"))
	require.Equal(t, "dead ", states("--match", "customer", "--limit", "1"))
	require.Contains(t, p.ok("jobs", "ls", q, "--state", "retry", "--output", "text").errOut, "no such jobs in "+q)
	require.Regexp(t, `^\{"job":"`+dead[0]+`","queue":"`+q+`","state":"dead","lane":"a","attempts":1,"at":"20[^"]+","reason":"no such customer","message":\{"type":"t",.*\}\}$`,
		p.ok("jobs", "ls", q, "--state", "dead").lines()[0])
	table := p.ok("jobs", "ls", q, "--output", "text").out
	require.Regexp(t, `(?m)^JOB +STATE +LANE +TYPE +KEY +ATTEMPTS +WHEN +WORKER OR REASON$`, table)
	require.Regexp(t, `(?m)^JOB\w{11} +active +a +t +1 +\S+ +`+m.Name()+`$`, table)
	require.Regexp(t, `(?m)^`+dead[0]+` +dead +a +t +1 +\S+ +no such customer$`, table)

	text := p.ok("jobs", "show", q, "--id", dead[0], "--output", "text").out
	require.Regexp(t, `(?s)^job +`+dead[0]+`\nstate +dead\nlane +a\nattempts +1\nat +\S+\nreason +no such customer\n\{\n  "type": "t",.*"data": "1"\n\}\n$`, text)
	kept := object(t, p.ok("jobs", "enqueue", q, "--type", "t", "--data", "1", "--keep", "1h", "--lane", "kept"))["job"].(string)
	var last []tier.Leased
	for len(last) < 2 { // lanes take turns
		more, err := m.Read(t.Context(), 10, time.Second)
		require.NoError(t, err)
		last = append(last, more...)
	}
	for _, l := range last {
		require.NoError(t, m.Commit(t.Context(), []tier.Ending{{Entry: l.Entry, Deliveries: 1}}))
	}
	require.Equal(t, "done", object(t, p.ok("jobs", "show", q, "--id", kept))["state"])
	require.Equal(t, 3, p.run("jobs", "show", q, "--id", last[0].Records[0].ID.String()).code, "nothing is kept of it")
}

func TestJobsChange(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.given("1\n2\n3\n").ok("jobs", "enqueue", q, "--type", "t", "--lane", "a")
	dead := buried(t, q, 3, "timeout")
	plan := object(t, p.ok("jobs", "retry", q, "--match", "timeout", "--dry-run"))
	require.Equal(t, map[string]any{"action": "retry-jobs", "dry_run": true, "queue": q, "chosen": 3.0, "changed": 0.0, "told": 0.0, "gone": 0.0, "active": 0.0}, plan)
	r := p.onTerminal("no\n", "jobs", "retry", q, "--all")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "would retry 3 jobs of "+q)
	require.Len(t, p.ok("jobs", "ls", q, "--state", "dead").lines(), 3, "nothing was changed")
	require.Equal(t, "retried 2 jobs of "+q+"\n", p.ok("jobs", "retry", q, "--id", dead[0], "--id", dead[1], "--yes", "--output", "text").out)
	again := p.run("jobs", "retry", q, "--id", dead[0], "--yes")
	require.Equal(t, 3, again.code)
	require.Contains(t, again.errOut, "1 job of 1 not there")

	require.EqualValues(t, 1, object(t, p.ok("jobs", "rm", q, "--state", "dead", "--yes"))["changed"])
	m := worker(t, q)
	_, err := m.Due(t.Context(), 10)
	require.NoError(t, err)
	leased, err := m.Read(t.Context(), 1, 0)
	require.NoError(t, err)
	require.Len(t, leased, 1)
	active := leased[0].Records[0].ID.String()
	stays := p.run("jobs", "rm", q, "--id", active, "--yes")
	require.Equal(t, 1, stays.code)
	require.Contains(t, stays.errOut, "1 job of 1 stay, since workers have them")
	told := object(t, p.ok("jobs", "cancel", q, "--all", "--reason", "withdrawn", "--yes"))
	require.EqualValues(t, 2, told["changed"])
	require.EqualValues(t, 1, told["told"])
	_, err = m.Renew(t.Context(), entriesOf(leased))
	require.NoError(t, err)
	require.Equal(t, "withdrawn", m.Cancelled()[leased[0].Entry])
}

func entriesOf(leased []tier.Leased) (entries []codec.EntryID) {
	for i := range leased {
		entries = append(entries, leased[i].Entry)
	}
	return entries
}

func TestJobsNotes(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	id := object(t, p.ok("jobs", "enqueue", q, "--type", "t", "--data", `{"to":"ann"}`))["job"].(string)
	updated := object(t, p.ok("jobs", "update", q, "--id", id, "--data", `{"to":"bob"}`, "--type", "u"))
	require.Equal(t, map[string]any{"action": "update-job", "job": id, "queue": q}, updated)
	require.Empty(t, p.ok("jobs", "logs", q, "--id", id).out)

	jobs, m := jobsOf(t, q), worker(t, q)
	leased, err := m.Read(t.Context(), 1, 0)
	require.NoError(t, err)
	require.Equal(t, "u", leased[0].Records[0].Type)
	require.NoError(t, m.Progress(t.Context(), leased[0].Entry, []byte("half")))
	for range 3 {
		_, err = jobs.Log(t.Context(), leased[0].Records[0].ID, 2, "sent \x1b[31mone")
		require.NoError(t, err)
	}
	shown := object(t, p.ok("jobs", "show", q, "--id", id))
	require.Equal(t, map[string]any{"to": "bob"}, shown["message"].(map[string]any)["data"])
	require.Equal(t, "half", shown["progress"])
	require.Regexp(t, `(?m)^progress half\nnoted    20\S+\nlog      2 lines$`, p.ok("jobs", "show", q, "--id", id, "--output", "text").out)
	text := p.ok("jobs", "logs", q, "--id", id, "--output", "text")
	require.Regexp(t, `^(20\S+  sent \\x1b\[31mone\n){2}$`, text.out)
	require.Contains(t, text.errOut, "1 line before these dropped")
	require.Equal(t, "sent \x1b[31mone", object(t, result{out: p.ok("jobs", "logs", q, "--id", id).lines()[0] + "\n"})["line"])

	stays := p.run("jobs", "update", q, "--id", id, "--data", "1")
	require.Equal(t, 1, stays.code)
	require.Contains(t, stays.errOut, id+" stays as it is, since a worker has it")
	_, err = m.Settle(t.Context(), entriesOf(leased))
	require.NoError(t, err)
	for _, verb := range []string{"logs", "update"} {
		args := []string{"jobs", verb, q, "--id", id}
		if verb == "update" {
			args = append(args, "--data", "1")
		}
		require.Equal(t, 3, p.run(args...).code, verb)
	}
}
