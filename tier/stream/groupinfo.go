package stream

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// GroupInfo is a group as the server has it. Ages are by the server's clock.
type GroupInfo struct {
	Name          string
	Start         codec.EntryID // as declared; zero: head, new, or a group of another program
	Lease         time.Duration // 0: a group of another program
	Consumers     int64
	LastDelivered codec.EntryID

	// Lag is how many entries the group was not given yet; a pack is one. When the server cannot tell (entries were
	// deleted, the group was made in mid-stream), LagExact is false and Lag is as many or more.
	Lag             int64
	LagExact        bool
	OldestUnread    codec.EntryID // zero: none
	OldestUnreadAge time.Duration

	Pending          int64
	OldestPending    codec.EntryID // zero: none
	OldestPendingAge time.Duration // since it was appended

	Parked int64         // entries that failed and wait to be tried again; they are not pending
	DueIn  time.Duration // until the first of them is due; 0: it is, or none is parked
	// OldestParked is the oldest entry among those 100 that are due first and those 100 that are due last.
	OldestParked    codec.EntryID // zero: none
	OldestParkedAge time.Duration // since it was appended

	Dead          int64         // dead letters
	OldestDead    codec.EntryID // address of the first letter; zero: none
	OldestDeadAge time.Duration // since it became one

	Paused      bool      // nothing is handed out until somebody resumes the group
	PausedSince time.Time // zero where that is not known
}

// Groups lists the groups of a stream, by name. A stream that does not exist has none. The list is in memory at once,
// about 300 bytes for each group; they are asked for 250 at a time.
func Groups(ctx context.Context, client *tier.Client, address string) ([]GroupInfo, error) {
	p, err := newLogPlace(client, address)
	if err != nil {
		return nil, err
	}
	info := Info{Address: p.addr}
	if err := info.ask(ctx, client); err != nil {
		return nil, err
	}
	if info.Groups == 0 {
		return nil, nil
	}
	now, err := client.Now(ctx, p.addr.LogKey())
	if err != nil {
		return nil, err
	}
	rows, err := groupRows(ctx, client, p.addr)
	if err != nil {
		return nil, err
	}
	list := make([]GroupInfo, len(rows))
	for i, row := range rows {
		list[i] = GroupInfo{
			Name: row.name, Consumers: number(row.fields["consumers"]), Pending: number(row.fields["pending"]),
			LastDelivered: entryID(row.fields["last-delivered-id"]),
		}
		lag, known := row.fields["lag"]
		list[i].Lag, list[i].LagExact = lagOf(lag, known, list[i].LastDelivered, info)
	}
	for chunk := range slices.Chunk(list, askChunk) {
		if err := p.askGroups(ctx, chunk, now); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// groupRow is a group as XINFO GROUPS has it.
type groupRow struct {
	name   string
	fields map[string]rueidis.RedisMessage
}

func groupRows(ctx context.Context, client *tier.Client, addr tier.Address) ([]groupRow, error) {
	key := addr.LogKey()
	m, err := client.Do(ctx, key, client.B().XinfoGroups().Key(key).Build())
	if err != nil {
		return nil, err
	}
	return groupRowsOf(key, m)
}

func groupRowsOf(key string, m rueidis.RedisMessage) ([]groupRow, error) {
	replies, err := m.ToArray()
	if err != nil {
		return nil, tier.Wrap("XINFO", key, err)
	}
	rows := make([]groupRow, len(replies))
	for i := range replies {
		if rows[i].fields, err = replies[i].AsMap(); err != nil {
			return nil, tier.Wrap("XINFO", key, err)
		}
		name := rows[i].fields["name"]
		if rows[i].name, err = name.ToString(); err != nil {
			return nil, tier.Wrap("XINFO", key, err)
		}
	}
	return rows, nil
}

const (
	groupQuestions = 6   // commands for each group
	parkedSample   = 100 // parked entries that are looked at from either end
)

// askGroups fills in what XINFO does not say of groups. Those of other programs may have names that ours cannot have; they
// have no keys of ours.
func (p *place) askGroups(ctx context.Context, groups []GroupInfo, now time.Time) error {
	key, b := p.addr.LogKey(), p.client.B
	var ours []*GroupInfo
	var cmds []rueidis.Completed
	unread := tier.Call{Script: unreadScript, Keys: []string{key}}
	letters := tier.Call{Script: oldestScript}
	for i := range groups {
		g := &groups[i]
		if tier.CheckName("group", g.Name) != nil {
			continue
		}
		ours = append(ours, g)
		unread.Args = append(unread.Args, g.LastDelivered.String())
		letters.Keys = append(letters.Keys, p.addr.DeadKey(g.Name))
		retry := p.addr.RetryKey(g.Name)
		cmds = append(cmds,
			b().Xpending().Key(key).Group(g.Name).Build(), // beside what is parked: an entry goes from one to the other
			b().Hmget().Key(p.addr.GroupKey(g.Name)).Field(tier.LeaseField, tier.StartField, tier.PausedField).Build(),
			b().Xlen().Key(p.addr.DeadKey(g.Name)).Build(),
			b().Zcard().Key(retry).Build(),
			b().Zrange().Key(retry).Min("0").Max(strconv.Itoa(parkedSample-1)).Withscores().Build(),
			b().Zrange().Key(retry).Min(strconv.Itoa(-parkedSample)).Max("-1").Withscores().Build())
	}
	if len(ours) == 0 {
		return nil
	}
	ids, err := p.idsOf(ctx, unread, len(ours))
	if err != nil {
		return err
	}
	dead, err := p.idsOf(ctx, letters, len(ours))
	if err != nil {
		return err
	}
	results, err := p.client.DoMulti(ctx, key, cmds...)
	if err != nil {
		return err
	}
	for i, g := range ours {
		g.OldestUnread, g.OldestUnreadAge = ids[i], age(ids[i], now)
		g.OldestDead, g.OldestDeadAge = dead[i], age(dead[i], now)
		if err := g.take(results[groupQuestions*i:], now); err != nil {
			return err
		}
	}
	return nil
}

// idsOf runs a script that answers n ids.
func (p *place) idsOf(ctx context.Context, call tier.Call, n int) ([]codec.EntryID, error) {
	m, err := p.client.Run(ctx, call)
	if err != nil {
		return nil, err
	}
	parts, err := tier.Parts(call.Script.Name, m, n)
	if err != nil {
		return nil, err
	}
	ids := make([]codec.EntryID, n)
	for i := range parts {
		ids[i] = entryID(parts[i])
	}
	return ids, nil
}

// take reads the answers to the questions about a group.
func (g *GroupInfo) take(answers []rueidis.RedisResult, now time.Time) (err error) {
	if row, err := answers[0].ToArray(); err == nil && len(row) > 1 {
		g.Pending, g.OldestPending = number(row[0]), entryID(row[1])
		g.OldestPendingAge = age(g.OldestPending, now)
	}
	if hash, err := answers[1].AsStrSlice(); err == nil && len(hash) == 3 {
		ms, _ := strconv.ParseInt(hash[0], 10, 64)
		g.Lease = time.Duration(ms) * time.Millisecond
		g.Start, _ = codec.ParseEntryID(hash[1])
		if g.Paused = hash[2] != ""; g.Paused {
			if ms, err := strconv.ParseInt(hash[2], 10, 64); err == nil {
				g.PausedSince = time.UnixMilli(ms)
			}
		}
	}
	if g.Dead, err = answers[2].AsInt64(); err != nil {
		return err
	}
	if g.Parked, err = answers[3].AsInt64(); err != nil {
		return err
	}
	return g.takeParked(answers[4:groupQuestions], now)
}

// takeParked reads what is parked, from the one that is due first and up to the one that is due last.
func (g *GroupInfo) takeParked(ends []rueidis.RedisResult, now time.Time) error {
	for i, end := range ends {
		rows, err := end.AsZScores()
		if err != nil {
			return err
		}
		for k, row := range rows {
			if i == 0 && k == 0 {
				g.DueIn = max(0, time.UnixMilli(int64(row.Score)).Sub(now))
			}
			e, err := codec.ParseEntryID(row.Member)
			if err == nil && (g.OldestParked.IsZero() || e.Compare(g.OldestParked) < 0) {
				g.OldestParked, g.OldestParkedAge = e, age(e, now)
			}
		}
	}
	return nil
}

// lagOf is the server's lag, or the best that can be said without one. The server counts what was trimmed unread, too:
// a group that stands before the first entry has not read any of those that there are.
func lagOf(lag rueidis.RedisMessage, known bool, last codec.EntryID, info Info) (int64, bool) {
	if info.Length == 0 || last.Compare(info.First) < 0 {
		return info.Length, true
	}
	if n, err := lag.AsInt64(); known && err == nil {
		return max(0, n), true
	}
	if last.Compare(info.Last) >= 0 {
		return 0, true
	}
	return info.Length, false
}

// age of an entry; none when it is zero.
func age(e codec.EntryID, now time.Time) time.Duration {
	if e.IsZero() {
		return 0
	}
	return max(0, now.Sub(e.Time()))
}
