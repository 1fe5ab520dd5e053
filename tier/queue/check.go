package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/tier"
)

const (
	// checkPage is how many jobs or entries one call audits.
	checkPage = 500
	// maxFindings is how many findings are told one by one.
	maxFindings = 1000
)

// Check audits a queue: that keys hold their types; that each job is in the one place that its row says, and nothing elsewhere
// is of a job without a row, notes neither; that what lanes hold are jobs, that active ones are looked at when their leases end, and that lanes
// with ready ones have their turn; that unique keys are those of jobs that have not ended, or of a period, and what is cancelled is active; that workers have a number and a beat; that schedules can be read and are due some time;
// that who waits for children waits for some that are there, see [Stuck], and that nothing is kept of children whose parent is no more. The
// error joins a *tier.Finding for each broken invariant, or is that of the server. Nothing is changed; the queue may be at work.
func Check(ctx context.Context, client *tier.Client, queue string) error {
	if err := tier.CheckName("scope", queue); err != nil {
		return err
	}
	c := &check{client: client, queue: tier.Queue(queue), audited: map[string]bool{}}
	err := c.types(ctx)
	if err != nil || len(c.findings) > 0 {
		return errors.Join(append(c.findings, err)...)
	}
	for _, audit := range []func(context.Context) error{c.rows, c.places, c.lanes, c.active, c.holds, c.workers, c.schedules, c.flows} {
		if err := audit(ctx); err != nil {
			return err
		}
	}
	if c.more > 0 {
		c.findings = append(c.findings, &tier.Finding{Key: c.queue.JobsKey(), Broken: fmt.Sprintf("and %d findings more", c.more)})
	}
	return errors.Join(c.findings...)
}

type check struct {
	client   *tier.Client
	queue    tier.Queue
	audited  map[string]bool // lanes
	findings []error
	more     int // findings beyond maxFindings
}

func (c *check) broken(key, format string, args ...any) {
	if len(c.findings) == maxFindings {
		c.more++
		return
	}
	c.findings = append(c.findings, &tier.Finding{Key: key, Broken: fmt.Sprintf(format, args...)})
}

func (c *check) types(ctx context.Context) error {
	q := c.queue
	want := map[string]string{
		q.QueueKey(): "hash", q.LanesKey(): "hash", q.JobsKey(): "hash", q.BodiesKey(): "hash", q.NotesKey(): "hash", q.WorkersKey(): "hash",
		q.RingKey(): "zset", q.LeasedKey(): "zset", q.JobsDueKey(): "zset", q.BuriedKey(): "zset", q.LimitedKey(): "zset", q.BucketsKey(): "hash", q.ActiveKey(): "hash", q.UniqueKey(): "hash", q.CancelledKey(): "hash", q.WakeKey(): "list",
		q.SchedulesKey(): "hash", q.OccurrencesKey(): "zset",
		q.WaitingKey(): "zset", q.OutboxKey(): "stream", q.Events().LogKey(): "stream",
	}
	for key, typ := range want {
		m, err := c.client.Do(ctx, key, c.client.B().Type().Key(key).Build())
		if err != nil {
			return err
		}
		if got, _ := m.ToString(); got != "none" && got != typ {
			c.broken(key, "holds a %s, not a %s", got, typ)
		}
	}
	return nil
}

// rows audits the jobs that have a row.
func (c *check) rows(ctx context.Context) error {
	return c.hash(ctx, c.queue.JobsKey(), func(fields map[string]string) error {
		lanes := map[string]bool{}
		ids := make([]string, 0, len(fields))
		for id, text := range fields {
			if at, ok := parseRow(text); ok {
				lanes[at.lane] = true
			}
			ids = append(ids, id)
		}
		return c.jobs(ctx, ids, lanes)
	})
}

// hash goes through a hash by pages.
func (c *check) hash(ctx context.Context, key string, page func(map[string]string) error) error {
	fields := map[string]string{}
	var err error
	flush := func() {
		if err == nil && len(fields) > 0 {
			err = page(fields)
		}
		clear(fields)
	}
	scan := c.client.ScanHash(ctx, key, func(field, value string) {
		if fields[field] = value; len(fields) == checkPage {
			flush()
		}
	})
	flush()
	return errors.Join(scan, err)
}

// places audits what lies outside the lanes: there is a row of each.
func (c *check) places(ctx context.Context) error {
	var err error
	for _, key := range []string{c.queue.BodiesKey(), c.queue.NotesKey()} {
		if err == nil {
			err = c.hash(ctx, key, func(fields map[string]string) error {
				return c.jobs(ctx, slices.Collect(maps.Keys(fields)), nil)
			})
		}
	}
	for _, key := range []string{c.queue.JobsDueKey(), c.queue.BuriedKey(), c.queue.WaitingKey()} {
		if err == nil {
			err = scanSet(ctx, c.client, key, func(ctx context.Context, ids []string) error { return c.jobs(ctx, ids, nil) })
		}
	}
	return err
}

// scanSet goes through a sorted set by pages.
func scanSet(ctx context.Context, client *tier.Client, key string, page func(context.Context, []string) error) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		m, err := client.Do(ctx, key, client.B().Zscan().Key(key).Cursor(cursor).Count(checkPage).Build())
		if err != nil {
			return err
		}
		set, err := m.AsScanEntry()
		if err != nil {
			return tier.Wrap("ZSCAN", key, err)
		}
		var ids []string
		for i := 0; i+1 < len(set.Elements); i += 2 {
			ids = append(ids, set.Elements[i])
		}
		if cursor = set.Cursor; len(ids) > 0 {
			if err := page(ctx, ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// jobs audits jobs, as far as they are in the lanes; again those that have gone elsewhere meanwhile.
func (c *check) jobs(ctx context.Context, ids []string, lanes map[string]bool) error {
	q := c.queue
	for len(ids) > 0 {
		n := min(len(ids), checkPage)
		page, names := ids[:n], make([]string, 0, len(lanes))
		keys := []string{q.JobsKey(), q.BodiesKey(), q.JobsDueKey(), q.BuriedKey(), q.WaitingKey(), q.NotesKey()}
		for lane := range lanes {
			if tier.CheckName("lane", lane) == nil {
				keys, names = append(keys, q.LaneKey(lane)), append(names, lane)
			}
		}
		args := append(append([]string{strconv.Itoa(len(names))}, names...), page...)
		m, err := c.client.Run(ctx, tier.Call{Script: auditJobsScript, Keys: keys, Args: args})
		if err != nil {
			return err
		}
		answers, err := tier.Texts("audit_jobs", m, n)
		if err != nil {
			return err
		}
		ids, lanes = ids[n:], map[string]bool{}
		for i, answer := range answers {
			if lane, elsewhere := strings.CutPrefix(answer, "?"); elsewhere && tier.CheckName("lane", lane) == nil {
				ids, lanes[lane] = append(ids, page[i]), true
			} else if answer != "" {
				c.broken(q.JobsKey(), "%s %s", page[i], answer)
			}
		}
	}
	return nil
}

// lanes audits what lanes there are, with a walk over the keys of the server: one that no job knows of is found, too.
func (c *check) lanes(ctx context.Context) error {
	above := strings.TrimSuffix(c.queue.LaneKey(""), ":")
	keys, err := c.client.KeysBelow(ctx, above)
	if err != nil {
		return err
	}
	for _, key := range keys {
		lane := strings.TrimPrefix(key, above+":")
		if tier.CheckName("lane", lane) != nil {
			c.broken(key, "is no lane of ours")
			continue
		}
		if err := c.lane(ctx, lane); err != nil {
			return err
		}
	}
	return nil
}

// lane audits a lane, once.
func (c *check) lane(ctx context.Context, lane string) error {
	if c.audited[lane] {
		return nil
	}
	c.audited[lane] = true
	q := c.queue
	key := q.LaneKey(lane)
	for from := "-"; from != ""; {
		m, err := c.client.Run(ctx, tier.Call{
			Script: auditLaneScript,
			Keys:   []string{q.JobsKey(), q.RingKey(), q.LanesKey(), q.LeasedKey(), q.QueueKey(), q.LimitedKey(), q.ActiveKey(), key},
			Args:   []string{lane, from, strconv.Itoa(checkPage)},
		})
		if errors.Is(err, tier.ErrWrongType) {
			c.broken(key, "is no stream")
			return nil
		}
		if err != nil {
			return err
		}
		reply, err := m.AsStrSlice()
		if err != nil || len(reply) == 0 {
			return fmt.Errorf("queue: audit_lane: unexpected reply: %w", err)
		}
		from = reply[0]
		for _, what := range reply[1:] {
			c.broken(key, "%s", what)
		}
	}
	return nil
}

// workers checks numbers and beats, which come and go together.
func (c *check) workers(ctx context.Context) error {
	key := c.queue.WorkersKey()
	m, err := c.client.Do(ctx, key, c.client.B().Hgetall().Key(key).Build())
	if err != nil {
		return err
	}
	fields, err := m.AsStrMap()
	if err != nil {
		return tier.Wrap("HGETALL", key, err)
	}
	for field, value := range fields {
		member := strings.TrimSuffix(field, tier.BeatSuffix)
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			c.broken(key, "%s holds %.32q, not a number", field, value)
		}
		if fields[member] == "" || fields[tier.BeatField(member)] == "" {
			c.broken(key, "%s has a number or a beat, and not both", member)
		}
	}
	return nil
}
