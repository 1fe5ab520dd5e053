package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// LaneInfo is what is known of a lane that has jobs, or that was configured.
type LaneInfo struct {
	Name   string
	Ready  int64
	Active int64
	Oldest time.Time // when the first of those that are ready became so; zero: none is
	Lane
}

// lanesPage is how many lanes one round trip asks about.
const lanesPage = 100

// Lanes lists the lanes of a queue by their names, with how many of their jobs are ready and active. It reads pages, each of one
// moment.
func (c *Client) Lanes(ctx context.Context) iter.Seq2[LaneInfo, error] {
	return func(yield func(LaneInfo, error) bool) {
		names, err := c.laneNames(ctx)
		if err != nil {
			yield(LaneInfo{}, err)
			return
		}
		for page := range slices.Chunk(names, lanesPage) {
			infos, err := c.laneInfos(ctx, page)
			if err != nil {
				yield(LaneInfo{}, err)
				return
			}
			for _, info := range infos {
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// LaneInfo tells of one lane; of one without jobs, too.
func (c *Client) LaneInfo(ctx context.Context, lane string) (LaneInfo, error) {
	if err := tier.CheckName("lane", lane); err != nil {
		return LaneInfo{}, err
	}
	infos, err := c.laneInfos(ctx, []string{lane})
	if err != nil {
		return LaneInfo{}, err
	}
	return infos[0], nil
}

// laneNames are the lanes that have jobs, or that were configured.
func (c *Client) laneNames(ctx context.Context) ([]string, error) {
	all := map[string]bool{}
	err := c.client.ScanHash(ctx, c.queue.LanesKey(), func(lane, _ string) { all[lane] = true })
	for _, key := range []string{c.queue.RingKey(), c.queue.LeasedKey()} {
		if err == nil {
			err = c.scanSet(ctx, key, func(lane string) { all[lane] = true })
		}
	}
	maps.DeleteFunc(all, func(lane string, _ bool) bool { return tier.CheckName("lane", lane) != nil }) // which Check tells
	return slices.Sorted(maps.Keys(all)), err
}

// scanSet goes through a sorted set by pages. A member may come twice when the set is changed meanwhile.
func (c *Client) scanSet(ctx context.Context, key string, member func(string)) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		m, err := c.client.Do(ctx, key, c.client.B().Zscan().Key(key).Cursor(cursor).Count(1000).Build())
		if err != nil {
			return err
		}
		page, err := m.AsScanEntry()
		if err != nil {
			return tier.Wrap("ZSCAN", key, err)
		}
		for i := 0; i+1 < len(page.Elements); i += 2 {
			member(page.Elements[i])
		}
		cursor = page.Cursor
	}
	return nil
}

func (c *Client) laneInfos(ctx context.Context, names []string) ([]LaneInfo, error) {
	keys := []string{c.queue.LanesKey()}
	for _, name := range names {
		keys = append(keys, c.queue.LaneKey(name))
	}
	m, err := c.client.Run(ctx, tier.Call{Script: lanesScript, Keys: keys, Args: names})
	if err != nil {
		return nil, err
	}
	reply, err := tier.Parts("lanes", m, 4*len(names))
	if err != nil {
		return nil, err
	}
	infos := make([]LaneInfo, len(names))
	for i, name := range names {
		row, err1 := reply[4*i].ToString()
		length, err2 := reply[4*i+1].AsInt64()
		active, err3 := reply[4*i+2].AsInt64()
		oldest, err4 := reply[4*i+3].ToString()
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return nil, fmt.Errorf("queue: lanes: %w", err)
		}
		infos[i] = LaneInfo{Name: name, Lane: laneOf(row), Ready: length - active, Active: active}
		if entry, err := codec.ParseEntryID(oldest); err == nil {
			infos[i].Oldest = time.UnixMilli(int64(entry.Ms)).UTC()
		}
	}
	return infos, nil
}

// laneOf reads '<weight> <ceiling> <paused>', and '<jobs> <ms>' of a rate; what cannot be read is as that of a lane that was not
// configured.
func laneOf(row string) Lane {
	l, words := Lane{Weight: 1}, strings.Fields(row)
	if len(words) < 3 {
		return l
	}
	if w, err := strconv.ParseFloat(words[0], 64); err == nil {
		l.Weight = w
	}
	l.Ceiling, _ = strconv.Atoi(words[1])
	if ms, _ := strconv.ParseInt(words[2], 10, 64); ms > 0 {
		l.Paused = time.UnixMilli(ms).UTC()
	}
	l.Rate = rateOf(words[3:])
	return l
}
