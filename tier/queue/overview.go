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
	// Next is when the first of those that are scheduled is due; zero: none is. Late is for how long it is due, a millisecond at
	// least, and nobody made it ready: there are no workers, or the queue is paused, or the server full.
	Next time.Time
	Late time.Duration
	// Outbox is how much of flows is to be told to parents, or sent to other queues, and is on its way.
	Outbox    int64
	Workers   int64
	Schedules int64
	Paused    time.Time     // since when; zero: it is not
	Rate      Rate          // zero: it has none
	Lease     time.Duration // of its workers; 0: it had none yet
	Ceiling   int           // of jobs that may be active at once; 0: none
	Events    int           // how many messages its events keep, about; 0: it has none
}

// Overview tells of the queue.
func (c *Client) Overview(ctx context.Context) (o Overview, err error) {
	o.Name = string(c.queue)
	n, err := c.count(ctx)
	if err != nil {
		return o, err
	}
	o.Counts, o.Next, o.Outbox = n.Counts, n.next, n.outbox
	if !n.next.IsZero() && !n.now.Before(n.next) {
		o.Late = max(time.Millisecond, n.now.Sub(n.next))
	}
	q, b := c.queue, c.client.B()
	results, err := c.client.DoMulti(ctx, q.QueueKey(),
		b.Hmget().Key(q.QueueKey()).Field("paused", "lease", tier.RateField, tier.EventsField).Build(), b.Hlen().Key(q.WorkersKey()).Build(), b.Zcard().Key(q.OccurrencesKey()).Build(),
		b.Hget().Key(q.ActiveKey()).Field("").Build())
	if err != nil {
		return o, err
	}
	m, err := results[0].ToMessage()
	if err != nil {
		return o, err
	}
	own, err := tier.Texts("HMGET", m, 4)
	if err != nil {
		return o, err
	}
	if ms, _ := strconv.ParseInt(own[0], 10, 64); ms > 0 {
		o.Paused = time.UnixMilli(ms).UTC()
	}
	lease, _ := strconv.ParseInt(own[1], 10, 64)
	o.Lease, o.Rate = time.Duration(lease)*time.Millisecond, rateOf(strings.Fields(own[2]))
	o.Events, _ = strconv.Atoi(own[3])
	if o.Workers, err = results[1].AsInt64(); err != nil {
		return o, tier.Wrap("HLEN", q.WorkersKey(), err)
	}
	o.Workers /= 2 // a number and a beat of each
	if o.Schedules, err = results[2].AsInt64(); err != nil {
		return o, tier.Wrap("ZCARD", q.OccurrencesKey(), err)
	}
	if text, err := results[3].ToString(); err == nil {
		_, ceiling, _ := strings.Cut(text, " ")
		o.Ceiling, _ = strconv.Atoi(ceiling)
	}
	return o, nil
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
