package stream

import (
	"context"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// guardedFrom is from how many entries on a settle takes two round trips without a script rather than one with it.
const guardedFrom = 64

// Settle settles entries, at most 4096, and returns how many of them were pending. One of which the server has a row,
// which Leased.Open tells, is ended by Commit, which removes that.
func (m *Member) Settle(ctx context.Context, entries []codec.EntryID) (acked int, err error) {
	if err := bounded(len(entries)); err != nil || len(entries) == 0 {
		return 0, err
	}
	args := textsOf(m.identify(), entries)
	if len(entries) >= guardedFrom {
		if acked, ran, err := m.settleGuarded(ctx, args); ran || err != nil {
			return acked, err
		}
	}
	return m.fenced(ctx, settleScript, m.logAndOwners(), args)
}

// settleGuarded is settle.lua for many entries: it settles while the member's number is what it was. What it has not done,
// since some member has just shown that it is alive, or this one is fenced, the script does or refuses.
func (m *Member) settleGuarded(ctx context.Context, args []string) (acked int, ran bool, err error) {
	p := m.group.place
	key, group, number, ids := p.addr.LogKey(), args[0], args[2], args[3:]
	reply, ran, err := m.guard.Do(ctx, number, p.client.B().Xack().Key(key).Group(group).Id(ids...).Build())
	if err != nil || !ran {
		return 0, ran, err
	}
	n, err := reply.AsInt64()
	return int(n), true, err
}

// guardOf guards the number of a member.
func guardOf(g *Group, member string) *tier.Guard {
	return g.place.client.Guard(g.place.addr.OwnersKey(g.cfg.Name), member)
}
