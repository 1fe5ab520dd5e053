package stream

import "github.com/echomq/pipeline/codec"

// receipt is what the server answers to an append, now or to a repetition: it gives every id.
type receipt struct {
	first codec.EntryID // of the first message
	count int           // messages
	size  int           // messages an entry when they were appended, which a repetition may do with other packs
}

// addresses calls yield with each message's own <ms>-<seq>. Entries hold size messages each, the last one what is left;
// an entry that does not fit into its millisecond's 4096 sequences begins the next one, as the scripts have it.
func (r receipt) addresses(yield func(i int, addr codec.EntryID)) {
	at := r.first
	for i := 0; i < r.count; {
		n := min(max(1, r.size), r.count-i)
		if at.Seq+uint64(n) > codec.MaxSeq+1 {
			at = codec.EntryID{Ms: at.Ms + 1}
		}
		for range n {
			yield(i, at)
			at.Seq++
			i++
		}
	}
}

// at is the address of the i-th message.
func (r receipt) at(i int) (at codec.EntryID) {
	if r.first.Seq+uint64(r.count) <= codec.MaxSeq+1 {
		return codec.EntryID{Ms: r.first.Ms, Seq: r.first.Seq + uint64(i)}
	}
	r.addresses(func(k int, addr codec.EntryID) {
		if k == i {
			at = addr
		}
	})
	return at
}

// last is the address of the last message.
func (r receipt) last() codec.EntryID { return r.at(r.count - 1) }
