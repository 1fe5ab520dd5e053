package queue

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Overview is what is known of a queue. The zero value, but for the name: there is nothing of it.
type Overview struct {
	Name string
	Counts
	Workers   int64
	Schedules int64
	Paused    time.Time     // since when; zero: it is not
	Lease     time.Duration // of its workers; 0: it had none yet
}

// Overview tells of the queue.
func (c *Client) Overview(ctx context.Context) (o Overview, err error) {
	o.Name = string(c.queue)
	if o.Counts, err = c.Counts(ctx); err != nil {
		return o, err
	}
	q, b := c.queue, c.client.B()
	results, err := c.client.DoMulti(ctx, q.QueueKey(),
		b.Hmget().Key(q.QueueKey()).Field("paused", "lease").Build(), b.Hlen().Key(q.WorkersKey()).Build(), b.Zcard().Key(q.OccurrencesKey()).Build())
	if err != nil {
		return o, err
	}
	own, err := results[0].ToArray()
	if err != nil {
		return o, tier.Wrap("HMGET", q.QueueKey(), err)
	}
	var ms [2]int64
	for i := range own {
		if text, err := own[i].ToString(); err == nil {
			ms[i], _ = strconv.ParseInt(text, 10, 64)
		}
	}
	if ms[0] > 0 {
		o.Paused = time.UnixMilli(ms[0]).UTC()
	}
	o.Lease = time.Duration(ms[1]) * time.Millisecond
	if o.Workers, err = results[1].AsInt64(); err != nil {
		return o, tier.Wrap("HLEN", q.WorkersKey(), err)
	}
	o.Workers /= 2 // a number and a beat of each
	o.Schedules, err = results[2].AsInt64()
	return o, tier.Wrap("ZCARD", q.OccurrencesKey(), err)
}

// scanPage is how many keys one call looks at: about a millisecond of a server's time.
const scanPage = "5000"

// Queues lists the names of the deployment's queues, in no order: those that have jobs, workers, schedules, or a lease or a pause
// of their own. It walks over all keys of all servers, by pages, so it is for what an operator asks, and not for what runs all day.
func Queues(ctx context.Context, client *tier.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{}
		for _, node := range client.Nodes() {
			for cursor, more := "0", true; more; more = cursor != "0" {
				m, err := node.Do(ctx, "SCAN", cursor, "MATCH", tier.QueuesPattern, "COUNT", scanPage)
				if err != nil {
					yield("", err)
					return
				}
				page, err := m.AsScanEntry()
				if err != nil {
					yield("", tier.Wrap("SCAN", node.Addr, err))
					return
				}
				cursor = strconv.FormatUint(page.Cursor, 10)
				for _, key := range page.Elements {
					name := queueOf(key)
					if name == "" || seen[name] {
						continue
					}
					if seen[name] = true; !yield(name, nil) {
						return
					}
				}
			}
		}
	}
}

// queueOf is the queue that a key says there is; "" for another key.
func queueOf(key string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(key, "emq:{"), "}")
	if tier.CheckName("scope", name) != nil {
		return ""
	}
	switch q := tier.Queue(name); key {
	case q.JobsKey(), q.WorkersKey(), q.SchedulesKey(), q.QueueKey():
		return name
	}
	return ""
}
