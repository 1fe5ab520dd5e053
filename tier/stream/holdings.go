package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Holder is who needs entries of a log, and which is the first.
type Holder struct {
	Name  string        // of a group or a cursor; empty: the archive
	Why   string        // "unread", "pending", "parked"; of the archive "unarchived"
	First codec.EntryID // the first entry that it needs, or where the next one will be at least
}

// unread is why each group and cursor is a Holder.
const unread = "unread"

// Holdings is what a log holds, and for whom.
type Holdings struct {
	Address tier.Address
	Now     time.Time // of the server
	Length  int64     // entries; a pack is one
	First   codec.EntryID
	Last    codec.EntryID
	Bytes   int64 // of memory that the log takes, as the server estimates it; 0: there is none, or the user may not ask
	// Holders are those of the groups and cursors, each by what of it holds, and the archive.
	Holders []Holder
	Trimmed int64            // entries that policies took away, ever
	Dropped map[string]int64 // of these, how many a group or cursor, or "" the archive, had not settled
}

// Floor is the first entry that somebody needs, and who does; false: nobody has ever needed any.
func (h *Holdings) Floor() (Holder, bool) {
	var lowest Holder
	for i, holder := range h.Holders {
		if i == 0 || holder.First.Compare(lowest.First) < 0 {
			lowest = holder
		}
	}
	return lowest, len(h.Holders) > 0
}

// HoldingsOf asks who holds entries of a stream, in one step, by what Sweep.Trim goes by.
//
// Errors: ErrNoStream, ErrStreamRemoved.
func HoldingsOf(ctx context.Context, client *tier.Client, address string) (Holdings, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return Holdings{}, err
	}
	if err := p.readable(ctx); err != nil {
		return Holdings{}, err
	}
	var all []string
	for range looks {
		names, retries := p.holders(all)
		m, err := client.Run(ctx, tier.Call{
			Script: holdingsScript, Keys: append([]string{p.addr.LogKey(), p.addr.CursorsKey(), p.addr.RetentionKey()}, retries...), Args: names,
		})
		if err != nil {
			return Holdings{}, err
		}
		reply, err := tier.Parts("holdings", m, 7)
		if err != nil {
			return Holdings{}, err
		}
		h := Holdings{Address: p.addr, Now: time.UnixMilli(number(reply[1])), Length: number(reply[2]), First: entryID(reply[3]), Last: entryID(reply[4])}
		if err := h.take(reply[5], reply[6]); err != nil {
			return Holdings{}, err
		}
		if code, _ := reply[0].ToString(); code == "changed" {
			all = h.names()
			continue
		}
		h.Bytes, err = p.memory(ctx)
		return h, err
	}
	return Holdings{}, fmt.Errorf("stream: holdings %s: %w", p.addr, errBusy)
}

// names are those of the groups and cursors.
func (h *Holdings) names() (all []string) {
	for _, holder := range h.Holders {
		if holder.Why == unread {
			all = append(all, holder.Name)
		}
	}
	return all
}

// take reads the lists of a reply: who holds, and what was trimmed.
func (h *Holdings) take(holders, counted rueidis.RedisMessage) error {
	flat, err := holders.AsStrSlice()
	if err != nil {
		return err
	}
	for i := 0; i+2 < len(flat); i += 3 {
		first, err := codec.ParseEntryID(flat[i+2])
		if err != nil {
			return err
		}
		h.Holders = append(h.Holders, Holder{Name: flat[i], Why: flat[i+1], First: first})
	}
	row, err := counted.AsStrSlice()
	if err != nil {
		return err
	}
	for field, n := range counts(row) {
		name, dropped := strings.CutPrefix(field, tier.DroppedField(""))
		switch {
		case field == tier.TrimmedField:
			h.Trimmed = n
		case dropped && h.Dropped == nil:
			h.Dropped = map[string]int64{name: n}
		case dropped:
			h.Dropped[name] = n
		}
	}
	return nil
}

// memory is what the log takes; 0 when there is none, or the user may not ask.
func (p *place) memory(ctx context.Context) (int64, error) {
	key := p.addr.LogKey()
	m, err := p.client.Do(ctx, key, p.client.B().MemoryUsage().Key(key).Build())
	switch {
	case rueidis.IsRedisNil(err) || errors.Is(err, tier.ErrPermission):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return m.AsInt64()
}

// countPage is how many entries one call counts: about a millisecond of the server's time.
const countPage = 1000

// CountBelow counts the entries of a log that lie below each of some ids, which ascend; of more than most, it answers most.
func CountBelow(ctx context.Context, client *tier.Client, address string, most int64, ids ...codec.EntryID) ([]int64, error) {
	p, err := newPlace(client, address)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(ids))
	n, from := int64(0), "-"
	for i, id := range ids {
		for !id.IsZero() && n < most {
			page := min(countPage, most-n)
			m, err := client.Run(ctx, tier.Call{
				Script: countBelowScript, Keys: []string{p.addr.LogKey()}, Args: []string{from, "(" + id.String(), strconv.FormatInt(page, 10)},
			})
			if err != nil {
				return nil, err
			}
			reply, err := tier.Parts("count_below", m, 2)
			if err != nil {
				return nil, err
			}
			if last, _ := reply[1].ToString(); last != "" {
				from = "(" + last
			}
			n += number(reply[0])
			if number(reply[0]) < page {
				break
			}
		}
		counts[i] = n
	}
	return counts, nil
}
