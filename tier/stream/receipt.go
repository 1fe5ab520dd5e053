package stream

import "github.com/echomq/pipeline/codec"

// receipt is what the server answers to an append, now or to a repetition: with the sizes of the entries, which the
// caller knows, it gives every id.
type receipt struct {
	first codec.EntryID // of the first message
	count int           // messages
}

// addresses calls yield with each message's own <ms>-<seq>. Entries hold size messages each, the last one what is left;
// an entry that does not fit into its millisecond's 4096 sequences begins the next one, as the scripts have it.
func (r receipt) addresses(size int, yield func(i int, addr codec.EntryID)) {
	at := r.first
	for i := 0; i < r.count; {
		n := min(size, r.count-i)
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
