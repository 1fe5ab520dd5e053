package consumer

import "hash/fnv"

// shareOf says which of n partitions a member should own, of those that are there: each partition belongs to the member that draws
// the highest number for it, which anybody can work out. So who joins takes partitions from others and moves none between them,
// and those of who leaves are the only ones that move. With P partitions and m members each has P/m of them on average, and with
// P at 16 times m hardly anybody twice that; with few partitions a member may have none.
func shareOf(member string, there []string, n int) (share []int) {
	for k := range n {
		owner, highest := "", uint64(0)
		for _, m := range there {
			if drawn := draw(m, k); owner == "" || drawn > highest || drawn == highest && m < owner {
				owner, highest = m, drawn
			}
		}
		if owner == member {
			share = append(share, k)
		}
	}
	return share
}

// draw is a number that a member draws for a partition: FNV-1a of both, mixed, since its last bytes reach few bits.
func draw(member string, k int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(member))
	h.Write([]byte{0, byte(k >> 8), byte(k)})
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
