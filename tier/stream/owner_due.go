package stream

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// giveBack is an entry that was handed back, and is this owner's to give out again.
type giveBack struct {
	tier.Returned
	due time.Time
}

// Release hands entries back: they are given out again after delay, by TakeOver, or by the next owner.
func (o *Owner) Release(_ context.Context, held []tier.Returned, delay time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch == "" {
		return tier.ErrFenced
	}
	due := time.Now().Add(delay)
	for _, h := range held {
		if !o.holds(h.Entry) {
			continue
		}
		if open := o.taken[h.Entry]; len(h.Open) == 0 {
			for _, one := range open { // as it was, one delivery later
				one.Attempt++
				h.Open = append(h.Open, one)
			}
		}
		o.returned = append(o.returned, giveBack{Returned: h, due: due})
	}
	return nil
}

// TakeOver gives out what was handed back, and tells when the first parked entry is due.
func (o *Owner) TakeOver(ctx context.Context, n, _ int) (tier.Taken, error) {
	taken, err := o.due(ctx, 0)
	taken.Done = true
	if err != nil || n <= 0 || taken.Paused {
		return taken, err
	}
	now := time.Now()
	o.clearUp(ctx)
	o.mu.Lock()
	var back []giveBack
	for _, g := range o.returned {
		if o.holds(g.Entry) && !o.unsure.has(g.Entry) && len(back) < n && !g.due.After(now) { // else a commit of it had its effect after all
			back = append(back, g)
		}
	}
	o.mu.Unlock()
	if len(back) == 0 {
		return taken, nil
	}
	if taken.Leased, taken.Lost, err = o.again(ctx, back); err != nil {
		return taken, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.returned = slices.DeleteFunc(o.returned, func(g giveBack) bool {
		return !o.holds(g.Entry) || slices.ContainsFunc(back, func(b giveBack) bool { return b.Entry == g.Entry })
	})
	for _, e := range taken.Lost { // nobody will settle it
		if i, found := o.find(e); found {
			o.ahead[i].through = true
		}
		if _, found := o.taken[e]; found { // Due is told of it once more, and forgets it at the server
			delete(o.taken, e)
			o.astray = true
		}
	}
	return taken, nil
}

// clearUp sends a commit of unknown outcome again, before what was handed back is given out: what it is about stays until that is
// known.
func (o *Owner) clearUp(ctx context.Context) {
	o.mu.Lock()
	needed := o.unsure != nil && len(o.returned) > 0
	o.mu.Unlock()
	if !needed {
		return
	}
	o.ending.Lock()
	defer o.ending.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsure != nil {
		_ = o.send(ctx, o.unsure)
	}
}

// again reads entries that were handed back.
func (o *Owner) again(ctx context.Context, back []giveBack) (leased []tier.Leased, lost []codec.EntryID, err error) {
	for _, g := range back {
		e, ok, err := o.cursor.place.entry(ctx, g.Entry)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			lost = append(lost, g.Entry)
			continue
		}
		one, err := o.leased(ctx, []codec.Entry{e}, map[codec.EntryID]int{g.Entry: g.Deliveries + 1})
		if err != nil {
			return nil, nil, err
		}
		if len(g.Open) > 0 {
			narrow(&one[0], g.Open)
		}
		leased = append(leased, one...)
	}
	return leased, lost, nil
}

// Due takes up to n parked entries up again that are due: of those up to the last that it has read, so that what another
// owner parked does not come before what stands before it in the log.
func (o *Owner) Due(ctx context.Context, n int) (tier.Taken, error) {
	if n <= 0 {
		return tier.Taken{Next: -1}, nil
	}
	return o.due(ctx, min(n, MaxBatch))
}

func (o *Owner) due(ctx context.Context, n int) (tier.Taken, error) {
	archived, err := o.archived(ctx)
	if err != nil {
		return tier.Taken{Next: -1}, err
	}
	o.mu.Lock()
	epoch, astray := o.epoch, o.astray
	args := []string{o.cursor.cfg.Name, o.name, epoch, strconv.Itoa(n), "0", o.read.String(), archived}
	if astray || n == 0 { // who only asks learns whether there are any, of a call that the server made late as well
		args[4] = "1"
		for e := range o.taken {
			args = append(args, e.String())
		}
	}
	o.astray = astray || n > 0 // until the reply is here
	o.mu.Unlock()
	none := tier.Taken{Next: -1}
	if epoch == "" {
		return none, nil
	}
	p, name := o.cursor.place, o.cursor.cfg.Name
	m, err := p.client.Run(ctx, tier.Call{
		Script: dueOwnedScript,
		Keys:   []string{p.addr.LogKey(), p.addr.CursorsKey(), p.addr.RetryKey(name), p.addr.OpenKey(name)},
		Args:   args,
	})
	var taken tier.Taken
	if err == nil {
		taken, err = readDue(ctx, m, o.leased)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.astray = true
		return none, err
	}
	if o.epoch != epoch {
		return none, tier.ErrFenced
	}
	o.paused = taken.Paused
	for i := range taken.Leased {
		e := taken.Leased[i].Entry
		if o.unsure.has(e) { // it was parked by that, which had its effect: what is said of the entry from now on is news
			o.absorb(o.unsure)
		}
		o.taken[e] = taken.Leased[i].Open
	}
	if n > 0 {
		o.astray = astray && (taken.Paused || len(taken.Leased)+len(taken.Lost) >= n)
	}
	if n == 0 && taken.Next == 0 { // the next call finds out of what
		o.astray = true
	}
	return taken, nil
}
