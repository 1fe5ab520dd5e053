package consumer

import (
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// recover finds out what this member holds: of what was fetched the rest is dropped, and what a failed call left behind is
// released, so that it is taken over at once instead of waiting for its lease. The caller holds reading.
func (f *fetcher) recover(fetched []tier.Leased) bool {
	f.suspect = true
	return f.repeat(f.fetching, "sync", func() error {
		held, err := f.sync()
		if err != nil {
			return err
		}
		unknown := f.reconcile(held)
		mine, stranded := claim(fetched, held, unknown)
		f.metrics.lost[lostLease].Add(float64(len(fetched) - len(mine)))
		f.closeIfStopping()
		f.desk.takeNew(mine)
		fetched = nil // if the release fails, they are known when this is tried again
		if len(stranded) > 0 {
			if err := f.member.Release(f.calls, stranded, 0); err != nil {
				return err
			}
			f.metrics.released[releasedStranded].Add(float64(len(stranded)))
			f.log.Warn("entries were given to this consumer by a call whose reply was lost; they are released",
				slog.Int("entries", len(stranded)))
			f.desk.change(func(t *tracker) {
				for _, h := range stranded {
					t.stray(h.Held, time.Now())
				}
			})
		}
		f.suspect = false
		return nil
	}, func() error { return nil }) // a refused release: ask again
}

func (f *fetcher) recoverAlone() bool {
	f.reading.Lock()
	defer f.reading.Unlock()
	return f.recover(nil)
}

// claim finds, of what was fetched, what is held; and, of what is held and not known, what was stranded, whose delivery
// does not count.
func claim(fetched []tier.Leased, held, unknown []tier.Held) (mine []tier.Leased, stranded []tier.Returned) {
	isHeld := make(map[codec.EntryID]bool, len(held))
	for _, h := range held {
		isHeld[h.Entry] = true
	}
	isMine := make(map[codec.EntryID]bool, len(fetched))
	for i := range fetched {
		if e := fetched[i].Entry; isHeld[e] {
			isMine[e] = true
			mine = append(mine, fetched[i])
		}
	}
	for _, h := range unknown {
		if !isMine[h.Entry] {
			stranded = append(stranded, tier.Returned{Held: tier.Held{Entry: h.Entry, Deliveries: h.Deliveries - 1}})
		}
	}
	return mine, stranded
}
