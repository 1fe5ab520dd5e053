package codec

// An id and an entry id are two spellings of one place. Under server order (the
// default) the server gives <ms>-<seq> and the scope gives the node. Under host
// order (jobs, exclusive streams) the id comes first, and its low 22 bits, node
// and sequence, are the entry's sequence.

// ServerID derives the id of an entry under server order. It is false when the
// entry has no id: a sequence beyond 12 bits, a millisecond outside the 41 bits
// from Epoch, a node above MaxNode, a brand that is none.
func ServerID(b Brand, node int, e EntryID) (ID, bool) {
	if e.Seq > MaxSeq || e.Ms-Epoch > maxMs || uint(node) > MaxNode || !b.Valid() {
		return ID{}, false
	}
	return makeID(b, (e.Ms-Epoch)<<lowBits|uint64(node)<<seqBits|e.Seq), true
}

// ServerEntry is the entry that id was derived from under server order.
func (id ID) ServerEntry() EntryID {
	n := uint64(id.Snowflake())
	return EntryID{Ms: n>>lowBits + Epoch, Seq: n & MaxSeq}
}

// HostID is the id whose [ID.HostEntry] is e. It is false when there is none: a
// sequence beyond 22 bits, a millisecond outside the 41 bits from Epoch, a brand
// that is none.
func HostID(b Brand, e EntryID) (ID, bool) {
	if e.Seq > maxLow || e.Ms-Epoch > maxMs || !b.Valid() {
		return ID{}, false
	}
	return makeID(b, (e.Ms-Epoch)<<lowBits|e.Seq), true
}

// HostEntry is the entry of id under host order: <unix ms>-<low 22 bits>.
func (id ID) HostEntry() EntryID {
	n := uint64(id.Snowflake())
	return EntryID{Ms: n>>lowBits + Epoch, Seq: n & maxLow}
}

// Entry is the address at which a stream of this identity has the message of id. It is false when the id is of another
// stream: of another brand or, under server order, of another node.
func (i Identity) Entry(id ID) (EntryID, bool) {
	if id.IsZero() || id.Brand() != i.Brand {
		return EntryID{}, false
	}
	if i.Exclusive {
		return id.HostEntry(), true
	}
	return id.ServerEntry(), id.Node() == i.Node
}
