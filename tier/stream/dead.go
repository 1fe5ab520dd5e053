package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// DeadLetter is a message, or a whole entry, that a group has given up. One that another program has put among the dead
// letters has only ID, Record and Fields.
type DeadLetter struct {
	ID       codec.EntryID // of the letter: when it was given up, by the server's clock
	Entry    codec.EntryID // that it was
	Index    int           // of the message in its pack; -1: the whole entry
	Reason   string
	Attempts int
	// Record is the message, with the id and the position that it has in the stream. It is foreign when the entry was, when
	// the entry was trimmed before it was given up, and of an entry that is a pack of several.
	Record codec.Record
	Fields []string // of the letter's own, raw: those of the entry, or the message as m
}

// DeadLetters yields the dead letters of a group or a cursor, oldest first: those that there were when the loop began. It reads
// page by page, as Reader does. A group that was deleted still has its own; one that never was has none.
//
// An error ends it: ErrNoStream, ErrStreamRemoved.
func DeadLetters(ctx context.Context, client *tier.Client, address, group string) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		l, err := newLetters(client, address, group)
		if err == nil {
			err = l.place.readable(ctx)
		}
		var newest codec.EntryID
		if err == nil {
			newest, err = l.newest(ctx)
		}
		var size pageSize
		for from := (codec.EntryID{}); err == nil && from.Compare(newest) < 0; {
			var page []codec.Entry
			if page, err = l.page(ctx, from.Next(), newest, size.count()); err != nil || len(page) == 0 {
				break
			}
			for i := range page {
				if !yield(l.letter(page[i]), nil) {
					return
				}
			}
			size.learn(page)
			from = page[len(page)-1].ID
		}
		if err != nil {
			yield(DeadLetter{}, err)
		}
	}
}

// letters are those of one group.
type letters struct {
	place *place
	group string
	key   string
}

func newLetters(client *tier.Client, address, group string) (*letters, error) {
	p, err := newLogPlace(client, address)
	if err == nil {
		err = tier.CheckName("group", group)
	}
	if err != nil {
		return nil, err
	}
	return &letters{place: p, group: group, key: p.addr.DeadKey(group)}, nil
}

// newest is the id that the last letter was given.
func (l *letters) newest(ctx context.Context) (codec.EntryID, error) {
	m, err := l.place.client.Run(ctx, tier.Call{Script: describeScript, Keys: []string{l.key}})
	if err != nil {
		return codec.EntryID{}, err
	}
	parts, err := tier.Parts("describe", m, 6)
	if err != nil {
		return codec.EntryID{}, err
	}
	return entryID(parts[4]), nil
}

func (l *letters) page(ctx context.Context, from, to codec.EntryID, count int) ([]codec.Entry, error) {
	m, err := l.place.client.Do(ctx, l.key, l.place.client.B().Xrange().Key(l.key).Start(from.String()).End(to.String()).Count(int64(count)).Build())
	if err != nil {
		return nil, err
	}
	page, err := entriesOf(m)
	if err == nil && len(page) > 0 {
		err = l.place.identify(ctx)
	}
	return page, err
}

// letter reads what commit.lua has written.
func (l *letters) letter(e codec.Entry) DeadLetter {
	d := DeadLetter{ID: e.ID, Index: -1, Fields: e.Fields, Record: codec.Record{Position: codec.Position{Entry: e.ID}, Addr: e.ID, Fields: e.Fields}}
	next := func(name string, rest []string) (string, []string, bool) {
		if len(rest) < 2 || rest[0] != name {
			return "", rest, false
		}
		return rest[1], rest[2:], true
	}
	entry, rest, ok := next("entry", e.Fields)
	at, err := codec.ParseEntryID(entry)
	if !ok || err != nil {
		return d
	}
	d.Entry = at
	messages := 0 // of the pack; 0: not known
	if index, after, ok := next("index", rest); ok {
		rest = after
		if d.Index, err = strconv.Atoi(index); err != nil || d.Index < 0 {
			return d
		}
		var of string
		of, rest, _ = next("of", rest)
		messages, _ = strconv.Atoi(of)
	}
	d.Reason, rest, _ = next("reason", rest)
	attempts, rest, _ := next("attempts", rest)
	d.Attempts, _ = strconv.Atoi(attempts)
	d.Fields = rest
	d.Record = l.record(&d, messages)
	return d
}

// record decodes what a letter holds.
func (l *letters) record(d *DeadLetter, messages int) codec.Record {
	at := codec.Position{Entry: d.Entry, Index: max(0, d.Index)}
	addr := d.Entry
	if d.Index >= 0 {
		below := messages - 1 - d.Index
		if below < 0 || uint64(below) > addr.Seq {
			return codec.Record{Position: at, Addr: addr, Fields: d.Fields}
		}
		addr.Seq -= uint64(below)
	}
	records := l.place.records(nil, codec.Entry{ID: addr, Fields: d.Fields})
	if len(records) > 1 {
		return codec.Record{Position: at, Addr: addr, Fields: d.Fields}
	}
	records[0].Position = at
	return records[0]
}

// RedriveResult says what became of dead letters.
type RedriveResult struct {
	Redriven int
	Gone     int             // there was no such letter: an earlier call redrove it, or it was deleted
	Trimmed  []codec.EntryID // letters that stay, since their entries are no longer in the stream
	Busy     []codec.EntryID // letters that stay for now, since other messages of their entries are being handled
	Ahead    []codec.EntryID // letters that stay, since the group went back and is still to be given their entries
	Foreign  []codec.EntryID // letters that stay, since they are none of ours
}

// redriveBatch bounds the letters of one call: the script has the fields of one at a time.
const redriveBatch = 100

// Redrive gives dead letters back to their group or cursor, by the letters' ids: they are due at once, and their next attempt is
// the first. Each letter goes in the step that brings its message back, so that a message is in one place however the
// call ends; it may be repeated, and does to what it has done nothing more. With an error, the result is what is known.
//
// Errors: tier.ErrNoGroup.
func Redrive(ctx context.Context, client *tier.Client, address, group string, ids []codec.EntryID) (RedriveResult, error) {
	var r RedriveResult
	l, err := newLetters(client, address, group)
	if err != nil {
		return r, err
	}
	for chunk := range slices.Chunk(distinct(ids), redriveBatch) {
		if err := l.redrive(ctx, chunk, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// distinct are ids ascending, each once.
func distinct(ids []codec.EntryID) []codec.EntryID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, codec.EntryID.Compare)
	return slices.Compact(ids)
}

func texts(ids []codec.EntryID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list
}

func (l *letters) redrive(ctx context.Context, ids []codec.EntryID, r *RedriveResult) error {
	a := l.place.addr
	m, err := l.place.client.Run(ctx, tier.Call{
		Script: redriveScript,
		Keys:   []string{a.LogKey(), a.RetryKey(l.group), a.OpenKey(l.group), l.key, a.CursorsKey()},
		Args:   append([]string{l.group}, texts(ids)...),
	})
	if err != nil {
		return err
	}
	parts, err := tier.Parts("redrive", m, 2)
	if err != nil {
		return err
	}
	if code, _ := parts[0].ToString(); code == "group" {
		return &tier.Error{Op: "redrive", Key: a.GroupKey(l.group), Class: tier.ErrNoGroup, Err: errors.New("create the group, or check its name")}
	}
	codes, err := tier.Texts("redrive", parts[1], len(ids))
	if err != nil {
		return err
	}
	for i, code := range codes {
		switch code {
		case "redriven":
			r.Redriven++
		case "gone":
			r.Gone++
		case "trimmed":
			r.Trimmed = append(r.Trimmed, ids[i])
		case "busy":
			r.Busy = append(r.Busy, ids[i])
		case "ahead":
			r.Ahead = append(r.Ahead, ids[i])
		case "foreign":
			r.Foreign = append(r.Foreign, ids[i])
		default:
			return fmt.Errorf("stream: redrive: %.32q is no answer of this version", code)
		}
	}
	return nil
}

// dropBatch bounds the letters of one command.
const dropBatch = 1000

// DropLetters deletes dead letters of a group, by their ids, for good. It answers how many there were; those that are not
// there do no harm.
func DropLetters(ctx context.Context, client *tier.Client, address, group string, ids []codec.EntryID) (dropped int, err error) {
	l, err := newLetters(client, address, group)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(distinct(ids), dropBatch) {
		var m rueidis.RedisMessage
		m, err = client.Do(ctx, l.key, client.B().Xdel().Key(l.key).Id(texts(chunk)...).Build())
		if err != nil {
			return dropped, err
		}
		n, err := m.AsInt64()
		if dropped += int(n); err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}
