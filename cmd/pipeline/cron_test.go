package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/tiertest"
)

// jobsOf is a client of a queue of the shared server.
func jobsOf(t testing.TB, name string) *queue.Client {
	t.Helper()
	jobs, err := queue.NewClient(tiertest.Dial(t, shared), queue.Config{Queue: name})
	require.NoError(t, err)
	return jobs
}

func TestCron(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	jobs := jobsOf(t, q)
	none := p.ok("cron", "ls", q)
	require.Empty(t, none.out)
	require.Contains(t, none.errOut, q+" has no schedules: 'pipeline cron add "+q+"' makes one")

	added := object(t, p.ok("cron", "add", q, "--name", "leap", "--cron", "30 2 29 2 *", "--zone", "America/New_York", "--type", "invoices", "--data", `{"n":1}`))
	require.Equal(t, "add-schedule", added["action"])
	require.Equal(t, "America/New_York", added["zone"])
	next, err := time.Parse(time.RFC3339, added["next"].(string))
	require.NoError(t, err)
	require.Equal(t, "02-29 07:30", next.Format("01-02 15:04"))
	require.Equal(t, map[string]any{"type": "invoices", "key": "", "headers": map[string]any{"content-type": "application/json"}, "data": map[string]any{"n": 1.0}}, added["message"])

	every := []string{"cron", "add", q, "--name", "poll", "--every", "36500d", "--anchor", "2100-01-01", "--type", "poll", "--lane", "night", "--catch-up", "all", "--catch-up-limit", "7"}
	require.Equal(t, "added schedule poll of "+q+": due 2100-01-01T00:00:00.000Z\n", p.ok(append(every, "--output", "text")...).out)
	list := p.ok("cron", "ls", q).lines()
	require.Len(t, list, 2)
	require.Equal(t, `{"queue":"`+q+`","schedule":"poll","set":"","every_seconds":3153600000,"anchor":"2100-01-01T00:00:00.000Z","catch_up":"all","catch_up_limit":7,`+
		`"next":"2100-01-01T00:00:00.000Z","last":"","last_job":"","lane":"night","message":{"type":"poll","key":"","headers":{},"data":"","encoding":"base64"}}`, list[1])
	table := p.ok("cron", "ls", q, "--output", "text").out
	require.Regexp(t, `(?m)^SCHEDULE +TIMES +NEXT +LAST +TYPE +LANE +CATCH-UP +SET +LAST JOB$`, table)
	require.Regexp(t, `(?m)^poll +every 876000h0m0s +2100-01-01T00:00:00\.000Z +- +poll +night +all +- +-$`, table)

	made := object(t, p.ok("cron", "run", q, "--name", "leap"))
	id, err := codec.Parse(made["job"].(string))
	require.NoError(t, err)
	info, err := jobs.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, queue.Ready, info.State)
	require.JSONEq(t, `{"n":1}`, string(info.Message.Data))
	require.Contains(t, p.ok("cron", "ls", q).out, `"next":"`+added["next"].(string)+`"`, "when it is due stays as it is")

	// What a program has declared is its own.
	declared := queue.Schedule{Name: "declared", Every: 36500 * 24 * time.Hour, Job: queue.Job{Message: codec.Message{Type: "t"}}}
	require.NoError(t, queue.NewSchedules(jobs).Declare(t.Context(), "program", declared))
	taken := p.run("cron", "add", q, "--name", "declared", "--every", "1h", "--type", "t")
	require.Equal(t, 1, taken.code)
	require.Contains(t, taken.errOut, "schedule declared belongs to the set program: change it there, or take another name")
}

func TestCronRemove(t *testing.T) {
	t.Parallel()
	p, q := onShared(t), scope(t)
	p.ok("cron", "add", q, "--name", "n", "--cron", "@yearly", "--type", "t")
	plan := object(t, p.ok("cron", "rm", q, "--name", "n", "--dry-run"))
	require.Equal(t, "remove-schedule", plan["action"])
	require.Equal(t, true, plan["dry_run"])
	require.Len(t, p.ok("cron", "ls", q).lines(), 1, "a dry run changes nothing")

	r := p.onTerminal("m\n", "cron", "rm", q, "--name", "n")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "would remove schedule n of "+q+": due ")
	require.Contains(t, r.out, "Type n to go on: ")
	require.Contains(t, r.out, "not confirmed: nothing was changed")
	require.True(t, strings.HasPrefix(p.ok("cron", "rm", q, "--name", "n", "--yes", "--output", "text").out, "removed schedule n of "+q+": due "))
	require.Empty(t, p.ok("cron", "ls", q).out)
	for _, verb := range []string{"rm", "run"} {
		args := []string{"cron", verb, q, "--name", "n"}
		if verb == "rm" {
			args = append(args, "--yes")
		}
		gone := p.run(args...)
		require.Equal(t, 3, gone.code, gone.errOut)
	}
}
