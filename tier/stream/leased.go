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
	had     int  // messages, the last time
	on      bool // see Owner.ReadOn
}

// maxKept is how many records a fetch makes room for that are none of plain entries: a pack of more has memory of its own.
const maxKept = 4096

// clear lets go of what the fetch held.
func (f *fetch) clear() {
	f.Page.Clear()
	f.Entries = f.Entries[:0]
	clear(f.leased)
	clear(f.records)
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
	for _, e := range f.Entries {
		records := f.keep(p.records(f.records[len(f.records):], e))
		if len(records) > 1 && records[0].Addr.Compare(start) < 0 && !asked {
			asked = true // the group may have been reset since
			var err error
			if start, err = ask(ctx); err != nil {
				return err
			}
		}
		for len(records) > 1 && records[0].Addr.Compare(start) < 0 {
			records = records[1:]
		}
		l := tier.Leased{Entry: e.ID, Records: records, Deliveries: 1, Bytes: bytesOf(e)}
		if n, ok := deliveries[e.ID]; ok {
			l.Deliveries = n
		}
		f.leased = append(f.leased, l)
	}
	return nil
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
