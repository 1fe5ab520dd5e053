package stream

import (
	"context"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// audited is a group, or a cursor, of which the audit looks at what is parked, open and dead.
type audited struct {
	addr    tier.Address
	name    string
	cursor  bool
	deleted bool // of a cursor: its dead letters are left
}

func (a audited) retry() string { return a.addr.RetryKey(a.name) }
func (a audited) open() string  { return a.addr.OpenKey(a.name) }
func (a audited) dead() string  { return a.addr.DeadKey(a.name) }

// failed audits what groups or cursors have parked, what is open of that, and their dead letters.
func (c *check) failed(ctx context.Context, of []audited) error {
	retries, opens, letters := make([]string, len(of)), make([]string, len(of)), make([]string, len(of))
	for i, a := range of {
		retries[i], opens[i], letters[i] = a.retry(), a.open(), a.dead()
	}
	parked, err := c.areType(ctx, retries, "zset")
	if err != nil {
		return err
	}
	rows, err := c.areType(ctx, opens, "hash")
	if err != nil {
		return err
	}
	dead, err := c.areType(ctx, letters, "stream")
	if err != nil {
		return err
	}
	for i, a := range of {
		if a.deleted && (parked[i] || rows[i]) {
			c.broken(a.retry(), "holds what a cursor has parked that was deleted since")
		}
		if parked[i] && !a.deleted {
			err = c.parked(ctx, a)
		}
		if err == nil && rows[i] && !a.deleted {
			err = c.open(ctx, a)
		}
		if err == nil && dead[i] {
			err = c.letters(ctx, a.dead())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stand is where one entry stands, all at one moment.
type stand struct {
	entry   string
	parked  bool
	row     string // of open; empty: none
	pending bool   // or, of a cursor, still to be read
	exists  bool   // in the log
}

// fault is what is wrong with where an entry stands, and in which of the two keys; empty: nothing. An entry that was
// trimmed is none: what is parked of it is counted as lost once it is due, and its row does no harm.
func (s stand) fault(cursor bool) (inRetry bool, what string) {
	_, err := codec.ParseEntryID(s.entry)
	row, _, _ := strings.Cut(s.row, " +")      // without what due_owned.lua counts
	_, whole := strconv.ParseUint(row, 10, 64) // a row without messages: all of the entry is open
	open, _ := openOf(row, 0, 0)
	readable := whole == nil || len(open) > 0
	switch {
	case err != nil:
		return s.parked, "is no entry's id"
	case s.parked && s.row == "":
		return true, "is parked, and nothing says what is open of it"
	case s.row != "" && !readable:
		return false, "has a row that says of nothing that it is open"
	case s.parked && s.pending && cursor:
		return true, "is parked, and still to be read as well: it stands above the checkpoint, and not among what is through above it"
	case s.parked && s.pending:
		return true, "is parked, and pending as well: the group went back since it was parked, or another program claimed it; it is handled for either"
	case s.row != "" && !s.parked && s.exists && cursor:
		return false, "has a row and is not parked: another program took it out of what is"
	case s.row != "" && !s.parked && !s.pending && s.exists:
		return false, "has a row and is neither parked nor pending: another program acknowledged it, or took it out of what is parked"
	}
	return false, ""
}

// parked audits what is parked.
func (c *check) parked(ctx context.Context, a audited) error {
	for from := int64(0); ; from += askChunk {
		m, err := c.client.Do(ctx, a.retry(), c.client.B().Zrange().Key(a.retry()).Min(strconv.FormatInt(from, 10)).Max(strconv.FormatInt(from+askChunk-1, 10)).Build())
		if err != nil {
			return err
		}
		entries, err := m.AsStrSlice()
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := c.place(ctx, a, entries, func(s stand) bool { return s.parked }); err != nil {
			return err
		}
	}
}

// open audits the rows of what is not parked.
func (c *check) open(ctx context.Context, a audited) error {
	var entries []string
	if err := c.client.ScanHash(ctx, a.open(), func(field, _ string) { entries = append(entries, field) }); err != nil {
		return err
	}
	for len(entries) > 0 {
		n := min(askChunk, len(entries))
		if err := c.place(ctx, a, entries[:n], func(s stand) bool { return !s.parked }); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// place asks where entries stand, and tells what is wrong with those that concern it: they may have moved since they were
// listed.
func (c *check) place(ctx context.Context, a audited, entries []string, concerns func(stand) bool) error {
	m, err := c.client.Run(ctx, tier.Call{
		Script: whereaboutsScript, Keys: []string{a.addr.LogKey(), a.retry(), a.open(), a.addr.CursorsKey()}, Args: append([]string{a.name}, entries...),
	})
	if err != nil {
		return err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) == 0 {
		return err // the group was deleted since
	}
	if parts, err = tier.Parts("whereabouts", m, 4*len(entries)); err != nil {
		return err
	}
	for i, e := range entries {
		s := stand{entry: e, parked: number(parts[4*i]) == 1, pending: number(parts[4*i+2]) == 1, exists: number(parts[4*i+3]) == 1}
		if s.row, err = parts[4*i+1].ToString(); err != nil {
			return err
		}
		if inRetry, what := s.fault(a.cursor); what != "" && concerns(s) {
			key := a.open()
			if inRetry {
				key = a.retry()
			}
			c.broken(key, "entry %.64q, row %.64q, %s", s.entry, s.row, what)
		}
	}
	return nil
}

// letters audits a stream of dead letters.
func (c *check) letters(ctx context.Context, key string) error {
	for from := "-"; ; {
		m, err := c.client.Run(ctx, tier.Call{Script: damagedScript, Keys: []string{key}, Args: []string{from, strconv.Itoa(askChunk)}})
		if err != nil {
			return err
		}
		parts, err := tier.Parts("damaged", m, 2)
		if err != nil {
			return err
		}
		ids, err := parts[1].AsStrSlice()
		if err != nil {
			return err
		}
		for _, id := range ids {
			c.broken(key, "letter %s does not say of what entry it is, why and after how many attempts: it cannot be redriven", id)
		}
		last, err := parts[0].ToString()
		if err != nil || last == "" {
			return err
		}
		from = "(" + last
	}
}
