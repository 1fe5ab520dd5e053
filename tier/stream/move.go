package stream

import (
	"context"

	"github.com/echomq/pipeline/codec"
)

// Move is what a Reset would do, in messages.
type Move struct {
	Again   int           // were given to a member before, and would come again
	Skipped int           // were given to none, and would not be
	More    bool          // it was counted up to MaxCounted only: there are as many or more
	Next    codec.EntryID // the first that would come; zero: none that is there
}

// MaxCounted is up to how many messages PlanReset counts, since it reads them.
const MaxCounted = 100_000

// PlanReset says what Reset would do, and changes nothing.
//
// Errors: tier.ErrNoGroup, ErrNoStream, ErrStreamRemoved, *FutureStartError, *ArchivedStartError.
func (g *Group) PlanReset(ctx context.Context, start Start) (m Move, err error) {
	if err := g.startable(ctx, start); err != nil {
		return m, err
	}
	if err := g.place.readable(ctx); err != nil {
		return m, err
	}
	row, err := g.row(ctx)
	if err != nil {
		return m, err
	}
	was := entryID(row.fields["last-delivered-id"])
	at := start.at // of Head it is zero
	if start.kind == startNew {
		at = codec.MaxEntryID
	} else if _, err = g.count(ctx, at, codec.MaxEntryID, 1, &m.Next); err != nil {
		return m, err
	}
	if at.Compare(was) <= 0 {
		m.Again, err = g.count(ctx, at, was, MaxCounted+1, nil)
	} else {
		m.Skipped, err = g.count(ctx, was.Next(), at.Prev(), MaxCounted+1, nil)
	}
	m.More = m.Again+m.Skipped > MaxCounted
	m.Again, m.Skipped = min(m.Again, MaxCounted), min(m.Skipped, MaxCounted)
	return m, err
}

// count counts messages that are there, both ends included, up to a bound; the address of the first goes to first.
func (g *Group) count(ctx context.Context, from, to codec.EntryID, most int, first *codec.EntryID) (n int, err error) {
	c := newWalk(g.place, from, to)
	c.claim = claimNone
	(&Reader{place: g.place}).walk(ctx, c, from, to, func(r codec.Record, failed error) bool {
		if err = failed; err != nil {
			return false
		}
		if n++; n == 1 && first != nil {
			*first = r.Addr
		}
		return n < most
	})
	return n, err
}

// row is the group as XINFO GROUPS has it. tier.ErrNoGroup.
func (g *Group) row(ctx context.Context) (groupRow, error) {
	info := Info{Address: g.place.addr}
	if err := info.ask(ctx, g.place.client); err != nil {
		return groupRow{}, err
	}
	if info.Groups > 0 {
		rows, err := groupRows(ctx, g.place.client, g.place.addr)
		if err != nil {
			return groupRow{}, err
		}
		for _, r := range rows {
			if r.name == g.cfg.Name {
				return r, nil
			}
		}
	}
	return groupRow{}, g.absent("XINFO")
}
