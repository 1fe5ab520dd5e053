package queue

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/echomq/pipeline/tier"
)

// Counts are the jobs of a queue by their states.
type Counts struct {
	Ready     int64
	Active    int64
	Scheduled int64 // and those to be tried again
	Waiting   int64 // for their children
	Dead      int64
}

// countLanes is how many lanes one call counts through.
const countLanes = 1000

// Counts counts the jobs. It is exact for queues with active jobs in up to a thousand lanes; beyond, jobs that move meanwhile
// may be counted twice or not.
func (c *Client) Counts(ctx context.Context) (Counts, error) {
	n, err := c.count(ctx)
	return n.Counts, err
}

// counted is what one look at a queue tells.
type counted struct {
	Counts
	outbox int64
	now    time.Time // of the server
	next   time.Time // when the first scheduled job is due; zero: there is none
	others []string  // lanes that may have active jobs, which are not counted
}

func (c *Client) count(ctx context.Context) (counted, error) {
	total, err := c.countIn(ctx, nil)
	if err != nil || len(total.others) == 0 {
		return total, err
	}
	active := int64(0)
	for lanes := range slices.Chunk(total.others, countLanes) {
		if total, err = c.countIn(ctx, lanes); err != nil {
			return counted{}, err
		}
		active += total.Active
	}
	total.Ready -= active - total.Active
	total.Active = active
	return total, nil
}

// countIn counts, as far as jobs are active in the lanes.
func (c *Client) countIn(ctx context.Context, lanes []string) (total counted, err error) {
	q := c.queue
	keys := []string{q.JobsKey(), q.JobsDueKey(), q.BuriedKey(), q.WaitingKey(), q.LeasedKey(), q.OutboxKey()}
	for _, lane := range lanes {
		keys = append(keys, q.LaneKey(lane))
	}
	m, err := c.client.Run(ctx, tier.Call{Script: countsScript, Keys: keys, Args: lanes})
	if err != nil {
		return total, err
	}
	parts, err := tier.Parts("counts", m, 9)
	if err != nil {
		return total, err
	}
	var n [7]int64
	for i, part := range []int{0, 1, 2, 3, 4, 6, 7} {
		if n[i], err = parts[part].AsInt64(); err != nil {
			return total, err
		}
	}
	total = counted{
		Counts: Counts{Ready: n[0] - n[1] - n[2] - n[3] - n[4], Active: n[4], Scheduled: n[1], Waiting: n[3], Dead: n[2]},
		outbox: n[5], now: time.UnixMilli(n[6]).UTC(),
	}
	if text, err := parts[8].ToString(); err == nil && text != "" {
		ms, _ := strconv.ParseFloat(text, 64)
		total.next = time.UnixMilli(int64(ms)).UTC()
	}
	total.others, err = parts[5].AsStrSlice()
	return total, err
}
