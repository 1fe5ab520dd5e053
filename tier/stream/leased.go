package stream

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// fetch is the memory of what was fetched together.
type fetch struct {
	tier.Page
	leased  []tier.Leased
	records []codec.Record
	packs   []codec.Pack // that were not decoded
	had     int          // messages, the last time
	on      bool         // see Owner.ReadOn

	leavesPacks bool
}

// maxKept is how many records a fetch makes room for that are none of plain entries: a pack of more has memory of its own.
const maxKept = 4096

// clear lets go of what the fetch held.
func (f *fetch) clear() {
	f.Page.Clear()
	f.Entries = f.Entries[:0]
	clear(f.leased)
	clear(f.records)
	clear(f.packs)
}

// leased decodes entries.
func (m *Member) leased(ctx context.Context, entries []codec.Entry, deliveries map[codec.EntryID]int) ([]tier.Leased, error) {
	f := fetch{Page: tier.Page{Entries: entries}}
	if err := m.decode(ctx, &f, deliveries); err != nil {
		return nil, err
	}
	return f.leased, nil
}

func (m *Member) decode(ctx context.Context, f *fetch, deliveries map[codec.EntryID]int) error {
	return m.group.place.decode(ctx, f, deliveries, m.begins(), m.askStart)
}

// decode makes what is leased out of the entries of a fetch. Messages of a pack below start are left out; where there are
// any, it is asked first whether start was moved since, if it can be.
func (p *place) decode(ctx context.Context, f *fetch, deliveries map[codec.EntryID]int, start codec.EntryID, ask func(context.Context) (codec.EntryID, error)) error {
	if err := p.identify(ctx); err != nil {
		return err
	}
	if err := p.waits(f.Entries); err != nil {
		return err
	}
	asked := ask == nil
	f.leased = slices.Grow(f.leased[:0], len(f.Entries))
	f.records = slices.Grow(f.records[:0], max(min(f.had, maxKept), len(f.Entries)))
	f.had = 0
	id := p.identity()
	if f.leavesPacks {
		f.packs = slices.Grow(f.packs[:0], len(f.Entries)) // they do not move
	}
	for _, e := range f.Entries {
		l := tier.Leased{Entry: e.ID, Deliveries: 1, Bytes: bytesOf(e)}
		var first codec.EntryID
		if l.Pack = f.leave(id, e); l.Pack != nil {
			first = l.Pack.First()
		} else {
			l.Records = f.keep(p.records(f.records[len(f.records):], e))
			first = l.Records[0].Addr
		}
		if l.Messages() > 1 && first.Compare(start) < 0 && !asked {
			asked = true // the group may have been reset since
			var err error
			if start, err = ask(ctx); err != nil {
				return err
			}
		}
		if l.Pack != nil {
			l.Pack.LeaveOut(start)
		}
		for len(l.Records) > 1 && l.Records[0].Addr.Compare(start) < 0 {
			l.Records = l.Records[1:]
		}
		if n, ok := deliveries[e.ID]; ok {
			l.Deliveries = n
		}
		f.leased = append(f.leased, l)
	}
	return nil
}

// leave is the pack in an entry, if packs are left as they are; nil: there is none.
func (f *fetch) leave(id codec.Identity, e codec.Entry) *codec.Pack {
	if !f.leavesPacks {
		return nil
	}
	p, ok := id.Pack(e)
	if !ok {
		return nil
	}
	f.packs = append(f.packs, p)
	return &f.packs[len(f.packs)-1]
}

// keep takes in the records that were appended to the free end of the memory, unless there was no room for them.
func (f *fetch) keep(records []codec.Record) []codec.Record {
	f.had += len(records)
	if n := len(f.records) + len(records); n <= cap(f.records) && &records[0] == &f.records[:n][n-len(records)] {
		f.records = f.records[:n]
	}
	return slices.Clip(records)
}

func (m *Member) begins() codec.EntryID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.start
}

// askStart asks where the group begins. Without a record of it, everything that it is given is its own.
func (m *Member) askStart(ctx context.Context) (codec.EntryID, error) {
	p := m.group.place
	key := p.addr.GroupKey(m.group.cfg.Name)
	reply, err := p.client.Do(ctx, key, p.client.B().Hget().Key(key).Field(tier.StartField).Build())
	if err != nil && !rueidis.IsRedisNil(err) {
		return codec.EntryID{}, err
	}
	start := entryID(reply)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start = start
	return start, nil
}
