package stream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// PutAside ends deliveries of which not all was handled, at most 4096 messages in all: what is open is parked until the
// first of it is due, what is given up goes to the group's dead letters, and the entry is acknowledged, in one step. A
// parked entry is nobody's: it is not pending, and Due takes it up again.
func (m *Member) PutAside(ctx context.Context, entries []tier.Aside) error {
	if len(entries) == 0 {
		return nil
	}
	args, messages := m.identify(), 0
	for _, e := range entries {
		messages += max(1, len(e.Open)+len(e.Dead))
		args = append(args, e.Entry.String(), strconv.Itoa(e.Deliveries), strconv.Itoa(len(e.Open)), strconv.Itoa(len(e.Dead)))
		for _, o := range e.Open {
			args = append(args, strconv.Itoa(o.Index), strconv.Itoa(o.Attempt), millis(max(0, o.Delay)))
		}
		raw, of, err := m.rawMessages(ctx, e)
		if err != nil {
			return err
		}
		for i, d := range e.Dead {
			index := ""
			if d.Index >= 0 {
				index = strconv.Itoa(d.Index)
			}
			args = append(args, index, strconv.Itoa(of), d.Reason, strconv.Itoa(d.Attempts), raw[i])
		}
	}
	if err := bounded(messages); err != nil {
		return err
	}
	keys := append(m.logOwnersRetryOpen(), m.group.place.addr.DeadKey(m.group.cfg.Name))
	_, err := m.fenced(ctx, putAsideScript, keys, args)
	return err
}

// rawMessages are the bytes of the messages of a pack that are given up, as they stand in the log, and how many it has;
// empty for a whole entry, which the script copies, and for one that was trimmed.
func (m *Member) rawMessages(ctx context.Context, e tier.Aside) (raw []string, of int, err error) {
	raw = make([]string, len(e.Dead))
	var pack string
	for i, d := range e.Dead {
		if d.Index < 0 {
			continue
		}
		if pack == "" {
			p := m.group.place
			key, id := p.addr.LogKey(), e.Entry.String()
			reply, err := p.client.Do(ctx, key, p.client.B().Xrange().Key(key).Start(id).End(id).Build())
			if err != nil {
				return nil, 0, err
			}
			entries, err := entriesOf(reply)
			if err != nil || len(entries) == 0 {
				return raw, 0, err
			}
			pack = codec.PackField(entries[0])
			if of, err = codec.PackLen([]byte(pack)); err != nil {
				return nil, 0, fmt.Errorf("stream: dead letter of %s: %w", e.Entry, err)
			}
		}
		message, err := codec.PackedMessage([]byte(pack), d.Index)
		if err != nil {
			return nil, 0, fmt.Errorf("stream: dead letter of %s: %w", e.Entry, err)
		}
		raw[i] = string(message)
	}
	return raw, of, nil
}

// Due takes up to n parked entries up again that are due.
func (m *Member) Due(ctx context.Context, n int) (tier.Taken, error) {
	if n <= 0 {
		return tier.Taken{Next: -1}, nil
	}
	reply, err := m.run(ctx, dueScript, m.fetchKeys(), append(m.identify(), strconv.Itoa(min(n, maxBatch)))...)
	if err != nil {
		return tier.Taken{}, err
	}
	parts, err := tier.Parts("due", reply, 6)
	if err != nil {
		return tier.Taken{}, err
	}
	if taken, over, err := m.answered(parts[0]); over {
		return taken, err
	}
	taken, err := m.taken(ctx, parts[2], parts[3], parts[4], parts[5])
	taken.Next = wait(parts[1])
	return taken, err
}

// taken reads what a script has taken: {id, deliveries, ...}, the entries that exist, their rows in open, the server's time.
func (m *Member) taken(ctx context.Context, ids, existing, rows, now rueidis.RedisMessage) (t tier.Taken, err error) {
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
	if t.Leased, err = m.leased(ctx, entries, deliveries); err != nil {
		return t, err
	}
	for i := range t.Leased {
		if i < len(texts) && texts[i] != "" {
			narrow(&t.Leased[i], openOf(texts[i], t.Leased[i].Deliveries, ms))
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

// openOf reads a row of open, for the given delivery of its entry. Of one that cannot be read, everything is open.
func openOf(row string, delivery int, now int64) (open []tier.Open) {
	words := strings.Fields(row)
	var n [4]int64
	for i := 1; i+2 < len(words); i += 3 {
		for k, word := range []string{words[0], words[i], words[i+1], words[i+2]} {
			v, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return nil
			}
			n[k] = v
		}
		o := tier.Open{Index: int(n[1]), Attempt: int(n[2]) + delivery - int(n[0])}
		if n[3] > now {
			o.Delay = time.Duration(n[3]-now) * time.Millisecond
		}
		open = append(open, o)
	}
	return open
}

// wait is a number of ms, below 0 for never.
func wait(m rueidis.RedisMessage) time.Duration {
	ms, err := m.AsInt64()
	if err != nil {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
