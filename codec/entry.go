package codec

import "slices"

// The fields of an entry that are ours.
const (
	FieldMessage = "m"  // one message
	FieldPack    = "b"  // a pack of messages
	FieldID      = "id" // a stored id, under host order
)

// Entry is an entry of a stream as the server gives it. Fields are name, value,
// name, value ...
type Entry struct {
	ID     EntryID
	Fields []string
}

// Identity is what the ids of a stream's entries are derived from. Without a
// brand the stream is not known, and every entry of it is foreign.
type Identity struct {
	Brand     Brand
	Node      int
	Exclusive bool // host order: one writer, the id decides the entry id
}

// Record is one message of an entry, or an entry that holds none.
type Record struct {
	ID       ID // zero: foreign
	Position Position
	Addr     EntryID // the message's own <ms>-<seq>: the entry's, or below it inside a pack
	Message
	Fields []string // the raw fields, when foreign or undecodable
	Err    error    // *DecodeError: ours by its fields, but not readable; *UpcastError: readable, but no rule made it one of its newest type
}

// Foreign reports whether the entry was not written by the rules of its stream:
// it has raw Fields, and no ID, message or Err.
func (r *Record) Foreign() bool { return r.ID.IsZero() }

// Records appends the records of e to dst: one for a plain entry, n for a pack of
// n, one for an entry that is foreign or undecodable. It never fails and drops
// nothing.
//
//   - Field m is one message, field b a pack (m counts where there are both). Of a
//     repeated field the first counts.
//   - The entry id of a pack is the address of its last message; the others have
//     the n-1 sequences below it.
//   - The ID is derived from the address. A field id, if it parses, carries the
//     stream's brand and, on an exclusive stream, maps to the entry id, is the ID
//     of the message, in a pack of the last one.
//   - Foreign: no brand in i, neither m nor b, an entry id that no ID of the stream
//     maps to (a sequence beyond 12 bits under server order), or a field id that
//     does not fit.
//   - Undecodable: Err and Fields are set, ID and Addr are the entry's. A pack is
//     readable as a whole or not at all.
//
// Records take their parts from the strings of e.Fields without copying, which
// strings allow: they never change, and live as long as a record does.
func (i Identity) Records(dst []Record, e Entry) []Record {
	f := ourFields(e.Fields)
	at := len(dst)
	dst = append(dst, Record{}) // filled in place: a record is large
	r := &dst[at]
	r.Position.Entry, r.Addr = e.ID, e.ID
	id, ok := i.entryID(e.ID, &f)
	if !ok {
		r.Fields = e.Fields
		return dst
	}
	r.ID = id
	out, err := i.decode(dst, &f)
	if err != nil {
		*r = Record{ID: id, Position: Position{Entry: e.ID}, Addr: e.ID, Fields: e.Fields, Err: err} // some of it was decoded
		return dst
	}
	return out
}

// PackField is the pack in an entry, empty when it holds none.
func PackField(e Entry) string { return ourFields(e.Fields).pack }

// fields are the values of our fields; has tells an empty one from none.
type fields struct {
	message, pack, id          string
	hasMessage, hasPack, hasID bool
}

func ourFields(kv []string) (f fields) {
	for i := 0; i+1 < len(kv); i += 2 {
		switch name, value := kv[i], kv[i+1]; {
		case name == FieldMessage && !f.hasMessage:
			f.message, f.hasMessage = value, true
		case name == FieldPack && !f.hasPack:
			f.pack, f.hasPack = value, true
		case name == FieldID && !f.hasID:
			f.id, f.hasID = value, true
		}
	}
	return f
}

// entryID returns the ID of the entry itself, false when it is foreign.
func (i Identity) entryID(e EntryID, f *fields) (ID, bool) {
	if !f.hasMessage && !f.hasPack {
		return ID{}, false
	}
	derived, ok := i.derive(e)
	if !ok || !f.hasID {
		return derived, ok
	}
	stored, err := Parse(f.id)
	if err != nil || stored.Brand() != i.Brand || (i.Exclusive && stored != derived) {
		return ID{}, false
	}
	return stored, true
}

func (i Identity) derive(e EntryID) (ID, bool) {
	if i.Exclusive {
		return HostID(i.Brand, e)
	}
	return ServerID(i.Brand, i.Node, e)
}

// decode makes of the last record of dst, which has the entry's ID and place, those of its messages.
func (i Identity) decode(dst []Record, f *fields) ([]Record, error) {
	if !f.hasMessage {
		return i.decodePack(dst, bytesOf(f.pack))
	}
	rest, err := DecodeMessage(bytesOf(f.message), &dst[len(dst)-1].Message)
	if err == nil && len(rest) > 0 {
		err = &DecodeError{len(f.message) - len(rest), "message: bytes after the message"}
	}
	return dst, err
}

func (i Identity) decodePack(dst []Record, src []byte) ([]Record, error) {
	p, err := openPack(src)
	if err != nil {
		return dst, err
	}
	at := len(dst) - 1
	last := dst[at]
	if last.Addr.Seq < uint64(p.n-1) {
		return dst, &DecodeError{0, "pack: more messages than there are sequences up to the entry id"}
	}
	out := slices.Grow(dst, p.n-1)[:at+p.n]
	place := p.first(i, last.Addr)
	err = p.each(func(k int) *Message {
		r := &out[at+k]
		*r = Record{}
		place.next(r)
		return &r.Message
	})
	out[len(out)-1].ID = last.ID // which may be a stored one
	return out, err
}

// packPlace is where the messages of a pack are, one after the other.
type packPlace struct {
	id   ID
	addr EntryID
	at   Position
}

// first is where the first message is of a pack in an entry.
func (p *pack) first(i Identity, entry EntryID) packPlace {
	addr := EntryID{entry.Ms, entry.Seq - uint64(p.n-1)}
	id, _ := i.derive(addr) // and the next ones follow it
	return packPlace{id, addr, Position{Entry: entry}}
}

// next puts a message there, and goes on to the next one.
func (p *packPlace) next(r *Record) {
	r.ID, r.Addr, r.Position = p.id, p.addr, p.at
	addOne(p.id[brandLen:])
	p.addr.Seq++
	p.at.Index++
}
