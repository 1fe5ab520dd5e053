package stream

import (
	"slices"
	"unsafe"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// stringOf gives bytes that nobody changes any more as a string, without copying.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// entriesOf reads the reply of XRANGE, XCLAIM and of a stream in XREADGROUP.
func entriesOf(m rueidis.RedisMessage) ([]codec.Entry, error) {
	var p page
	if err := p.read(m); err != nil {
		return nil, err
	}
	return p.entries, nil
}

// page is the memory of entries that came together. Their fields lie in one piece: what outlives the page is copied, see
// place.records.
type page struct {
	entries []codec.Entry
	fields  []string
}

// read replaces what the page held.
func (p *page) read(m rueidis.RedisMessage) error {
	rows, err := m.ToArray()
	if err != nil {
		return err
	}
	p.entries, p.fields = slices.Grow(p.entries[:0], len(rows)), p.fields[:0]
	for i := range rows {
		pair, err := tier.Parts("entry", rows[i], 2)
		if err != nil {
			return err
		}
		text, err := pair[0].ToString()
		if err != nil {
			return err
		}
		id, err := codec.ParseEntryID(text)
		if err != nil {
			return err
		}
		values, err := pair[1].ToArray()
		if err != nil {
			return err
		}
		if cap(p.fields)-len(p.fields) < len(values) { // those that were read keep the old piece
			p.fields = make([]string, 0, len(values)*(len(rows)-i)) // entries of one stream mostly have as many
		}
		begin := len(p.fields)
		for k := range values {
			value, _ := values[k].ToString()
			p.fields = append(p.fields, value)
		}
		p.entries = append(p.entries, codec.Entry{ID: id, Fields: p.fields[begin:len(p.fields):len(p.fields)]})
	}
	return nil
}

// clear lets go of what the page held.
func (p *page) clear() {
	clear(p.entries)
	clear(p.fields)
}

// bytesOf is what the fields and values of an entry weigh.
func bytesOf(e codec.Entry) (n int) {
	for _, f := range e.Fields {
		n += len(f)
	}
	return n
}

// readReply reads the reply of XREADGROUP of one stream: a map in RESP3, a list of pairs in RESP2.
func (p *page) readReply(m rueidis.RedisMessage) error {
	streams, err := m.AsMap()
	if err != nil {
		return err
	}
	for _, entries := range streams {
		return p.read(entries)
	}
	p.entries = p.entries[:0]
	return nil
}

// textsOf gives entries as texts, appended to dst. They lie in one piece of memory.
func textsOf(dst []string, entries []codec.EntryID) []string {
	dst = slices.Grow(dst, len(entries))
	buf := make([]byte, 0, entryIDBytes*len(entries))
	for _, e := range entries {
		begin := len(buf)
		buf = e.AppendTo(buf) // texts that were given out stay as they are, also when it moves
		dst = append(dst, stringOf(buf[begin:]))
	}
	return dst
}

// entryIDBytes is what an entry id takes as text: 13 digits, until the year 2286, and a sequence, as a rule.
const entryIDBytes = 20

// parseReceipt reads {code, first id, count, size}.
func parseReceipt(m rueidis.RedisMessage) (code string, r receipt, err error) {
	reply, err := tier.Parts("append", m, 4)
	if err != nil {
		return "", r, err
	}
	if code, err = reply[0].ToString(); err != nil || (code != "ok" && code != "dup" && code != "seen") {
		return code, r, err
	}
	first, err := reply[1].ToString()
	if err != nil {
		return code, r, err
	}
	if r.first, err = codec.ParseEntryID(first); err != nil {
		return code, r, err
	}
	n, err := reply[2].AsInt64()
	if err != nil {
		return code, r, err
	}
	size, err := reply[3].AsInt64()
	r.count, r.size = int(n), int(size)
	return code, r, err
}
