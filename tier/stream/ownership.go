package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// ownership is what acquire.lua answers.
type ownership struct {
	code        string
	epoch       string
	commit      uint64
	at          codec.EntryID
	above       []codec.EntryID
	crashes     int
	reach       codec.EntryID
	start, live codec.EntryID
	lease       time.Duration
	wait        time.Duration
	passed      int64 // below 0: not known
	paused      bool
}

// acquire asks for the ownership; lost says that the caller knows there was such a cursor. Once sent it is not cut off: an ownership that
// nobody knows of would keep the others waiting for a lease.
func (c *Cursor) acquire(ctx context.Context, member string, lost bool) (ownership, error) {
	lease, was := c.cfg.Lease, "0"
	if lease == 0 {
		lease = DefaultLease
	}
	if lost {
		was = "1"
	}
	if ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	a := c.place.addr
	m, err := c.place.client.Run(ctx, tier.Call{
		Script: acquireScript,
		Keys:   []string{a.LogKey(), a.CursorsKey(), tier.ScopeKey(a.Scope), a.GroupKey(c.cfg.Name), a.RetryKey(c.cfg.Name), a.OpenKey(c.cfg.Name)},
		Args:   []string{tier.StreamField(a.Stream), c.cfg.Name, member, millis(lease), c.cfg.Start.after(), c.cfg.Start.at.String(), was},
	})
	if err != nil {
		return ownership{}, err
	}
	reply, err := tier.Parts("acquire", m, 14)
	if err != nil {
		return ownership{}, err
	}
	text := make([]string, len(reply))
	for i := range reply {
		if text[i], err = reply[i].ToString(); err != nil {
			n, _ := reply[i].AsInt64()
			text[i] = strconv.FormatInt(n, 10)
		}
	}
	return c.ownershipOf(text)
}

func (c *Cursor) ownershipOf(text []string) (o ownership, err error) {
	o.code, o.epoch, o.paused = text[0], text[1], text[13] != ""
	if o.passed, err = strconv.ParseInt(text[12], 10, 64); err != nil {
		o.passed = -1
	}
	switch o.code {
	case "removed":
		return o, fmt.Errorf("%w (%s)", ErrStreamRemoved, c.place.addr)
	case "deleted":
		return o, fmt.Errorf("%w (%s of %s)", ErrCursorDeleted, c.cfg.Name, c.place.addr)
	case "group":
		return o, &NameTakenError{Stream: c.place.addr.String(), Name: c.cfg.Name, By: "group"}
	}
	var bad error
	number := func(text string) int64 {
		n, err := strconv.ParseUint(text, 10, 63)
		bad = errors.Join(bad, err)
		return int64(n)
	}
	id := func(text string) codec.EntryID {
		e, err := codec.ParseEntryID(text)
		bad = errors.Join(bad, err)
		return e
	}
	o.commit, o.crashes = uint64(number(text[2])), int(number(text[5]))
	o.at, o.reach, o.start, o.live = id(text[3]), id(text[6]), id(text[7]), id(text[8])
	for _, e := range strings.Fields(text[4]) {
		o.above = append(o.above, id(e))
	}
	o.lease, o.wait = time.Duration(number(text[9]))*time.Millisecond, time.Duration(number(text[10]))*time.Millisecond
	if bad == nil && o.lease < MinLease {
		bad = fmt.Errorf("its lease of %s is below %s", o.lease, MinLease)
	}
	if bad != nil {
		return o, fmt.Errorf("stream: cursor %s of %s: its row is damaged, see 'pipeline check %s': %w", c.cfg.Name, c.place.addr, c.place.addr.Scope, bad)
	}
	if c.cfg.Lease != 0 && o.lease != c.cfg.Lease {
		return o, &LeaseDiffersError{Group: c.cfg.Name, Have: o.lease, Ask: c.cfg.Lease}
	}
	return o, nil
}
