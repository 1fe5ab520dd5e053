package queue

import (
	"context"
	"maps"
	"slices"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// listLane lists the jobs of a lane.
func (c *Client) listLane(ctx context.Context, lane string, yield func(Info, error) bool) bool {
	log, b := c.queue.LaneKey(lane), c.client.B()
	for from := "-"; from != ""; {
		m, err := c.client.Do(ctx, log, b.Xrange().Key(log).Start(from).End("+").Count(listPage).Build())
		if err != nil {
			return yield(Info{}, err)
		}
		entries, err := m.AsXRangeSlices()
		if err != nil || len(entries) == 0 {
			return err == nil || yield(Info{}, tier.Wrap("XRANGE", log, err))
		}
		end := entries[len(entries)-1].ID
		held, err := c.pendingRows(ctx, log, entries[0].ID, end)
		if err != nil {
			return yield(Info{}, err)
		}
		for i := range entries {
			info, ok := listed(lane, entries[i].FieldValues)
			if row, is := held[entries[i].ID]; ok && is {
				err = info.readPending(row)
			}
			if (ok || err != nil) && !yield(info, err) {
				return false
			}
		}
		if from = "(" + end; len(entries) < listPage {
			return true
		}
	}
	return true
}

// listActive lists the active jobs of a lane, however many ready ones it has.
func (c *Client) listActive(ctx context.Context, lane string, yield func(Info, error) bool) bool {
	log, b := c.queue.LaneKey(lane), c.client.B()
	for from := "-"; from != ""; {
		held, err := c.pendingRows(ctx, log, from, "+")
		if err != nil || len(held) == 0 {
			return err == nil || yield(Info{}, err)
		}
		ids := inOrder(held)
		reads := make([]rueidis.Completed, len(ids))
		for i, id := range ids {
			reads[i] = b.Xrange().Key(log).Start(id).End(id).Build()
		}
		results, err := c.client.DoMulti(ctx, log, reads...)
		if err != nil {
			return yield(Info{}, err)
		}
		for i, id := range ids {
			entries, err := results[i].AsXRangeSlices()
			if err != nil || len(entries) == 0 { // done meanwhile
				if err != nil && !yield(Info{}, tier.Wrap("XRANGE", log, err)) {
					return false
				}
				continue
			}
			info, ok := listed(lane, entries[0].FieldValues)
			if err := info.readPending(held[id]); (ok || err != nil) && !yield(info, err) {
				return false
			}
		}
		from = "(" + ids[len(ids)-1]
	}
	return true
}

// pendingRows are a page of the pending list of a lane, by entries.
func (c *Client) pendingRows(ctx context.Context, log, from, to string) (map[string]rueidis.RedisMessage, error) {
	m, err := c.client.Do(ctx, log, c.client.B().Xpending().Key(log).Group(group).Start(from).End(to).Count(listPage).Build())
	if tier.Classify(err) == tier.ErrNoGroup {
		return nil, nil // the lane has gone
	}
	if err != nil {
		return nil, err
	}
	rows, err := m.ToArray()
	if err != nil {
		return nil, tier.Wrap("XPENDING", log, err)
	}
	held := make(map[string]rueidis.RedisMessage, len(rows))
	for _, r := range rows {
		row, err := tier.Parts("XPENDING", r, 4)
		if err != nil {
			return nil, err
		}
		entry, err := row[0].ToString()
		if err != nil {
			return nil, tier.Wrap("XPENDING", log, err)
		}
		held[entry] = r
	}
	return held, nil
}

// inOrder are entries in the order of their log.
func inOrder(rows map[string]rueidis.RedisMessage) []string {
	return slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		x, _ := codec.ParseEntryID(a)
		y, _ := codec.ParseEntryID(b)
		return x.Compare(y)
	})
}

// listed reads an entry of a lane; ok is false when it is none of ours.
func listed(lane string, fields []rueidis.XRangeFieldValue) (info Info, ok bool) {
	for _, f := range fields {
		if f.Field == fieldJob {
			id, err := codec.Parse(f.Value)
			info.ID, ok = id, err == nil && id.Brand() == Brand
		}
	}
	info.State, info.Lane = Ready, lane
	info.readEntry(fields)
	return info, ok
}
