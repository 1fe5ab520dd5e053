package stream

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Info is a stream as the server has it.
type Info struct {
	Address tier.Address
	Brand   codec.Brand
	// Exclusive: its one writer mints the ids.
	Exclusive bool
	Removed   bool          // by its verb
	Length    int64         // entries; a pack is one
	Added     int64         // entries ever added
	First     codec.EntryID // zero: empty
	Last      codec.EntryID // the newest id given
	Groups    int64
}

// Streams lists the streams of a scope, by name.
func Streams(ctx context.Context, client *tier.Client, scope string) ([]Info, error) {
	if err := tier.CheckName("scope", scope); err != nil {
		return nil, err
	}
	row, err := scopeRow(ctx, client, scope)
	if err != nil {
		return nil, err
	}
	var list []Info
	for field, value := range row {
		name, ok := tier.StreamOfField(field)
		if !ok {
			continue
		}
		declared, _ := parseDeclaration(value) // Check tells of what cannot be read
		info := Info{Address: tier.Address{Scope: scope, Stream: name}}
		info.Brand, info.Exclusive, info.Removed = declared.brand, declared.exclusive, declared.removed
		if err := info.ask(ctx, client); err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Address.Stream, b.Address.Stream) })
	return list, nil
}

func scopeRow(ctx context.Context, client *tier.Client, scope string) (map[string]string, error) {
	key := tier.ScopeKey(scope)
	m, err := client.Do(ctx, key, client.B().Hgetall().Key(key).Build())
	if err != nil {
		return nil, err
	}
	row, err := m.AsStrMap()
	return row, tier.Wrap("HGETALL", key, err)
}

// ask fills in what XINFO STREAM says. A declared stream without a key is empty.
func (i *Info) ask(ctx context.Context, client *tier.Client) error {
	key := i.Address.LogKey()
	exists, err := client.Do(ctx, key, client.B().Exists().Key(key).Build())
	if err != nil {
		return err
	}
	if n, err := exists.AsInt64(); err != nil || n == 0 {
		return err
	}
	m, err := client.Do(ctx, key, client.B().XinfoStream().Key(key).Build())
	if err != nil {
		return err
	}
	row, err := m.AsMap()
	if err != nil {
		return tier.Wrap("XINFO", key, err)
	}
	i.Length, i.Added, i.Groups = number(row["length"]), number(row["entries-added"]), number(row["groups"])
	i.Last = entryID(row["last-generated-id"])
	if first, err := entriesOfOne(row["first-entry"]); err == nil {
		i.First = first
	}
	return nil
}

func entriesOfOne(m rueidis.RedisMessage) (codec.EntryID, error) {
	pair, err := m.ToArray()
	if err != nil || len(pair) == 0 {
		return codec.EntryID{}, fmt.Errorf("stream: no first entry: %w", err)
	}
	return entryID(pair[0]), nil
}

// number is 0 where the server says nil.
func number(m rueidis.RedisMessage) int64 {
	n, _ := m.AsInt64()
	return n
}

func entryID(m rueidis.RedisMessage) codec.EntryID {
	text, _ := m.ToString()
	id, _ := codec.ParseEntryID(text)
	return id
}

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

	Dead int64 // dead letters
}

// Groups lists the groups of a stream, by name. A stream that does not exist has none.
func Groups(ctx context.Context, client *tier.Client, address string) ([]GroupInfo, error) {
	p, err := newPlace(client, address)
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
	key := p.addr.LogKey()
	m, err := client.Do(ctx, key, client.B().XinfoGroups().Key(key).Build())
	if err != nil {
		return nil, err
	}
	rows, err := m.ToArray()
	if err != nil {
		return nil, tier.Wrap("XINFO", key, err)
	}
	list := make([]GroupInfo, len(rows))
	for i := range rows {
		row, err := rows[i].AsMap()
		if err != nil {
			return nil, tier.Wrap("XINFO", key, err)
		}
		if list[i], err = p.groupInfo(ctx, row, info, now); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (p *place) groupInfo(ctx context.Context, row map[string]rueidis.RedisMessage, info Info, now time.Time) (GroupInfo, error) {
	nameField := row["name"]
	name, err := nameField.ToString()
	if err != nil {
		return GroupInfo{}, err
	}
	g := GroupInfo{
		Name: name, Consumers: number(row["consumers"]), Pending: number(row["pending"]),
		LastDelivered: entryID(row["last-delivered-id"]),
	}
	lag, known := row["lag"]
	g.Lag, g.LagExact = lagOf(lag, known, g.LastDelivered, info)

	if tier.CheckName("group", name) != nil {
		return g, nil // of another program; it has no keys of ours
	}
	b, key := p.client.B, p.addr.LogKey()
	results, err := p.client.DoMulti(ctx, key,
		b().Xrange().Key(key).Start("("+g.LastDelivered.String()).End("+").Count(1).Build(),
		b().Xpending().Key(key).Group(name).Build(),
		b().Hmget().Key(p.addr.GroupKey(name)).Field(tier.LeaseField, tier.StartField).Build(),
		b().Xlen().Key(p.addr.DeadKey(name)).Build(),
	)
	if err != nil {
		return g, err
	}
	if unread, err := results[0].ToMessage(); err == nil {
		if entries, err := entriesOf(unread); err == nil && len(entries) > 0 {
			g.OldestUnread = entries[0].ID
			g.OldestUnreadAge = age(g.OldestUnread, now)
		}
	}
	if summary, err := results[1].ToArray(); err == nil && len(summary) > 1 && g.Pending > 0 {
		g.OldestPending = entryID(summary[1])
		g.OldestPendingAge = age(g.OldestPending, now)
	}
	if hash, err := results[2].AsStrSlice(); err == nil && len(hash) == 2 {
		ms, _ := strconv.ParseInt(hash[0], 10, 64)
		g.Lease = time.Duration(ms) * time.Millisecond
		g.Start, _ = codec.ParseEntryID(hash[1])
	}
	g.Dead, err = results[3].AsInt64()
	return g, err
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

func age(e codec.EntryID, now time.Time) time.Duration { return max(0, now.Sub(e.Time())) }
