package stream

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Due takes up to n parked entries up again that are due.
func (m *Member) Due(ctx context.Context, n int) (tier.Taken, error) {
	if n <= 0 {
		return tier.Taken{Next: -1}, nil
	}
	reply, err := m.run(ctx, dueScript, m.fetchKeys(), append(m.identify(), strconv.Itoa(min(n, MaxBatch)))...)
	if err != nil {
		return tier.Taken{}, err
	}
	return readDue(ctx, reply, m.leased)
}

// leasing is how entries that a script answered become leased ones.
type leasing func(ctx context.Context, entries []codec.Entry, deliveries map[codec.EntryID]int) ([]tier.Leased, error)

// readDue reads the reply of due.lua.
func readDue(ctx context.Context, reply rueidis.RedisMessage, lease leasing) (tier.Taken, error) {
	parts, err := tier.Parts("due", reply, 6)
	if err != nil {
		return tier.Taken{}, err
	}
	if taken, over, err := answered(parts[0]); over {
		return taken, err
	}
	taken, err := takenOf(ctx, parts[2], parts[3], parts[4], parts[5], lease)
	taken.Next = wait(parts[1])
	return taken, err
}

// takenOf reads what a script has taken: {id, deliveries, ...}, the entries that exist, their rows in open, the server's time.
func takenOf(ctx context.Context, ids, existing, rows, now rueidis.RedisMessage, lease leasing) (t tier.Taken, err error) {
	held, err := heldOf(ids)
	if err != nil {
		return t, err
	}
	entries, err := entriesOf(existing)
	if err != nil {
		return t, err
	}
	texts, err := rows.AsStrSlice()
	if err != nil {
		return t, err
	}
	ms, err := now.AsInt64()
	if err != nil {
		return t, err
	}
	deliveries := make(map[codec.EntryID]int, len(held))
	for _, h := range held {
		deliveries[h.Entry] = h.Deliveries
	}
	if t.Leased, err = lease(ctx, entries, deliveries); err != nil {
		return t, err
	}
	for i := range t.Leased {
		if i < len(texts) && texts[i] != "" {
			open, crashes := openOf(texts[i], t.Leased[i].Deliveries, ms)
			narrow(&t.Leased[i], open)
			t.Leased[i].Crashes = crashes
		}
		delete(deliveries, t.Leased[i].Entry)
	}
	for lost := range deliveries {
		t.Lost = append(t.Lost, lost)
	}
	return t, nil
}

// narrow leaves of an entry what is open.
func narrow(l *tier.Leased, open []tier.Open) {
	byIndex := make(map[int]tier.Open, len(open))
	for _, o := range open {
		byIndex[o.Index] = o
	}
	records := l.Records[:0]
	for i := range l.Records {
		if o, ok := byIndex[l.Records[i].Position.Index]; ok {
			records, l.Open = append(records, l.Records[i]), append(l.Open, o)
		}
	}
	if len(records) > 0 {
		l.Records = records
	}
}

// openOf reads a row of open, for the given delivery of its entry, and how many before that did not end. Of one that cannot
// be read, everything is open.
func openOf(row string, delivery int, now int64) (open []tier.Open, crashes int) {
	words := strings.Fields(row)
	var n [4]int64
	for i := 1; i+2 < len(words); i += 3 {
		for k, word := range []string{words[0], words[i], words[i+1], words[i+2]} {
			v, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return nil, 0
			}
			n[k] = v
		}
		o := tier.Open{Index: int(n[1]), Attempt: int(n[2]) + delivery - int(n[0]), Suspect: n[3] < 0}
		crashes = max(0, delivery-int(n[0])-1)
		if n[3] > now {
			o.Delay = time.Duration(n[3]-now) * time.Millisecond
		}
		open = append(open, o)
	}
	return open, crashes
}

// wait is a number of ms, below 0 for never.
func wait(m rueidis.RedisMessage) time.Duration {
	ms, err := m.AsInt64()
	if err != nil {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
