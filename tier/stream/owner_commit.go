package stream

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// committing is a commit that was sent: the owner's unsure one while it is under way, and until its outcome is known.
type committing struct {
	number  uint64
	entries []codec.EntryID
	endings []tier.Ending // nil: nothing but settled
	at      codec.EntryID
	above   string
	passed  int64 // up to it

	expected Expected
}

// has tells whether it is about an entry; nil is about none.
func (c *committing) has(e codec.EntryID) bool { return c != nil && slices.Contains(c.entries, e) }

// Settle settles entries, and returns how many of them were held.
func (o *Owner) Settle(ctx context.Context, entries []codec.EntryID) (int, error) {
	if err := bounded(len(entries)); err != nil || len(entries) == 0 {
		return 0, err
	}
	return o.end(ctx, entries, nil, Expected{})
}

// Commit ends deliveries as Member.Commit does, in the step that moves the checkpoint.
func (o *Owner) Commit(ctx context.Context, endings []tier.Ending) error {
	entries := make([]codec.EntryID, len(endings))
	for i := range endings {
		entries[i] = endings[i].Entry
	}
	_, err := o.end(ctx, entries, endings, Expected{})
	return err
}

// Advance commits entries of which few have more to say than that they are through: the endings of those, in their order,
// and of what Due gave out.
//
// Errors: those of Commit; ErrUnexpected.
func (o *Owner) Advance(ctx context.Context, entries []codec.EntryID, endings []tier.Ending, expected Expected) error {
	if err := bounded(len(entries)); err != nil || len(entries) == 0 {
		return err
	}
	_, err := o.end(ctx, entries, endings, expected)
	return err
}

// end makes one commit. One before it of unknown outcome is sent again first: its number stands for what it held.
func (o *Owner) end(ctx context.Context, entries []codec.EntryID, endings []tier.Ending, expected Expected) (int, error) {
	o.ending.Lock()
	defer o.ending.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch == "" {
		return 0, tier.ErrFenced
	}
	n := 0
	for _, e := range entries {
		if o.holds(e) {
			n++
		}
	}
	if o.unsure != nil {
		if err := o.send(ctx, o.unsure); err != nil {
			return 0, err
		}
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e codec.EntryID) bool { return !o.holds(e) })
	endings = slices.DeleteFunc(slices.Clone(endings), func(e tier.Ending) bool { return !o.holds(e.Entry) })
	if len(entries) == 0 {
		return n, nil
	}
	c := &committing{number: o.commit + 1, entries: entries, endings: endings, expected: expected}
	c.at, c.above, c.passed = o.after(entries)
	return n, o.send(ctx, c)
}

// holds tells whether an entry was given out and is not through.
func (o *Owner) holds(e codec.EntryID) bool {
	i, found := o.find(e)
	_, taken := o.taken[e]
	return taken || found && !o.ahead[i].through
}

// find is the place of an entry among what was read. Whoever asks mostly asks for one after another.
func (o *Owner) find(e codec.EntryID) (int, bool) {
	if i := o.found + 1; i < len(o.ahead) && o.ahead[i].entry == e {
		o.found = i
		return i, true
	}
	i, found := slices.BinarySearchFunc(o.ahead, e, func(p passage, e codec.EntryID) int { return p.entry.Compare(e) })
	if found {
		o.found = i
	}
	return i, found
}

// after is the checkpoint, what is through above it, and how many entries there were up to it, once entries are through as
// well.
func (o *Owner) after(entries []codec.EntryID) (at codec.EntryID, above string, passed int64) {
	done := make([]bool, len(o.ahead))
	for _, e := range entries {
		if i, found := o.find(e); found {
			done[i] = true
		}
	}
	at, passed = o.at, o.passed
	var list strings.Builder
	gap := false
	for i, p := range o.ahead {
		switch through := p.through || done[i]; {
		case !through:
			gap = true
		case !gap:
			if at = p.entry; passed >= 0 {
				passed++
			}
		default:
			list.WriteString(p.entry.String())
			list.WriteByte(' ')
		}
	}
	for _, e := range o.above { // not read again yet, so above all that was
		list.WriteString(e.String())
		list.WriteByte(' ')
	}
	return at, strings.TrimSuffix(list.String(), " "), passed
}

// send makes a commit, for who holds both locks; mu it gives up until the reply is here.
func (o *Owner) send(ctx context.Context, c *committing) error {
	before, sent, write := o.unsure, time.Now(), o.writing(c)
	o.unsure = c
	o.mu.Unlock()
	err := write(ctx)
	o.mu.Lock()
	switch {
	case err == nil:
		o.confirmed = sent
		if o.unsure == c { // else Due has found what it did
			o.absorb(c)
		}
	case tier.OutcomeUnknown(err):
	case errors.As(err, new(*tier.OutputError)), errors.Is(err, ErrUnexpected): // nor had an earlier sending of it an effect
		o.unsure = nil
	case o.unsure == c:
		o.unsure = before
	}
	return err
}

// writing is the call of a commit, which needs no lock.
func (o *Owner) writing(c *committing) func(ctx context.Context) error {
	p, name, number := o.cursor.place, o.cursor.cfg.Name, strconv.FormatUint(c.number, 10)
	if c.endings != nil {
		call := commitment{
			place: p, name: name, fence: p.addr.CursorsKey(), member: o.name, number: o.epoch,
			commit: number, at: c.at.String(), above: c.above, passed: c.passedText(), expected: c.expected,
		}
		endings := o.telling(c.endings)
		fields := o.fields(endings, c.expected)
		return func(ctx context.Context) error {
			if fields != nil {
				if ran, err := o.direct.commit(ctx, &call, fields); ran || err != nil {
					return err
				}
			}
			_, err := call.run(ctx, endings)
			return err
		}
	}
	args := []string{name, o.name, o.epoch, number, c.at.String(), c.above, c.passedText()}
	for _, e := range c.entries {
		if _, taken := o.taken[e]; taken {
			args = append(args, e.String())
		}
	}
	keys := []string{p.addr.CursorsKey(), p.addr.RetryKey(name), p.addr.OpenKey(name)}
	return func(ctx context.Context) error {
		m, err := p.client.Run(ctx, tier.Call{Script: advanceScript, Keys: keys, Args: args})
		if err != nil {
			return err
		}
		n, err := m.AsInt64()
		if err == nil && n < 0 {
			return tier.ErrFenced
		}
		return err
	}
}

// telling are the endings that say something beside what the checkpoint says: an entry that was read in its order and settled
// has no row to remove.
func (o *Owner) telling(endings []tier.Ending) []tier.Ending {
	return slices.DeleteFunc(slices.Clone(endings), func(e tier.Ending) bool {
		_, taken := o.taken[e.Entry]
		return !taken && len(e.Open)+len(e.Dead)+len(e.Outputs) == 0
	})
}

func (c *committing) passedText() string {
	if c.passed < 0 {
		return ""
	}
	return strconv.FormatInt(c.passed, 10)
}

// absorb notes that a commit has had its effect.
func (o *Owner) absorb(c *committing) {
	o.commit, o.unsure, o.at, o.passed = c.number, nil, c.at, c.passed
	for _, e := range c.entries {
		if i, found := o.find(e); found {
			o.ahead[i].through = true
		}
		delete(o.taken, e)
	}
	n := 0
	for n < len(o.ahead) && o.ahead[n].through && o.ahead[n].entry.Compare(c.at) <= 0 { // what was read since is for the next one
		n++
	}
	o.ahead, o.found = slices.Delete(o.ahead, 0, n), -1
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Renew keeps the ownership for another lease. Nothing that it holds is gone before it is settled.
func (o *Owner) Renew(ctx context.Context, _ []codec.EntryID) ([]codec.EntryID, error) {
	o.mu.Lock()
	epoch := o.epoch
	o.mu.Unlock()
	if epoch == "" {
		return nil, nil
	}
	return nil, o.keep(ctx, epoch)
}

func (o *Owner) keep(ctx context.Context, epoch string) error {
	o.mu.Lock()
	reach := later(o.told, o.read)
	o.mu.Unlock()
	sent := time.Now()
	a := o.cursor.place.addr
	m, err := o.cursor.place.client.Run(ctx, tier.Call{
		Script: keepScript, Keys: []string{a.LogKey(), a.CursorsKey()}, Args: []string{o.cursor.cfg.Name, o.name, epoch, reach.String()},
	})
	if err != nil {
		return err
	}
	n, err := m.AsInt64()
	if err != nil {
		return err
	}
	if n < 0 {
		return tier.ErrFenced
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch == epoch {
		o.confirmed, o.paused = sent, n == 0
	}
	return nil
}

// Leave hands the cursor over, unless handlers that do not end hold something of it: then others wait for the lease.
func (o *Owner) Leave(ctx context.Context) error {
	o.Close()
	o.ending.Lock()
	defer o.ending.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch == "" {
		return nil
	}
	back := make(map[codec.EntryID]bool, len(o.returned))
	for _, g := range o.returned {
		back[g.Entry] = true
	}
	if slices.ContainsFunc(o.held(), func(h tier.Held) bool { return !back[h.Entry] }) {
		return nil
	}
	_, err := o.cursor.place.client.Run(ctx, tier.Call{
		Script: handOverScript, Keys: []string{o.cursor.place.addr.CursorsKey()}, Args: []string{o.cursor.cfg.Name, o.name, o.epoch},
	})
	if err == nil {
		o.epoch, o.askAt = "", time.Now()
	}
	return err
}

// Rebuild has nothing to do: a cursor that the server has lost is made again by Sync.
func (o *Owner) Rebuild(context.Context) (tier.Rebuilt, error) {
	return tier.Rebuilt{How: tier.Found}, nil
}

// Checkpoint has nothing to do: each commit moves the checkpoint.
func (o *Owner) Checkpoint(context.Context) error { return nil }

// Retire has nothing to do: a member that does not own leaves no trace.
func (o *Owner) Retire(context.Context) error { return nil }
