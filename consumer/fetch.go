package consumer

import (
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	// A read waits for new entries for idleWait, and for busyWait while something is in flight or parked, since that may
	// call for a look. It is not cut short, so a stop waits for it.
	idleWait = time.Second
	// idleJobWait is idleWait of a worker of a queue: longer, so that with all else that it does now and then it sends no more
	// than a command a second.
	idleJobWait = 2 * time.Second
	busyWait    = 250 * time.Millisecond
)

// fetcher brings entries in: new ones by reading, those whose lease has ended by looking for them. It does one at a time,
// and each in turn when there is both, so that neither starves the other, and neither takes room that the other was
// promised.
type fetcher struct {
	*run
	pace    pace
	hands   int         // messages that workers can have at once
	ahead   aheadReader // the member; nil: it cannot
	plenty  bool        // the last read brought all that it had asked for
	coming  int         // entries that were asked for ahead
	look    look
	size    size // of entries, of late
	failed  int  // reads in a row
	suspect bool // entries may be held here that nobody knows of
	paused  bool // the group is: nothing is fetched, but asked whether it still is
	newest  codec.EntryID
	census  census
}

func (r *run) fetchLoop() {
	f := fetcher{run: r, pace: newPace(&r.cfg), hands: r.cfg.Concurrency * max(1, r.cfg.BatchSize)}
	f.ahead, _ = r.member.(aheadReader)
	for f.fetching.Err() == nil {
		if !f.step() {
			return
		}
		f.urgent.fetched()
	}
}

// step does what is due; false ends the loop.
func (f *fetcher) step() bool {
	if f.suspect && !f.recoverAlone() {
		return false
	}
	if !f.learnParked() {
		return false
	}
	room, due := f.ask()
	for _, old := range []struct {
		isDue bool
		bring func(n int) bool
	}{{f.look.isDue(time.Now(), due.released), f.takeOver}, {isPast(due.parked), f.takeDue}} {
		if !old.isDue || room.take == 0 {
			continue
		}
		n := room.entries(room.take, f.size)
		if room.read > 0 {
			n = (n + 1) / 2 // the other half is for what is new
		}
		if !old.bring(n) {
			return false
		}
		if f.suspect {
			return true // the next step finds out
		}
		room, due = f.ask()
	}
	if !f.paused && room.worthReading(f.pace.bound, f.cfg.MaxInFlightBytes) {
		wait := busyWait
		if room.idle {
			wait = f.idleWait
		}
		return f.read(f.share(room), f.look.cutShort(wait, time.Now(), due.first()))
	}
	f.await(due, room)
	return true
}

// due is when there is something old to fetch, as far as is known here; zero: nothing.
type due struct {
	released time.Time // by this consumer, for others or itself to take over
	parked   time.Time // by whomever
}

// first is the earlier of both.
func (d due) first() time.Time {
	if d.released.IsZero() || !d.parked.IsZero() && d.parked.Before(d.released) {
		return d.parked
	}
	return d.released
}

func isPast(at time.Time) bool { return !at.IsZero() && !at.After(time.Now()) }

// ask returns how much room there is, and what is due when. While the group is paused, nothing is.
func (f *fetcher) ask() (r room, d due) {
	f.desk.ask(func(t *tracker) {
		t.max = f.pace.follow(time.Now(), t.ended)
		r, d = t.room(f.hands), due{t.due, t.next}
	})
	if f.paused {
		d = due{}
	}
	return r, d
}

// await waits until there may be more room, or a look is due for which there is room.
func (f *fetcher) await(due due, r room) {
	var look <-chan time.Time
	if r.take > 0 {
		timer := time.NewTimer(f.look.cutShort(lookEvery, time.Now(), due.first()))
		defer timer.Stop()
		look = timer.C
	}
	select {
	case <-f.fetching.Done():
	case <-f.desk.room:
	case <-look:
	}
}

// read brings new entries in. When a call was refused meanwhile, some of them may be another's already: then, as after a
// read that failed, it is found out first what is held, so that none of those is begun.
func (f *fetcher) read(n int, wait time.Duration) bool {
	ok, err := f.readOnce(n, wait)
	if err == nil {
		f.failed = 0
		return ok
	}
	f.suspect = true // the next step finds out
	f.shrink(err)
	f.failed++
	asks := reactionTo(err) == ask
	if asks && f.failed <= fencesInARow {
		return true
	}
	if !asks && !f.worthWaiting("read", err) || !tier.Pause(f.fetching, tier.CallDelay(f.failed)) {
		f.recoverAlone() // once, for the sake of those who would wait for a lease
		return false
	}
	return true
}

// readOnce reads, and goes on while more is on its way. What comes after a refusal is doubtful: it waits for a Sync, and the Sync until
// nothing is on its way.
func (f *fetcher) readOnce(n int, wait time.Duration) (ok bool, err error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if f.unlearned() {
		return true, nil
	}
	var doubtful []tier.Leased
	for more := true; more; n, wait = f.coming, 0 {
		var leased []tier.Leased
		if leased, more, err = f.readAhead(n, wait); err != nil {
			return false, err
		}
		f.size.learn(leased)
		f.noticeRewind(leased)
		if len(leased) > 0 && f.fenced.Load() {
			doubtful = appendKept(doubtful, leased)
			continue
		}
		f.closeIfStopping()
		f.desk.takeNew(leased)
	}
	if len(doubtful) > 0 {
		return f.recover(doubtful), nil
	}
	return true, nil
}

// shrink asks for one entry next, after a fetch that did not come in time: it may have been too much for the network.
func (f *fetcher) shrink(err error) {
	if tier.OutcomeUnknown(err) {
		f.size = size{}
	}
}

// noticeRewind tells when a group gives out again what it gave out before: somebody has reset it, or the server came back
// with older data. Nothing is to be done about it, but whoever runs the consumer should know why things happen twice.
func (f *fetcher) noticeRewind(leased []tier.Leased) {
	if len(leased) == 0 || f.exclusive || f.unordered { // whoever comes to own a cursor goes back to its checkpoint
		return
	}
	if first := leased[0].Entry; first.Compare(f.newest) <= 0 {
		f.metrics.rewinds.Inc()
		f.uncertain.Store(true)
		f.log.Warn("the group went back: it was reset, or the server lost its newest data; what was handled since comes again",
			slog.String("from", first.String()), slog.String("newest", f.newest.String()))
	}
	f.newest = leased[len(leased)-1].Entry
}

// closeIfStopping comes before what was fetched is added: once the stop has begun, none of it is begun.
func (f *fetcher) closeIfStopping() {
	if f.fetching.Err() != nil {
		f.desk.close()
	}
}
