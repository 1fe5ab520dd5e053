package stream

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	// parkedPage is how many parked entries one call brings: packs among them may be large.
	parkedPage = 32
	// parkedTries are those of a page: who lists many would else begin again with each connection that breaks.
	parkedTries = 3
)

// takenUp is the least score in retry of an entry that the owner of a cursor has taken up, see due_owned.lua.
const takenUp = 1 << 52

// dueAt is when an entry is due that has a score in retry, suspect, taken up, or both.
func dueAt(score int64) int64 {
	switch {
	case score < 0:
		return score + takenUp
	case score >= takenUp+takenUp/2:
		return score - takenUp - takenUp/2
	case score >= takenUp:
		return score - takenUp
	}
	return score
}

// Parked lists the messages of the group that are parked, whoever parked them, in no order: with their keys, which are read
// from the log, and when they are due. It goes through them page by page, so one that is parked or taken up meanwhile may
// be listed or not. What was trimmed is left out: Due tells of it. It may take longer than a lease: stay is called between
// two pages, to Renew what is held; an error of it that another try does not change ends the list. Nil does nothing.
func (m *Member) Parked(ctx context.Context, stay func(context.Context) error) ([]tier.Parked, error) {
	return m.group.place.parked(ctx, m.group.cfg.Name, m.leased, nil, stay)
}

// Parked lists what the cursor has parked, as that of a member does; without what this owner has taken up. What it does not
// know to be taken up, Due gives out again.
func (o *Owner) Parked(ctx context.Context, stay func(context.Context) error) ([]tier.Parked, error) {
	return o.cursor.place.parked(ctx, o.cursor.cfg.Name, o.leased, func(e codec.EntryID) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		_, taken := o.taken[e]
		o.astray = o.astray || !taken
		return taken
	}, stay)
}

// parked reads what is parked.
func (p *place) parked(ctx context.Context, name string, lease leasing, taken func(codec.EntryID) bool, stay func(context.Context) error) (parked []tier.Parked, err error) {
	if stay == nil {
		stay = func(context.Context) error { return nil }
	}
	now, err := p.client.Now(ctx, p.addr.LogKey())
	if err != nil {
		return nil, err
	}
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var due []string // entry, ms, ...
		if due, cursor, err = p.scanRetry(ctx, name, cursor); err != nil {
			return nil, err
		}
		for try := 1; len(due) > 0; try++ {
			n := min(len(due), 2*parkedPage)
			page, err := p.parkedOf(ctx, name, lease, taken, parked, due[:n], now.UnixMilli())
			if err == nil {
				parked, due, try = page, due[n:], 0
				err = stay(ctx)
			}
			if err != nil && (try == parkedTries || !repeatable(err) || !tier.Pause(ctx, tier.CallDelay(try))) {
				return nil, err
			}
		}
	}
	return parked, nil
}

func (p *place) scanRetry(ctx context.Context, name string, cursor uint64) (due []string, next uint64, err error) {
	key := p.addr.RetryKey(name)
	reply, err := p.client.Do(ctx, key, p.client.B().Zscan().Key(key).Cursor(cursor).Count(1000).Build())
	if err != nil {
		return nil, 0, err
	}
	page, err := reply.AsScanEntry()
	if err != nil {
		return nil, 0, tier.Wrap("ZSCAN", key, err)
	}
	return page.Elements[:len(page.Elements)&^1], page.Cursor, nil
}

// parkedOf appends the messages of a page of parked entries.
func (p *place) parkedOf(ctx context.Context, name string, lease leasing, taken func(codec.EntryID) bool, dst []tier.Parked, due []string, now int64) ([]tier.Parked, error) {
	log, open := p.addr.LogKey(), p.addr.OpenKey(name)
	ids, cmds := make([]string, 0, len(due)/2), make([]rueidis.Completed, 0, len(due)/2)
	delays := make(map[codec.EntryID]time.Duration, len(due)/2)
	for i := 0; i < len(due); i += 2 {
		id, err := codec.ParseEntryID(due[i])
		if err != nil {
			continue // of another program
		}
		at, _ := strconv.ParseFloat(due[i+1], 64)
		if at >= takenUp && taken != nil && taken(id) {
			continue
		}
		delays[id] = time.Duration(dueAt(int64(at))-now) * time.Millisecond
		ids = append(ids, due[i])
		cmds = append(cmds, p.client.B().Xrange().Key(log).Start(due[i]).End(due[i]).Build())
	}
	if len(ids) == 0 {
		return dst, nil
	}
	reply, err := p.client.Do(ctx, open, p.client.B().Hmget().Key(open).Field(ids...).Build())
	if err != nil {
		return nil, err
	}
	rows, err := tier.Texts("HMGET "+open, reply, len(ids))
	if err != nil {
		return nil, err
	}
	results, err := p.client.DoMulti(ctx, log, cmds...)
	if err != nil {
		return nil, err
	}
	for i := range results {
		reply, err := results[i].ToMessage()
		if err != nil {
			return nil, tier.Wrap("XRANGE", log, err)
		}
		entries, err := entriesOf(reply)
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			id, _ := codec.ParseEntryID(ids[i])
			if e, ok, err := p.pastEntry(ctx, id); err != nil {
				return nil, err
			} else if ok {
				entries = append(entries, e)
			}
		}
		leased, err := lease(ctx, entries, nil)
		if err != nil {
			return nil, err
		}
		for k := range leased {
			open, _ := openOf(rows[i], 0, now)
			narrow(&leased[k], open)
			for _, r := range leased[k].Records {
				dst = append(dst, tier.Parked{Position: r.Position, Key: r.Key, Delay: delays[leased[k].Entry]})
			}
		}
	}
	return dst, nil
}
