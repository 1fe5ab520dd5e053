package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), tiertest.Scope(t)
	gone := p.run("queues", "show", q)
	require.Equal(t, 3, gone.code)
	require.Contains(t, gone.errOut, "there is no queue "+q)
	p.given("1\n2\n3\n").ok("jobs", "enqueue", q, "--type", "t", "--lane", "a")
	p.given("4\n").ok("jobs", "enqueue", q, "--type", "t", "--lane", "b")
	row := `{"queue":"` + q + `","state":"dead","ready":4,"active":0,"scheduled":0,"waiting":0,"dead":0,"workers":0,"schedules":0,"lease_seconds":0}`
	require.Equal(t, row+"\n", p.ok("queues", "show", q).out)
	require.Contains(t, p.ok("queues").lines(), row)
	require.Regexp(t, `(?m)^QUEUE +STATE +READY +ACTIVE +SCHEDULED +WAITING +DEAD +WORKERS +SCHEDULES +LEASE +CEILING +RATE\n(.*\n)*`+q+` +dead +4 +0 +0 +0 +0 +0 +0 +- +- +-$`, p.ok("queues", "ls", "--output", "text").out)
	require.Contains(t, p.ok("check", q).errOut, "everything holds")

	require.Equal(t, "paused queue "+q+"\n", p.ok("queues", "pause", q, "--output", "text").out)
	require.Equal(t, `{"action":"pause-queue","queue":"`+q+`","changed":false}`+"\n", p.ok("queues", "pause", q).out)
	require.Contains(t, p.ok("queues", "show", q).out, `"state":"paused"`)
	require.Equal(t, "resumed queue "+q+"\n", p.ok("queues", "resume", q, "--output", "text").out)

	set := object(t, p.ok("queues", "set", q, "--ceiling", "7", "--rate", "1000/1m"))
	require.Equal(t, []any{7.0, 1000.0, 60.0}, []any{set["ceiling"], set["rate_jobs"], set["rate_seconds"]})
	require.Equal(t, set, object(t, p.ok("queues", "show", q)))
	require.Regexp(t, `\n`+q+` .* - +7 +-\n?$`, p.ok("queues", "set", q, "--rate", "none", "--output", "text").out, "the ceiling stays")
	require.Equal(t, row+"\n", p.ok("queues", "set", q, "--ceiling", "none").out)

	require.EqualValues(t, 3, object(t, p.ok("queues", "drain", q, "--lane", "a", "--dry-run"))["jobs"])
	require.EqualValues(t, 3, object(t, p.ok("queues", "drain", q, "--lane", "a", "--yes"))["gone"])
	require.Len(t, p.ok("jobs", "ls", q).lines(), 1)

	refused := p.run("queues", "obliterate", q, "--yes")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.errOut, "not paused")
	p.ok("queues", "pause", q)
	r := p.onTerminal("no\n", "queues", "obliterate", q)
	require.Contains(t, r.out, "would obliterate queue "+q+": 1 job")
	require.Len(t, p.ok("jobs", "ls", q).lines(), 1, "nothing was changed")
	require.NotZero(t, object(t, p.ok("queues", "obliterate", q, "--yes"))["gone"])
	require.Equal(t, 3, p.run("queues", "show", q).code)
}

func TestLanes(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	require.Contains(t, p.ok("lanes", q).errOut, q+" has no lanes")
	p.given("1\n2\n").ok("jobs", "enqueue", q, "--type", "t", "--lane", "a")
	jobs := jobsOf(t, q)
	_, err := jobs.SetLane(t.Context(), "b", 2.5, 7)
	require.NoError(t, err)
	_, err = jobs.LimitLane(t.Context(), "b", queue.Rate{Jobs: 3, Per: time.Second})
	require.NoError(t, err)
	require.NoError(t, jobs.PauseLane(t.Context(), "b"))
	lines := p.ok("lanes", q).lines()
	require.Len(t, lines, 2)
	require.Regexp(t, `^\{"queue":"`+q+`","lane":"a","state":"open","ready":2,"active":0,"oldest":"20[^"]+","weight":1\}$`, lines[0])
	require.Regexp(t, `"lane":"b","state":"paused","ready":0,"active":0,"weight":2.5,"ceiling":7,"rate_jobs":3,"rate_seconds":1,"paused_since":"20`, lines[1])
	require.Regexp(t, `(?m)^LANE +STATE +READY +ACTIVE +OLDEST +WEIGHT +CEILING +RATE\na +open +2 +0 +\S+s +1 +- +-\nb +paused +0 +0 +- +2\.5 +7 +3 in 1s$`, p.ok("lanes", q, "--output", "text").out)
}

func TestLanesChange(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.given("1\n2\n3\n4\n").ok("jobs", "enqueue", q, "--type", "t", "--lane", "a")
	later := p.enqueued(q, "--lane", "a", "--delay", "1h")
	lane := func(args ...string) map[string]any {
		o := object(t, p.ok(append([]string{"lanes"}, args...)...))
		delete(o, "oldest")
		return o
	}
	is := map[string]any{"queue": q, "lane": "a", "state": "open", "ready": 4.0, "active": 0.0, "weight": 2.5, "ceiling": 7.0, "rate_jobs": 100.0, "rate_seconds": 60.0}
	require.Equal(t, is, lane("set", q, "--lane", "a", "--weight", "2.5", "--ceiling", "7", "--rate", "100/1m"))
	delete(is, "ceiling")
	require.Equal(t, is, lane("set", q, "--lane", "a", "--ceiling", "none"), "the rest stays as it is")
	require.Equal(t, "paused", lane("pause", q, "--lane", "a")["state"])
	require.Equal(t, "lane a of "+q+": open, weight 2.5, ceiling -, rate 100 in 1m0s, 4 ready, 0 active\n", p.ok("lanes", "resume", q, "--lane", "a", "--output", "text").out)

	move := []string{"lanes", "move", q, "--lane", "a", "--to", "b"}
	require.EqualValues(t, 5, object(t, p.ok(append(move, "--dry-run")...))["chosen"])
	require.EqualValues(t, 1, object(t, p.ok(append(move, "--limit", "1", "--yes")...))["changed"])
	require.EqualValues(t, 4, object(t, p.ok(append(move, "--yes")...))["changed"])
	require.Equal(t, "b", object(t, p.ok("jobs", "show", q, "--id", later))["lane"])
	require.Equal(t, map[string]any{"action": "drain-queue", "dry_run": true, "queue": q, "lane": "b", "jobs": 4.0, "gone": 0.0, "what": "jobs"},
		object(t, p.ok("lanes", "drain", q, "--lane", "b", "--dry-run")))
	r := p.onTerminal(q+"\n", "lanes", "drain", q, "--lane", "b")
	require.Contains(t, r.out, "would drain lane b of "+q+": 4 jobs\nType b to go on: ")
	require.Contains(t, r.out, "not confirmed")
	require.EqualValues(t, 4, object(t, p.ok("lanes", "drain", q, "--lane", "b", "--yes"))["gone"])
	require.Len(t, p.ok("jobs", "ls", q).lines(), 1)
}

// TestCheckQueue: the audit of a scope is that of its jobs, too.
func TestCheckQueue(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), tiertest.Scope(t)
	p.given("1\n").ok("jobs", "enqueue", q, "--type", "t")
	raw(t, shared, "HSET", tier.Queue(q).JobsKey(), "JOB0STCa4O4Feq", "nonsense")
	r := p.run("check", q)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "JOB0STCa4O4Feq")
}

// TestQueueHistory: what becomes of the jobs of a queue is told when it is set, can be read as any stream, and is counted.
func TestQueueHistory(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	silent := p.run("queues", "history", q)
	require.Equal(t, 3, silent.code)
	require.Contains(t, silent.errOut, "pipeline queues set "+q+" --events")
	require.EqualValues(t, 1000, object(t, p.ok("queues", "set", q, "--events", "1000"))["events"])
	require.Contains(t, p.ok("queues", "show", q).out, `"events":1000`)
	p.given("1\n2\n3\n").ok("jobs", "enqueue", q, "--type", "t")
	p.ok("queues", "drain", q, "--yes")
	require.Contains(t, p.ok("tail", q+"/jobs.events").out, `"absent","ready","default"`)

	for range 2 { // each is counted once
		lines := p.ok("queues", "history", q, "--last", "10m", "--step", "5m").lines()
		require.Len(t, lines, 2)
		require.Contains(t, strings.Join(lines, ""), `"counts":{"enqueued":3,"removed":3}`)
	}
	text := p.ok("queues", "history", q, "--output", "text").out
	require.Regexp(t, `(?m)^TIME +ENQUEUED +STARTED +COMPLETED +POSTPONED +DIED +CANCELLED +REMOVED +WAIT +RUN$`, text)
	require.Regexp(t, `(?m) +3 +0 +0 +0 +0 +0 +3 +- +-$`, text)
	require.NotContains(t, text, "▁")
	require.Contains(t, p.onTerminal("", "queues", "history", q, "--last", "3m").out, "completed ▁▁▁")

	for _, args := range [][]string{{"--step", "90s"}, {"--last", "30s"}, {"--last", "8d"}} {
		require.Equal(t, 2, p.run(append([]string{"queues", "history", q}, args...)...).code, args)
	}
	require.Nil(t, object(t, p.ok("queues", "set", q, "--events", "none"))["events"])
}
