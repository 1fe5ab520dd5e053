package main_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// enqueued enqueues a job, and returns its id.
func (p *program) enqueued(q string, args ...string) string {
	p.t.Helper()
	return object(p.t, p.ok(append([]string{"jobs", "enqueue", q, "--type", "t", "--data", "1"}, args...)...))["job"].(string)
}

// ends are how attempts ended, as work prints them.
func ends(t testing.TB, r result) (all []string) {
	t.Helper()
	for _, line := range r.lines() {
		o := object(t, result{out: line + "\n"})
		all = append(all, fmt.Sprintf("%s %v %v", o["job"], o["attempt"], o["outcome"]))
	}
	return all
}

// TestWork: exit codes are verdicts, standard output is the result, the last line on standard error the reason.
func TestWork(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.file("do", `#!/bin/sh
cat > "$HOME/$PIPELINE_JOB_ID"
test -e "$HOME/again-$PIPELINE_JOB_ID" && { echo "sent $PIPELINE_JOB_ATTEMPT"; exit 0; }
touch "$HOME/again-$PIPELINE_JOB_ID"
echo first >&2; echo "the last line" >&2; exit $(cat "$HOME/code")
`)
	require.NoError(t, os.Chmod(p.dir+"/do", 0o700))
	for _, tc := range []struct {
		code string
		want []string // how the attempts end
		exit int
	}{
		{"0", []string{"1 done"}, 0},
		{"65", []string{"1 dead"}, 1},
		{"75", []string{"1 snoozed", "1 done"}, 0},
		{"3", []string{"1 failed", "2 done"}, 0},
	} {
		p.file("code", tc.code)
		id := p.enqueued(q, "--keep", "1h", "--backoff", "10ms")
		r := p.run("work", q, "--exec", "./do", "--snooze", "10ms", "--wait", "700ms")
		require.Equal(t, tc.exit, r.code, r.errOut)
		var want []string
		for _, end := range tc.want {
			want = append(want, id+" "+end)
		}
		require.Equal(t, want, ends(t, r), tc.code)
		shown := object(t, p.ok("jobs", "show", q, "--id", id))
		if tc.code == "65" {
			require.Equal(t, "dead", shown["state"])
			require.Equal(t, "do: exit status 65: the last line", shown["reason"])
		} else {
			require.Equal(t, "done", shown["state"])
			require.Equal(t, map[string]string{"0": "", "75": "sent 1", "3": "sent 2"}[tc.code], shown["result"])
		}
		stdin, err := os.ReadFile(p.dir + "/" + id)
		require.NoError(t, err)
		require.Regexp(t, `^\{"job":"`+id+`","queue":"`+q+`","state":"active","attempts":[12],"terms":\{"backoff_seconds":0.01,"keep_seconds":3600\},"message":\{"type":"t",.*"data":1\}\}\n$`, string(stdin))
	}
	id := p.enqueued(q, "--max-attempts", "2", "--backoff", "10ms")
	r := p.run("work", q, "--exec", "false", "--wait", "700ms", "--output", "text")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `^`+id+`  t  failed after \S+  false: exit status 1\n`+id+`  t  dead after \S+, attempt 2  false: exit status 1\n$`, r.out)
	require.Contains(t, r.errOut, "1 job failed: 'pipeline jobs ls "+q)
	require.Contains(t, p.ok("jobs", "show", q, "--id", id).out, `"state":"dead"`)
}

// TestWorkTooMuch: a command that writes more than a result may be is not run again, although it dies of that it cannot write.
func TestWorkTooMuch(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	id := p.enqueued(q, "--max-attempts", "2", "--backoff", "10ms")
	r := p.run("work", q, "--exec", "yes", "--wait", "700ms")
	require.Equal(t, []string{id + " 1 dead"}, ends(t, r))
	require.Contains(t, p.ok("jobs", "show", q, "--id", id).out, "yes: more than 1048576 bytes on standard output")
}

// TestWorkEnvironment: the command sees what it needs of the environment, no shell stands between, and without one jobs are printed.
func TestWorkEnvironment(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.env = append(p.env, "SECRET=hunter2")
	p.enqueued(q)
	names := strings.Fields(object(t, p.ok("work", q, "--exec", `sh -c 'env | cut -d= -f1'`, "--count", "1"))["result"].(string))
	slices.Sort(names)
	require.Equal(t, []string{"HOME", "PATH", "PIPELINE_JOB_ATTEMPT", "PIPELINE_JOB_ID", "PWD"}, names)
	p.enqueued(q)
	require.Equal(t, "a b|$HOME|;|*|", object(t, p.ok("work", q, "--count", "1", "--exec", `printf '%s|' "a b" $HOME ; '*'`))["result"])
	id := p.enqueued(q)
	require.Regexp(t, `^\{"job":"`+id+`","queue":"`+q+`","state":"active","attempts":1,"message":\{.*\}\}\n$`, p.ok("work", q, "--count", "1").out)
	nothing := p.run("work", q, "--wait", "100ms")
	require.Equal(t, 4, nothing.code)
	require.Contains(t, nothing.errOut, "nothing came within --wait 100ms")
}

// TestWorkCount: no more jobs are done than are wanted, whatever runs at the same time, and the rest are there for others.
func TestWorkCount(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.given("1\n2\n3\n4\n5\n6\n7\n8\n").ok("jobs", "enqueue", q, "--type", "t")
	r := p.ok("work", q, "--count", "3", "--concurrency", "2", "--exec", `sh -c 'sleep 0.05'`)
	done := 0
	for _, line := range r.lines() {
		require.Contains(t, line, `"outcome":"done"`)
		done++
	}
	require.Equal(t, 3, done)
	require.Contains(t, r.errOut, "3 jobs of "+q+" done")
	require.Len(t, p.ok("work", q, "--drain", "--exec", "true").lines(), 5)
}

// TestWorkDrain: it ends when nothing is to be done now, of flows too; what waits for its time stays, and what is paused is named.
func TestWorkDrain(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	require.Contains(t, p.ok("work", q, "--drain", "--exec", "true").errOut, "0 jobs of "+q+" done")
	later := p.enqueued(q, "--delay", "1h")
	flow := queue.Chain(queue.Job{}, queue.Job{}, queue.Job{})
	_, err := jobsOf(t, q).EnqueueFlow(t.Context(), flow)
	require.NoError(t, err)
	r := p.ok("work", q, "--drain", "--exec", `sh -c 'grep -o "\"outcome\":[^}]*" || echo none'`)
	require.Len(t, r.lines(), 3, "%s", r.out)
	require.Contains(t, r.lines()[0], `"result":"none"`)
	require.Contains(t, r.lines()[1], `\"outcome\":\"completed\",\"result\":\"none\"`, "what its child came to is given to a parent")
	require.Contains(t, p.ok("jobs", "ls", q).out, later)
	require.Regexp(t, `3 jobs of `+q+` done in .*; not yet due: 1 job, the first at 2`, r.errOut)

	id := p.enqueued(q, "--lane", "a")
	require.NoError(t, jobsOf(t, q).PauseLane(t.Context(), "a"))
	held := p.run("work", q, "--drain", "--exec", "true")
	require.Equal(t, 1, held.code)
	require.Contains(t, held.errOut, "1 job left, in lanes that are paused")
	p.ok("queues", "pause", q)
	held = p.run("work", q, "--drain", "--exec", "true")
	require.Equal(t, 1, held.code)
	require.Contains(t, held.errOut, "1 job left, since the queue is paused")
	p.ok("queues", "resume", q)
	require.NoError(t, jobsOf(t, q).ResumeLane(t.Context(), "a"))
	require.Equal(t, []string{id + " 1 done"}, ends(t, p.ok("work", q, "--drain", "--exec", "true")))
}

// TestWorkLanes: only jobs of the lanes that are named are done.
func TestWorkLanes(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.enqueued(q, "--lane", "a")
	b, c := p.enqueued(q, "--lane", "b"), p.enqueued(q, "--lane", "c")
	require.ElementsMatch(t, []string{b + " 1 done", c + " 1 done"}, ends(t, p.ok("work", q, "--lane", "b", "--lane", "c", "--count", "2", "--exec", "true")))
	require.Equal(t, 4, p.run("work", q, "--lane", "b", "--wait", "100ms").code)
	require.Equal(t, 2, p.run("work", q, "--lane", "b", "--drain").code)
	require.Len(t, p.ok("jobs", "ls", q, "--lane", "a").lines(), 1)
}

// TestWorkKilled: a command does not outlive the worker that ran it, which is killed.
func TestWorkKilled(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.enqueued(q)
	fifo := filepath.Join(p.dir, "alive")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	running := p.start("work", q, "--exec", `sh -c 'exec >alive; echo on; exec sleep 1000'`)
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.Read(make([]byte, 3))
	require.NoError(t, err)
	reader, err := os.Open(fifo)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, running.cmd.Process.Kill())
	_, err = io.ReadAll(reader) // ends when nobody has it open for writing
	require.NoError(t, err)
}

// TestWorkRights: with the rights of a worker alone jobs are done, and what it may not do besides is said.
func TestWorkRights(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	id := p.enqueued(q)
	p.ok("cron", "add", q, "--name", "often", "--every", "100ms", "--type", "tick")
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "\n```acl worker\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	user := tiertest.NewUser(t, []*tiertest.Server{shared}, strings.Fields(strings.ReplaceAll(block, "{shop}", "{"+q+"}"))...)
	p.env = append(p.env, "PIPELINE_URL="+user.At(shared))
	running := p.start("work", q, "--exec", "true")
	require.Contains(t, running.line(), id)
	running.said("the schedules of " + q + " are not fired here: ")
	require.Equal(t, 130, running.interrupted().code)
	refused := p.run("work", q, "--drain", "--exec", "true")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.errOut, "zcard")
}

// TestWorkFires: whoever works fires the queue's schedules; metrics tell of queue, lanes and schedules.
func TestWorkFires(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.ok("cron", "add", q, "--name", "often", "--every", "100ms", "--type", "tick")
	running := p.start("work", q, "--exec", "true", "--metrics", ":0")
	for range 2 {
		require.Contains(t, running.line(), `"type":"tick"`)
	}
	body := scrape(t, running)
	for _, series := range []string{
		`echomq_queue_jobs{queue="` + q + `",state="ready"}`, `echomq_queue_lane_jobs{lane="default",`, `echomq_queue_schedule_next_timestamp_seconds{queue="` + q + `",schedule="often"}`,
		`echomq_consumer_deliveries_total{cursor="",group="w",outcome="ok",scope="` + q,
	} {
		require.Contains(t, body, series)
	}
	document, err := os.ReadFile("../../docs/jobs.md")
	require.NoError(t, err)
	names := regexp.MustCompile(`echomq_queue_\w+`).FindAllString(string(document), -1)
	require.Greater(t, len(names), 8)
	for _, name := range names {
		require.Contains(t, body, "\n"+name)
	}
	require.Equal(t, 130, running.interrupted().code)
}

// TestWorkCancelled: a job that is cancelled ends its command, on whichever machine.
func TestWorkCancelled(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	id := p.enqueued(q)
	running := p.start("work", q, "--exec", `sh -c 'echo begun >&2; sleep 60'`, "--lease", "1s")
	running.said("begun")
	p.ok("jobs", "cancel", q, "--id", id, "--reason", "withdrawn", "--yes")
	require.Contains(t, running.line(), `"outcome":"cancelled"`)
	tiertest.Eventually(t, limit, func() (bool, string) {
		out := p.ok("jobs", "show", q, "--id", id).out
		return strings.Contains(out, `"state":"dead"`) && strings.Contains(out, "withdrawn"), out
	})
	running.interrupted()
}

// TestWorkStops: a stop lets the command that runs finish; a worker that is killed loses its job to another one.
func TestWorkStops(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	id := p.enqueued(q)
	killed := p.start("work", q, "--exec", `sh -c 'echo begun >&2; exec sleep 5'`, "--lease", "500ms")
	killed.said("begun")
	require.NoError(t, killed.cmd.Process.Kill())
	wait := `sh -c 'echo begun >&2; while ! test -e "$HOME/go"; do sleep 0.01; done; echo done'`
	running := p.start("work", q, "--exec", wait)
	running.said("begun")
	require.NoError(t, running.cmd.Process.Signal(os.Interrupt))
	running.said("stopping: 1 job let finish")
	p.file("go", "")
	r := running.wait()
	require.Equal(t, 130, r.code, r.errOut)
	require.Equal(t, []string{id + " 2 done"}, ends(t, r))
}
