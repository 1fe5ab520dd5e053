package queue

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/echomq/pipeline/tier"
)

// ceilingPage is of how many lanes one call counts the active jobs.
const ceilingPage = 500

// SetCeiling limits how many jobs of the queue may be active at once, over all its lanes and workers; 0 or less is no limit. It holds
// when the call has returned: what is active then goes on, and counts. A job is active from when a worker has fetched it, so that one with a large
// consumer.Config.MaxInFlight may have all the room. A call that failed leaves some uncounted, for a lease at most;
// it can be repeated.
func (c *Client) SetCeiling(ctx context.Context, jobs int) error {
	q, ceiling, counted := c.queue, strconv.Itoa(min(max(0, jobs), math.MaxInt32)), []string(nil)
	for {
		keys := []string{q.ActiveKey(), q.LeasedKey(), q.WorkersKey(), q.WakeKey()}
		page := counted[:min(len(counted), ceilingPage)]
		for _, lane := range page {
			keys = append(keys, q.LaneKey(lane))
		}
		m, err := c.client.Run(ctx, tier.Call{Script: setCeilingScript, Keys: keys, Args: append([]string{ceiling}, page...)})
		if err != nil {
			return err
		}
		if counted = counted[len(page):]; ceiling != "" {
			if counted, err = m.AsStrSlice(); err != nil {
				return tier.Wrap("set_ceiling", q.ActiveKey(), err)
			}
			slices.Sort(counted)
			counted = slices.DeleteFunc(slices.Compact(counted), func(lane string) bool { return tier.CheckName("lane", lane) != nil })
		}
		if ceiling = ""; len(counted) == 0 {
			return nil
		}
	}
}
