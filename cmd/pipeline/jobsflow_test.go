package main_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// flow is a tree as 'jobs flow' and 'jobs show' have it.
type flow struct {
	Job, Queue, Type, Outcome, State, Result, Reason string
	Children                                         []flow
}

func flowIn(t testing.TB, r result) (f flow) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.out), &f), r.out)
	return f
}

// TestJobsFlow: a flow from JSON, in two queues, with all that a job can have; and the tree while it is done.
func TestJobsFlow(t *testing.T) {
	t.Parallel()
	p, q, images := onShared(t), scope(t), scope(t)
	p.file("flow.json", `{"type": "report", "keep": "1h", "lane": "night", "children": [
  {"type": "fetch", "data": {"page": 1}, "key": "k", "headers": {"a": "b"}, "max_attempts": 5, "backoff": "10s", "max_backoff": "1m", "timeout": "5s",
   "deadline": "2100-01-01", "tags": ["x"]},
  {"type": "join", "children": [{"type": "part", "delay": "1h"}, {"type": "part", "queue": "`+images+`"}]},
  {"type": "render", "queue": "`+images+`", "at": "2100-01-01", "policy": {"dead": "ignore", "removed": "continue"}}]}`)
	made := flowIn(t, p.ok("jobs", "flow", q, "flow.json"))
	fetch, join := made.Children[0], made.Children[1]
	shown := object(t, p.ok("jobs", "show", q, "--id", fetch.Job))
	delete(shown, "at")
	require.Equal(t, map[string]any{
		"job": fetch.Job, "queue": q, "state": "scheduled", "lane": "default", "attempts": 0.0, "parent": made.Job, "parent_queue": q,
		"terms":   map[string]any{"max_attempts": 5.0, "backoff_seconds": 10.0, "max_backoff_seconds": 60.0, "timeout_seconds": 5.0, "deadline": "2100-01-01T00:00:00.000Z", "tags": []any{"x"}},
		"message": map[string]any{"type": "fetch", "key": "k", "headers": map[string]any{"content-type": "application/json", "a": "b"}, "data": map[string]any{"page": 1.0}},
	}, shown)
	id, err := codec.Parse(made.Job)
	require.NoError(t, err)
	children, err := jobsOf(t, q).Children(t.Context(), id)
	require.NoError(t, err)
	for _, c := range children {
		if c.Queue == images {
			require.Equal(t, queue.Policy{Dead: queue.Ignore, Cancelled: queue.Fail, Expired: queue.Fail, Removed: queue.Continue}, c.Policy)
		}
	}
	p.ok("work", q, "--drain", "--exec", "echo fetched")
	require.Equal(t, 1, p.run("work", images, "--drain", "--exec", `sh -c 'exit 65'`).code)
	tree := flowIn(t, p.ok("jobs", "show", q, "--id", made.Job))
	var outcomes []string
	for _, c := range tree.Children {
		outcomes = append(outcomes, c.Outcome+" "+c.Result)
	}
	require.Equal(t, []string{"completed fetched", "dead ", "open "}, outcomes)
	text := p.ok("jobs", "show", q, "--id", made.Job, "--output", "text").out
	for _, line := range []string{
		"children 3 jobs\n├─ " + fetch.Job + "  " + q + "  completed  fetched\n",
		"├─ " + join.Job + "  " + q + "  dead  join  child ", "│  ├─ " + join.Children[0].Job + "  " + q + "  scheduled  part\n", "│  └─ " + join.Children[1].Job + "  " + images + "  dead  ",
		"└─ " + made.Children[2].Job + "  " + images + "  scheduled  render\n",
	} {
		require.Contains(t, text, line)
	}
}

// TestJobsFlowRefused: what is no flow is refused before anything is sent, with its place.
func TestJobsFlowRefused(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	for _, tc := range []struct{ text, want string }{
		{"", "-: want a JSON object, and the text ends"},
		{"{\"type\":\"a\"", "-: want a JSON object, and the text ends"},
		{"{\"type\":\"a\",\n]", "-:2: invalid character"},
		{`{"type":"a"}{}`, "-: want one JSON object, and there is more"},
		{`{"type":"a","kids":[]}`, `-: unknown field "kids"`},
		{"{\"type\":\"a\",\n\"children\":[{\"delay\":3}]}", `-:2: "children.delay": a number is not what is wanted there`},
		{`{"type":"a","children":[{"type":"b"},{"children":[]}]}`, `-: children[1]: want the type of the job: "type"`},
		{`{"type":"a","children":[{"type":"b","policy":{"dead":"x"}}]}`, `-: children[0]: policy "dead": "x": want dead,`},
		{`{"type":"a","lane":"a/b"}`, "'/' is not one of"},
		{`{"type":"a","delay":"1s","at":"2100-01-01"}`, "a Delay that is not below 0, or an At"},
	} {
		r := p.given(tc.text).run("jobs", "flow", "never")
		require.Equal(t, 2, r.code, tc.text)
		require.Contains(t, r.errOut, tc.want)
	}
	require.Equal(t, 3, p.run("jobs", "flow", "never", "none.json").code)
	require.Equal(t, 3, p.run("queues", "show", "never").code)
}

// TestJobsEnqueueUnique: unique keys, their times and conflicts, and what else a job can be given.
func TestJobsEnqueueUnique(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	id := p.enqueued(q, "--unique", "k", "--unique-until", "1h", "--deadline", "2h", "--max-backoff", "1h", "--tag", "a", "--tag", "b")
	shown := object(t, p.ok("jobs", "show", q, "--id", id))
	require.Equal(t, "k", shown["unique"])
	terms := shown["terms"].(map[string]any)
	at, err := time.Parse(time.RFC3339, terms["deadline"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(2*time.Hour), at, time.Minute)
	require.Equal(t, []any{"a", "b"}, terms["tags"])
	require.Contains(t, p.ok("jobs", "show", q, "--id", id, "--output", "text").out, "\nunique   k\nasks     up to 1h0m0s, deadline ")
	refused := p.run("jobs", "enqueue", q, "--type", "t", "--data", "2", "--unique", "k", "--unique-until", "1h", "--on-conflict", "refuse")
	require.Equal(t, 1, refused.code)
	require.Empty(t, refused.out)
	require.Contains(t, refused.errOut, `the unique key "k" is that of `+id)
	r := object(t, p.ok("jobs", "enqueue", q, "--type", "t", "--data", "3", "--unique", "k", "--on-conflict", "replace"))
	require.Equal(t, []any{id, true}, []any{r["job"], r["existing"]})
	require.EqualValues(t, 3, object(t, p.ok("jobs", "show", q, "--id", id))["message"].(map[string]any)["data"])
}

// TestStuck: a parent whose child nobody can find, or whose end nobody tells of, is explained by 'queues show' and 'check'.
func TestStuck(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), tiertest.Scope(t)
	f := queue.Chain(queue.Job{At: time.Now().Add(time.Hour)}, queue.Job{})
	_, err := jobsOf(t, q).EnqueueFlow(t.Context(), f)
	require.NoError(t, err)
	require.Contains(t, p.ok("queues", "show", q, "--stuck", "--output", "text").errOut, "no job of "+q+" is stuck")
	require.NotContains(t, p.ok("queues", "show", q, "--stuck").out, "stuck")

	child, parent, k := f.Children[0].ID.String(), f.ID.String(), tier.Queue(q)
	raw(t, shared, "HDEL", k.JobsKey(), child)
	raw(t, shared, "HDEL", k.BodiesKey(), child)
	raw(t, shared, "ZREM", k.JobsDueKey(), child)
	require.Regexp(t, `"stuck":\[\{"job":"`+parent+`","children":\[\{"job":"`+child+`","queue":"`+q+`","why":"it is not in its queue[^"]+","lost":true\}\]\}\]\}\n$`, p.ok("queues", "show", q, "--stuck").out)
	require.Contains(t, p.ok("queues", "show", q, "--stuck", "--output", "text").out, "\nstuck: "+parent+" waits for "+child+" of "+q+": it is not in its queue")
	lost := p.run("check", q)
	require.Equal(t, 1, lost.code)
	require.Contains(t, lost.out, "waits for "+child)

	raw(t, shared, "XADD", k.OutboxKey(), fmt.Sprintf("%d-0", time.Now().Add(-2*time.Minute).UnixMilli()), "j", child, "p", "0 "+q+" "+parent, "e", "completed", "t", "")
	late := p.run("check", q)
	require.Equal(t, 1, late.code)
	require.Len(t, late.lines(), 1)
	require.Contains(t, late.out, "waits for "+child+" of "+q+": it has ended, and its parent is not told: no worker")
}
