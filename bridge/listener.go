package bridge

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// listener is the member of a fanout. What it has read it holds until it is settled; nobody takes it away.
type listener struct {
	*fanout
	name string

	mu     sync.Mutex
	held   map[codec.EntryID]tier.Leased // with the deliveries that count so far
	parked map[codec.EntryID]time.Time   // of held: when each is due
	aside  int                           // bytes of these
}

// So many messages, of so many bytes, are parked at most while new ones are read: they are in memory.
const (
	maxAside      = 4096
	maxAsideBytes = 64 << 20
)

func (l *listener) Name() string         { return l.name }
func (l *listener) Lease() time.Duration { return stream.DefaultLease }

// Read returns what has come, or the first that does.
func (l *listener) Read(_ context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	records := l.records
	if l.isFull() {
		records = nil
	}
	var read []tier.Leased
	select {
	case record, more := <-records:
		if !more {
			return nil, l.ended(timer)
		}
		read = append(read, l.hold(record))
	case <-timer.C:
		return nil, nil
	}
	for len(read) < n {
		select {
		case record, more := <-records:
			if more {
				read = append(read, l.hold(record))
				continue
			}
		default:
		}
		break
	}
	return read, nil
}

// ended is why nothing comes any more. The subscription is ending: it need not ask again and again.
func (l *listener) ended(wait *time.Timer) error {
	if l.failure == nil {
		<-wait.C
	}
	return l.failure
}

func (l *listener) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked) >= maxAside || l.aside >= maxAsideBytes
}

func (l *listener) hold(r codec.Record) tier.Leased {
	leased := tier.Leased{Entry: r.Addr, Records: []codec.Record{r}, Deliveries: 1, Bytes: r.Size()}
	for _, f := range r.Fields {
		leased.Bytes += len(f)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[leased.Entry] = leased
	return leased
}

// Settle forgets entries.
func (l *listener) Settle(_ context.Context, entries []codec.EntryID) (acked int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		delete(l.held, e)
	}
	return len(entries), nil
}

// Commit parks what comes again, and forgets what is given up: there is nobody who could ask for it.
func (l *listener) Commit(_ context.Context, endings []tier.Ending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range endings {
		if len(e.Open) == 0 {
			delete(l.held, e.Entry)
			continue
		}
		l.park(e.Entry, e.Open[0].Attempt, e.Open[0].Delay)
	}
	return nil
}

// Release is made by a stop, after which nobody asks.
func (l *listener) Release(_ context.Context, entries []tier.Returned, delay time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		l.park(e.Entry, e.Deliveries, delay)
	}
	return nil
}

// park lets an entry wait. The caller holds mu.
func (l *listener) park(e codec.EntryID, deliveries int, delay time.Duration) {
	leased := l.held[e]
	leased.Deliveries = deliveries
	if _, already := l.parked[e]; !already {
		l.aside += leased.Bytes
	}
	l.held[e], l.parked[e] = leased, time.Now().Add(delay)
}

// Due takes up to n parked entries up again, those that wait for longest first.
func (l *listener) Due(_ context.Context, n int) (tier.Taken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	due := make([]codec.EntryID, 0, len(l.parked))
	for e, at := range l.parked {
		if !at.After(now) {
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b codec.EntryID) int { return cmp.Or(l.parked[a].Compare(l.parked[b]), a.Compare(b)) })
	taken := tier.Taken{Done: true}
	for _, e := range due[:min(n, len(due))] {
		leased := l.held[e]
		leased.Deliveries++
		l.held[e] = leased
		delete(l.parked, e)
		l.aside -= leased.Bytes
		taken.Leased = append(taken.Leased, leased)
	}
	taken.Next = l.next(now)
	return taken, nil
}

// next is how long the first parked entry is not due yet; below 0: none is parked. The caller holds mu.
func (l *listener) next(now time.Time) time.Duration {
	first := time.Duration(-1)
	for _, at := range l.parked {
		if d := max(0, at.Sub(now)); first < 0 || d < first {
			first = d
		}
	}
	return first
}

// Parked tells what waits, for order.
func (l *listener) Parked(context.Context, func(context.Context) error) ([]tier.Parked, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	parked := make([]tier.Parked, 0, len(l.parked))
	for e, at := range l.parked {
		record := &l.held[e].Records[0]
		parked = append(parked, tier.Parked{Position: record.Position, Key: record.Key, Delay: time.Until(at)})
	}
	return parked, nil
}

// TakeOver finds nothing, since there is nobody else: what is parked is for Due.
func (l *listener) TakeOver(context.Context, int, int) (tier.Taken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tier.Taken{Done: true, Next: l.next(time.Now())}, nil
}

// Sync tells what is held and does not wait.
func (l *listener) Sync(context.Context) ([]tier.Held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make([]tier.Held, 0, len(l.held))
	for e, leased := range l.held {
		if _, aside := l.parked[e]; !aside {
			held = append(held, tier.Held{Entry: e, Deliveries: leased.Deliveries})
		}
	}
	return held, nil
}

// What a group does at the server, a fan-out has no need of.

func (l *listener) Renew(context.Context, []codec.EntryID) (gone []codec.EntryID, err error) {
	return nil, nil
}
func (l *listener) Rebuild(context.Context) (tier.Rebuilt, error) { return tier.Rebuilt{}, nil }
func (l *listener) Checkpoint(context.Context) error              { return nil }
func (l *listener) Retire(context.Context) error                  { return nil }
func (l *listener) Leave(context.Context) error                   { return nil }

var _ consumer.Member = (*listener)(nil)
