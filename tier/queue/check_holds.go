package queue

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// holds audits unique keys and what is noted of cancelled jobs: both go with the job that they are of, but for keys of a period.
func (c *check) holds(ctx context.Context) error {
	key := c.queue.UniqueKey()
	err := c.hash(ctx, key, func(fields map[string]string) error {
		holders := map[string]string{}
		for name, text := range fields {
			words := strings.Split(text, " ")
			if len(words) != 3 || !slices.Contains([]Until{UntilDone, UntilStarted, UntilTime}, Until(words[1])) {
				c.broken(key, "%.64q is that of %.64q, which is no job with a key", name, text)
			} else if _, err := strconv.ParseUint(words[2], 10, 64); err != nil {
				c.broken(key, "%.64q has no time: %.64q", name, text)
			} else if Until(words[1]) != UntilTime {
				holders[name] = words[0]
			}
		}
		return c.ended(ctx, key, holders, fields, func(r row) bool { return r.state != Dead }, "%.64q is that of %s, which has ended")
	})
	if err != nil {
		return err
	}
	key = c.queue.CancelledKey()
	return c.hash(ctx, key, func(fields map[string]string) error {
		jobs := map[string]string{}
		for id := range fields {
			jobs[id] = id
		}
		return c.ended(ctx, key, jobs, fields, func(r row) bool { return r.state == Ready }, "%.64q is cancelled, and %s is not active")
	})
}

// ended tells of fields of a hash whose jobs are not there, or in no state in which they may be: if they are as they were after
// that was seen.
func (c *check) ended(ctx context.Context, key string, jobs, was map[string]string, may func(row) bool, format string) error {
	fields := slices.Sorted(maps.Keys(jobs))
	ids := make([]string, len(fields))
	for i, field := range fields {
		ids[i] = jobs[field]
	}
	rows, err := rowsOf(ctx, c.client, c.queue, ids)
	if err != nil {
		return err
	}
	for i, field := range fields {
		if r, ok := parseRow(rows[i]); ok && may(r) {
			continue
		}
		m, err := c.client.Do(ctx, key, c.client.B().Hget().Key(key).Field(field).Build())
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		if now, err := m.ToString(); err == nil && now == was[field] {
			c.broken(key, format, field, ids[i])
		}
	}
	return nil
}
