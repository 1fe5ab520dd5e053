package consumer

import (
	"slices"
	"time"

	"github.com/echomq/pipeline/tier"
)

// readAhead reads, and asks for more meanwhile if the last read brought all that it had asked for.
func (f *fetcher) readAhead(n int, wait time.Duration) (leased []tier.Leased, more bool, err error) {
	if f.ahead == nil {
		leased, err = f.member.Read(f.calls, n, wait)
		return leased, false, err
	}
	leased, more, err = f.ahead.ReadAhead(f.calls, n, wait, func() int {
		f.coming = f.next(n)
		return f.coming
	})
	f.plenty = len(leased) == n
	return leased, more, err
}

// next is how many entries to ask for while up to n come: none when there is other work first, or a reason to let nothing be on its way.
func (f *fetcher) next(n int) int {
	if !f.plenty || f.fenced.Load() || f.unlearned() || f.fetching.Err() != nil {
		return 0
	}
	room, due := f.ask()
	if room = room.without(n, f.size); !room.worthReading(f.pace.bound, f.cfg.MaxInFlightBytes) ||
		f.look.isDue(time.Now(), due.released) || isPast(due.parked) {
		return 0
	}
	return f.share(room)
}

// minShare is fewer messages than a read should bring by itself.
const minShare = 64

// share is how many entries to ask for: of who reads ahead a quarter of what may be in flight, so that some can be on their way while
// others are handled, and others settled; but what keeps all workers busy, and all when the rest would not be worth another read.
func (f *fetcher) share(r room) int {
	if share := max(f.hands, minShare, f.pace.bound/4); f.ahead != nil && r.messages-share >= share {
		r.messages = share
	}
	return r.entries(r.read, f.size)
}

// appendKept appends what was read to be kept, see stream.Member.ReadAgain.
func appendKept(kept, leased []tier.Leased) []tier.Leased {
	for _, l := range leased {
		l.Records = slices.Clone(l.Records)
		kept = append(kept, l)
	}
	return kept
}
