package main_test

import (
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
	require.Regexp(t, `(?m)^QUEUE +STATE +READY +ACTIVE +SCHEDULED +WAITING +DEAD +WORKERS +SCHEDULES +LEASE\n(.*\n)*`+q+` +dead +4 +0 +0 +0 +0 +0 +0 +-$`, p.ok("queues", "ls", "--output", "text").out)
	require.Contains(t, p.ok("check", q).errOut, "everything holds")

	require.Equal(t, "paused queue "+q+"\n", p.ok("queues", "pause", q, "--output", "text").out)
	require.Equal(t, `{"action":"pause-queue","queue":"`+q+`","changed":false}`+"\n", p.ok("queues", "pause", q).out)
	require.Contains(t, p.ok("queues", "show", q).out, `"state":"paused"`)
	require.Equal(t, "resumed queue "+q+"\n", p.ok("queues", "resume", q, "--output", "text").out)

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
	require.Equal(t, `{"queue":"`+q+`","lane":"a","state":"open","ready":2,"active":0,"weight":1}`, lines[0])
	require.Regexp(t, `"lane":"b","state":"paused","ready":0,"active":0,"weight":2.5,"ceiling":7,"rate_jobs":3,"rate_seconds":1,"paused_since":"20`, lines[1])
	require.Regexp(t, `(?m)^LANE +STATE +READY +ACTIVE +WEIGHT +CEILING +RATE\na +open +2 +0 +1 +- +-\nb +paused +0 +0 +2\.5 +7 +3 in 1s$`, p.ok("lanes", q, "--output", "text").out)
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
