package stream

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// CursorInfo is a cursor as the server has it.
type CursorInfo struct {
	Name  string
	Owner string        // empty: it was handed over, and nobody has asked for it since
	Epoch uint64        // grows whenever it changes hands
	Until time.Time     // when the ownership ends unless it is renewed, by the server's clock
	Lease time.Duration // of the cursor
	// Checkpoint: every entry at or below it is through. Above are those above it that are.
	Checkpoint codec.EntryID
	Above      int
	// Lag is how many entries above the checkpoint are not through; a pack is one. When it is not known how many were there
	// before it, LagExact is false and Lag is as many or more.
	Lag      int64
	LagExact bool
	// OldestUnread is the first entry above the checkpoint, when there is a lag.
	OldestUnread    codec.EntryID // zero: none
	OldestUnreadAge time.Duration // since it was appended
	passed          int64         // entries that there ever were up to the checkpoint; below 0: not known
	Parked          int64
	Dead            int64
	Crashes         int           // how often it was taken over at this checkpoint without having been handed over
	Live            codec.EntryID // messages up to it are a replay
	// Paused: nothing is read until somebody resumes the cursor, whoever owns it.
	Paused      bool
	PausedSince time.Time // zero where that is not known
	// State is Active when somebody owns it, Idle when nobody does and there is nothing to do, Dead when there is; Paused
	// whoever owns it.
	State GroupState
	// CheckpointAge is how long ago the entry of the checkpoint was appended, by the server's clock; 0: there is none.
	CheckpointAge time.Duration
}

// Owned tells whether somebody owned the cursor at a time of the server's clock.
func (c *CursorInfo) Owned(now time.Time) bool { return c.Owner != "" && c.Until.After(now) }

// Cursors lists the cursors of a stream, by name.
//
// Errors: ErrNoStream, ErrStreamRemoved.
func Cursors(ctx context.Context, client *tier.Client, address string) ([]CursorInfo, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return nil, err
	}
	if err := p.readable(ctx); err != nil {
		return nil, err
	}
	rows, err := p.cursorRows(ctx)
	if err != nil {
		return nil, err
	}
	info := Info{Address: p.addr}
	if err := info.ask(ctx, p.client); err != nil {
		return nil, err
	}
	now, err := client.Now(ctx, p.addr.LogKey())
	if err != nil {
		return nil, err
	}
	list := make([]CursorInfo, 0, len(rows))
	for name, row := range rows {
		c := cursorOf(name, row)
		if err := p.countCursor(ctx, &c, info); err != nil {
			return nil, err
		}
		c.judge(now)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b CursorInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, p.askUnread(ctx, list, now)
}

// askUnread asks for the first entry above each checkpoint.
func (p *place) askUnread(ctx context.Context, list []CursorInfo, now time.Time) error {
	for chunk := range slices.Chunk(list, askChunk) {
		call := tier.Call{Script: unreadScript, Keys: []string{p.addr.LogKey()}}
		for i := range chunk {
			call.Args = append(call.Args, chunk[i].Checkpoint.String())
		}
		ids, err := p.idsOf(ctx, call, len(chunk))
		if err != nil {
			return err
		}
		for i, id := range ids {
			if chunk[i].Lag > 0 {
				chunk[i].OldestUnread, chunk[i].OldestUnreadAge = id, age(id, now)
			}
		}
	}
	return nil
}

// judge says what state the cursor is in, and how old its checkpoint is.
func (c *CursorInfo) judge(now time.Time) {
	if !c.Checkpoint.IsZero() {
		c.CheckpointAge = max(0, now.Sub(c.Checkpoint.Time()))
	}
	switch {
	case c.Paused:
		c.State = Paused
	case c.Owned(now):
		c.State = Active
	case c.Lag+c.Parked > 0:
		c.State = Dead
	default:
		c.State = Idle
	}
}

// cursorRows are the values of each cursor that there is.
func (p *place) cursorRows(ctx context.Context) (map[string]map[string]string, error) {
	rows, err := p.cursorFields(ctx)
	for name, row := range rows {
		if row["epoch"] == "" { // the mark of one that was deleted
			delete(rows, name)
		}
	}
	return rows, err
}

// cursorFields are the values of each cursor, and the marks of those that were deleted.
func (p *place) cursorFields(ctx context.Context) (map[string]map[string]string, error) {
	key := p.addr.CursorsKey()
	m, err := p.client.Do(ctx, key, p.client.B().Hgetall().Key(key).Build())
	if err != nil {
		return nil, err
	}
	all, err := m.AsStrMap()
	if err != nil {
		return nil, err
	}
	rows := map[string]map[string]string{}
	for field, value := range all {
		name, what, _ := strings.Cut(field, ":")
		if rows[name] == nil {
			rows[name] = map[string]string{}
		}
		rows[name][what] = value
	}
	return rows, nil
}

func (p *place) cursorNames(ctx context.Context) (names []string, err error) {
	rows, err := p.cursorRows(ctx)
	for name := range rows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}

func cursorOf(name string, row map[string]string) CursorInfo {
	c := CursorInfo{Name: name, Owner: row["owner"], Above: len(strings.Fields(row["above"]))}
	c.Epoch, _ = strconv.ParseUint(row["epoch"], 10, 64)
	ms, _ := strconv.ParseInt(row["until"], 10, 64)
	c.Until = time.UnixMilli(ms)
	ms, _ = strconv.ParseInt(row["lease"], 10, 64)
	c.Lease = time.Duration(ms) * time.Millisecond
	c.Checkpoint, _ = codec.ParseEntryID(row["at"])
	c.Live, _ = codec.ParseEntryID(row["live"])
	if _, c.Paused = row[tier.PausedField]; c.Paused {
		if ms, err := strconv.ParseInt(row[tier.PausedField], 10, 64); err == nil {
			c.PausedSince = time.UnixMilli(ms)
		}
	}
	c.passed = -1
	if n, err := strconv.ParseInt(row["passed"], 10, 64); err == nil {
		c.passed = n
	}
	if crashes := strings.Fields(row["crashes"]); len(crashes) == 3 && crashes[1] == row["at"] {
		c.Crashes, _ = strconv.Atoi(crashes[0])
	}
	return c
}

// countCursor fills in what the row does not say.
func (p *place) countCursor(ctx context.Context, c *CursorInfo, info Info) error {
	retry, dead := p.addr.RetryKey(c.Name), p.addr.DeadKey(c.Name)
	results, err := p.client.DoMulti(ctx, retry, p.client.B().Zcard().Key(retry).Build(), p.client.B().Xlen().Key(dead).Build())
	if err != nil {
		return err
	}
	if c.Parked, err = results[0].AsInt64(); err != nil {
		return err
	}
	if c.Dead, err = results[1].AsInt64(); err != nil {
		return err
	}
	switch {
	case info.Length == 0 || c.Checkpoint.Compare(info.First) < 0:
		c.Lag, c.LagExact = info.Length, true
	case c.Checkpoint.Compare(info.Last) >= 0:
		c.Lag, c.LagExact = 0, true
	case c.passed >= 0:
		c.Lag, c.LagExact = info.Added-c.passed, true
	default:
		c.Lag = info.Length
	}
	c.Lag = max(0, c.Lag-int64(c.Above))
	return nil
}
