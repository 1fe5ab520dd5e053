package tier

import (
	"slices"
	"unsafe"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
)

// Page is the memory of entries that came together, which the next ones may use again. Their fields lie in one piece, which
// what outlives the page has to copy; the strings in it stay as they are.
type Page struct {
	Entries []codec.Entry

	fields []string
	text   []byte // the piece that small values are copied to
	mean   int    // bytes of an entry of the last page
}

// Read replaces what the page held by the reply of XRANGE, XCLAIM, or of a stream in XREADGROUP.
func (p *Page) Read(m rueidis.RedisMessage) error {
	rows, err := m.ToArray()
	if err != nil {
		return err
	}
	p.begin(len(rows))
	for i := range rows {
		pair, err := Parts("entry", rows[i], 2)
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
		fields := p.room(len(values), len(rows)-i)
		for k := range values {
			value, _ := values[k].ToString()
			fields = append(fields, value)
		}
		p.add(id, fields)
	}
	return nil
}

// readStreams is Read of the reply of XREADGROUP or XREAD, with one stream: a map, or a list of pairs in the older protocol.
func (p *Page) readStreams(m rueidis.RedisMessage) error {
	streams, err := m.AsMap()
	if err != nil {
		return err
	}
	for _, entries := range streams {
		return p.Read(entries)
	}
	return nil
}

// Page reads one reply, of XREADGROUP or XREAD with one stream, into a page, as it reads Value.
func (c *Conn) Page(p *Page) error {
	p.begin(0)
	return p.readReply(c.in, false)
}

// Clear lets go of what the page held.
func (p *Page) Clear() {
	clear(p.Entries)
	clear(p.fields)
}

// Renew gives the page other memory, so that what it holds can be kept whole.
func (p *Page) Renew() { p.Entries, p.fields = nil, nil }

// begin makes room for so many entries.
func (p *Page) begin(entries int) {
	p.Entries, p.fields = slices.Grow(p.Entries[:0], entries), p.fields[:0]
}

// room is for the fields and values of the next entry, of so many that are left.
func (p *Page) room(fields, left int) []string {
	if cap(p.fields)-len(p.fields) < fields { // those that were read keep the old piece
		p.fields = make([]string, 0, fields*left) // entries of one stream mostly have as many
	}
	return p.fields[len(p.fields):len(p.fields):cap(p.fields)]
}

// add adds an entry, whose fields room was made for.
func (p *Page) add(id codec.EntryID, fields []string) {
	if n := len(p.fields) + len(fields); n <= cap(p.fields) { // else they have moved
		p.fields = p.fields[:n]
	}
	p.Entries = append(p.Entries, codec.Entry{ID: id, Fields: slices.Clip(fields)})
}

const (
	sharedText = 1 << 10 // a larger value lies by itself
	sharedMost = 8 << 10 // of the piece that smaller ones lie in: who keeps one of them keeps so much
)

// bytes is room for a value, of an entry after which so many come.
func (p *Page) bytes(n, left int) []byte {
	if n > sharedText {
		return make([]byte, n)
	}
	if cap(p.text)-len(p.text) < n {
		p.text = make([]byte, 0, max(n, min(sharedMost, p.mean*(left+1))))
	}
	at := len(p.text)
	p.text = p.text[:at+n]
	return p.text[at:]
}

// textOf gives bytes that nobody changes any more as a string, without copying.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
