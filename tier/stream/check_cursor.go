package stream

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// cursorValues are the values that a cursor has, and whether it has each of them always.
var cursorValues = map[string]bool{
	"owner": true, "epoch": true, "until": true, "lease": true, "start": true, "at": true, "above": true, "commit": true, "reach": true,
	"crashes": true, "live": true, "added": true, "passed": false, "paused": false,
}

// cursors audits those of a stream, with what each has parked and given up.
func (c *check) cursors(ctx context.Context, addr tier.Address, hasLog bool) error {
	key := addr.CursorsKey()
	p := &place{client: c.client, addr: addr}
	rows, faults, err := p.cursorFaults(ctx)
	if err != nil {
		return err
	}
	if len(faults) > 0 { // the log may have been removed between the two looks, and the cursors with it
		_, again, err := p.cursorFaults(ctx)
		if err != nil {
			return err
		}
		for _, what := range faults {
			if slices.Contains(again, what) {
				c.broken(key, "%s", what)
			}
		}
	}
	var groups []groupRow
	if hasLog {
		if groups, err = groupRows(ctx, c.client, addr); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if tier.CheckName("cursor", name) != nil {
			continue
		}
		if err := c.cursor(ctx, audited{addr: addr, name: name, cursor: true, deleted: rows[name]["epoch"] == ""}, groups); err != nil {
			return err
		}
	}
	return nil
}

// cursorFaults looks at the rows first, and then at the log, which only grows.
func (p *place) cursorFaults(ctx context.Context) (rows map[string]map[string]string, faults []string, err error) {
	if rows, err = p.cursorFields(ctx); err != nil {
		return nil, nil, err
	}
	info := Info{Address: p.addr}
	if err := info.ask(ctx, p.client); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if err := tier.CheckName("cursor", name); err != nil {
			faults = append(faults, fmt.Sprintf("has fields of %.80q: %v", name, err))
			continue
		}
		for _, what := range faultsOfCursor(rows[name], info) {
			faults = append(faults, fmt.Sprintf("cursor %s %s", name, what))
		}
	}
	return rows, faults, nil
}

// faultsOfCursor are what is wrong with the values of a cursor, of a log.
func faultsOfCursor(row map[string]string, log Info) (faults []string) {
	if when, deleted := row["deleted"]; deleted {
		switch {
		case len(row) > 1:
			return []string{"was deleted, and has values"}
		case !isNumber(when):
			return []string{fmt.Sprintf("was deleted at %.32q, not unix milliseconds", when)}
		}
		return nil
	}
	for _, value := range slices.Sorted(maps.Keys(cursorValues)) {
		if _, has := row[value]; cursorValues[value] && !has {
			faults = append(faults, "has no "+value)
		}
	}
	for _, value := range slices.Sorted(maps.Keys(row)) {
		if what := faultOfValue(value, row[value], log); what != "" {
			faults = append(faults, what)
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return placeOfCursor(row, log)
}

// faultOfValue is what is wrong with one value; empty: nothing. What is above the checkpoint is looked at once that is known to
// be one.
func faultOfValue(value, text string, log Info) string {
	switch value {
	case "owner":
		if text != "" && tier.CheckName("consumer", text) != nil {
			return fmt.Sprintf("is owned by %.80q, which is no consumer's name", text)
		}
	case "paused":
		if !isNumber(text) {
			return fmt.Sprintf("is paused since %.32q, not unix milliseconds: it is paused all the same", text)
		}
	case "epoch", "until", "commit", "added":
		if !isNumber(text) {
			return fmt.Sprintf("has the %s %.32q, which is no number", value, text)
		}
	case "lease":
		if ms, err := strconv.ParseInt(text, 10, 64); err != nil || ms < MinLease.Milliseconds() {
			return fmt.Sprintf("has the lease %.32q, not milliseconds from %d on", text, MinLease.Milliseconds())
		}
	case "start", "at", "reach", "live":
		if !isEntry(text) {
			return fmt.Sprintf("has the %s %.64q, which is no address", value, text)
		}
	case "crashes":
		words := strings.Fields(text)
		if len(words) != 1 && len(words) != 3 || !isNumber(words[0]) || slices.ContainsFunc(words[1:], func(at string) bool { return !isEntry(at) }) {
			return fmt.Sprintf("has the crashes %.64q, not how many, at which address, and up to which", text)
		}
	case "passed":
		if n, err := strconv.ParseInt(text, 10, 64); text != "" && (err != nil || n < 0 || n > log.Added) {
			return fmt.Sprintf("has passed %.32q entries, of %d that there ever were", text, log.Added)
		}
	case "above":
	default:
		return fmt.Sprintf("has the value %.32q, which no cursor has", value)
	}
	return ""
}

func isEntry(text string) bool {
	_, err := codec.ParseEntryID(text)
	return err == nil
}

// placeOfCursor are what is wrong with where a cursor stands, whose values can be read.
func placeOfCursor(row map[string]string, log Info) (faults []string) {
	added, _ := strconv.ParseInt(row["added"], 10, 64)
	start, at := entryOf(row["start"]), entryOf(row["at"])
	if added > log.Added || at.Compare(start) >= 0 && at.Compare(log.Last) > 0 { // below its start it has read nothing yet
		return []string{fmt.Sprintf("stands at %s of %d entries, and the log ends at %s after %d: it was lost, or made anew by hand; its next owner begins at its beginning",
			at, added, log.Last, log.Added)}
	}
	last := at
	for _, text := range strings.Fields(row["above"]) {
		e, err := codec.ParseEntryID(text)
		switch {
		case err != nil:
			return []string{fmt.Sprintf("is through with %.64q above its checkpoint, which is no address", text)}
		case e.Compare(last) <= 0:
			return []string{fmt.Sprintf("is through with %s above its checkpoint, which does not stand above %s", e, last)}
		case e.Compare(log.Last) > 0:
			return []string{fmt.Sprintf("is through with %s, beyond the end of the log at %s", e, log.Last)}
		}
		last = e
	}
	return nil
}

func entryOf(text string) codec.EntryID {
	e, _ := codec.ParseEntryID(text)
	return e
}

// cursor audits what lies beside a cursor's row, and that it shares its name with no group.
func (c *check) cursor(ctx context.Context, a audited, groups []groupRow) error {
	isGroup := slices.ContainsFunc(groups, func(g groupRow) bool { return g.name == a.name })
	key := a.addr.GroupKey(a.name)
	if is, err := c.areType(ctx, []string{key}, "hash"); err != nil {
		return err
	} else if is[0] && !isGroup {
		m, err := c.client.Do(ctx, key, c.client.B().Hexists().Key(key).Field(tier.LeaseField).Build())
		if err != nil {
			return err
		}
		if isGroup, err = m.AsBool(); err != nil {
			return err
		}
	}
	if isGroup {
		if !a.deleted {
			c.broken(a.addr.CursorsKey(), "cursor %s has the name of a group: both park and give up at the same keys", a.name)
		}
		return nil
	}
	return c.failed(ctx, []audited{a})
}
