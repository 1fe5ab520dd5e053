package codec

// Pack is a pack that an entry holds, of which only the head was read, so that whoever handles its messages can decode them: see
// [Identity.Pack]. It is small, and keeps of the entry what it is to be decoded from.
type Pack struct {
	of    Identity
	entry EntryID
	src   string
	n     int // messages
	from  int // those before it are left out
}

// Pack is the pack of an entry that is a pack of the stream and nothing else; else, or when the head cannot be read, it is false, and
// [Identity.Records] tells what the entry is.
func (i Identity) Pack(e Entry) (Pack, bool) {
	if len(e.Fields) != 2 || e.Fields[0] != FieldPack {
		return Pack{}, false
	}
	if _, ok := i.derive(e.ID); !ok {
		return Pack{}, false
	}
	p := Pack{of: i, entry: e.ID, src: e.Fields[1]}
	s := scanner{src: bytesOf(p.src)}
	if _, err := s.open("pack", packVersion, packLen); err != nil {
		return Pack{}, false
	}
	var err error
	p.n, err = s.packCount()
	return p, err == nil && uint64(p.n-1) <= e.ID.Seq
}

// Len is how many messages it says it has, without those that are left out.
func (p *Pack) Len() int { return p.n - p.from }

// First is the address of the first message that is not left out.
func (p *Pack) First() EntryID {
	return EntryID{p.entry.Ms, p.entry.Seq - uint64(p.Len()-1)}
}

// LeaveOut leaves out the messages below an address, but not the last one.
func (p *Pack) LeaveOut(below EntryID) {
	for p.Len() > 1 && p.First().Compare(below) < 0 {
		p.from++
	}
}

// Unpack decodes the messages of a pack into the records of the caller: those that [Identity.Records] makes of the entry, without what
// is left out. Slots is told how many there are, once it is known that they can be there, and says where record i is to be. Where they
// cannot be read it is asked, again if need be, for the place of one, which says so.
func (p *Pack) Unpack(slots func(n int) func(i int) *Record) {
	if err := p.unpack(slots); err != nil {
		id, _ := p.of.derive(p.entry)
		*slots(1)(0) = Record{ID: id, Position: Position{Entry: p.entry}, Addr: p.entry, Fields: []string{FieldPack, p.src}, Err: err}
	}
}

func (p *Pack) unpack(slots func(n int) func(i int) *Record) error {
	opened, err := openPack(bytesOf(p.src))
	if err != nil {
		return err
	}
	slot := slots(p.Len())
	place := opened.first(p.of, p.entry)
	var leftOut Record
	return opened.each(func(i int) *Message {
		r := &leftOut
		if i >= p.from {
			r = slot(i - p.from)
		}
		place.next(r)
		return &r.Message
	})
}
