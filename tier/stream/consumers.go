package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ConsumerInfo is a consumer of a group as the server has it. Ages are by the server's clock.
type ConsumerInfo struct {
	Name    string
	Member  bool // one of ours, which beats; else of a client that knows nothing of this package
	Pending int64
	Idle    time.Duration // since the server last heard it read or claim
	Silence time.Duration // since the last beat of a member; of another, Idle
	Overdue bool          // it holds entries and has been silent for longer than the lease: others take them over
}

// GroupState says whether somebody works on a group.
type GroupState string

const (
	// Active: a consumer is alive, which is to say that it was heard of within the lease.
	Active GroupState = "active"
	// Idle: none is alive, and there is nothing to do.
	Idle GroupState = "idle"
	// Dead: none is alive, and there are entries that are unread, pending or parked.
	Dead GroupState = "dead"
	// Paused: nothing is handed out, whoever is alive, until somebody resumes the group.
	Paused GroupState = "paused"
)

// GroupDetail is a group with its consumers.
type GroupDetail struct {
	GroupInfo
	State GroupState
	// Floor: every entry at or below it is settled. Zero: nobody has written one down yet.
	Floor codec.EntryID
	Alive int            // consumers
	Who   []ConsumerInfo // by name
}

// LeaseOrDefault is how long a consumer of the group may be silent, also where another program made the group.
func (g *GroupInfo) LeaseOrDefault() time.Duration { return cmp.Or(g.Lease, DefaultLease) }

// GroupDetails lists the groups of a stream with their consumers, by name. A stream that does not exist has none.
func GroupDetails(ctx context.Context, client *tier.Client, address string) ([]GroupDetail, error) {
	groups, err := Groups(ctx, client, address)
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	p, err := newLogPlace(client, address)
	if err != nil {
		return nil, err
	}
	now, err := client.Now(ctx, p.addr.LogKey())
	if err != nil {
		return nil, err
	}
	var list []GroupDetail
	for _, g := range groups {
		d := GroupDetail{GroupInfo: g}
		err := p.detail(ctx, &d, now)
		if errors.Is(err, tier.ErrNoGroup) {
			continue // it was deleted since
		}
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

func (p *place) detail(ctx context.Context, d *GroupDetail, now time.Time) error {
	b, key := p.client.B, p.addr.LogKey()
	ask := []rueidis.Completed{b().XinfoConsumers().Key(key).Group(d.Name).Build()}
	ours := tier.CheckName("group", d.Name) == nil // another program's group may have any name, and has no keys of ours
	if ours {
		ask = append(ask,
			b().Hgetall().Key(p.addr.OwnersKey(d.Name)).Build(),
			b().Hget().Key(p.addr.GroupKey(d.Name)).Field(tier.FloorField).Build())
	}
	results, err := p.client.DoMulti(ctx, key, ask...)
	if err != nil {
		return err
	}
	seen, err := results[0].ToArray()
	if err != nil {
		return tier.Wrap("XINFO", key, err)
	}
	owners := map[string]string{}
	if ours {
		if owners, err = results[1].AsStrMap(); err != nil {
			return tier.Wrap("HGETALL", p.addr.OwnersKey(d.Name), err)
		}
		if floor, err := results[2].ToString(); err == nil {
			d.Floor, _ = codec.ParseEntryID(floor)
		}
	}
	if d.Who, err = consumersOf(seen, owners, now); err != nil {
		return tier.Wrap("XINFO", key, err)
	}
	d.judge()
	return nil
}

// consumersOf joins what the server lists with the members' beats. Redis lists a member only once it has read something.
func consumersOf(seen []rueidis.RedisMessage, owners map[string]string, now time.Time) ([]ConsumerInfo, error) {
	var list []ConsumerInfo
	listed := map[string]bool{}
	silence := func(member string) (time.Duration, bool) {
		ms, err := strconv.ParseInt(owners[tier.BeatField(member)], 10, 64)
		return max(0, now.Sub(time.UnixMilli(ms))), err == nil
	}
	for i := range seen {
		row, err := seen[i].AsMap()
		if err != nil {
			return nil, err
		}
		field := row["name"]
		name, err := field.ToString()
		if err != nil {
			return nil, err
		}
		c := ConsumerInfo{Name: name, Pending: number(row["pending"]), Idle: time.Duration(number(row["idle"])) * time.Millisecond}
		if c.Silence, c.Member = silence(name); !c.Member {
			c.Silence = c.Idle
		}
		list = append(list, c)
		listed[name] = true
	}
	for field := range owners {
		if name, beats := strings.CutSuffix(field, tier.BeatSuffix); beats && !listed[name] {
			c := ConsumerInfo{Name: name, Member: true}
			c.Silence, _ = silence(name)
			c.Idle = c.Silence
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b ConsumerInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// judge says which consumers are alive, and what that makes of the group.
func (d *GroupDetail) judge() {
	for i := range d.Who {
		c := &d.Who[i]
		if c.Silence <= d.LeaseOrDefault() {
			d.Alive++
			continue
		}
		c.Overdue = c.Pending > 0
	}
	switch {
	case d.Paused:
		d.State = Paused
	case d.Alive > 0:
		d.State = Active
	case d.Lag > 0 || d.Pending > 0 || d.Parked > 0:
		d.State = Dead
	default:
		d.State = Idle
	}
}
