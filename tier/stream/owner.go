package stream

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Owner is one member of a cursor: it owns it, or stands by until it can. Its methods are those of Member, for one runtime
// serves both. What it holds is in its memory, since nobody else has a say while it owns: what it has read past the
// checkpoint, and what was parked and is taken up. Calls with an effect carry its epoch, and are refused whole with
// tier.ErrFenced when another has taken over, or when the server went back to before its last commit.
//
// Its methods are safe for concurrent use.
type Owner struct {
	cursor *Cursor
	name   string
	wake   chan struct{} // something was settled

	mu        sync.Mutex
	lease     time.Duration
	known     bool      // the cursor is there, as far as is known
	paused    bool      // it is, as far as is known: nothing is given out
	epoch     string    // empty: it stands by
	askAt     time.Time // for the ownership again
	confirmed time.Time // when the ownership was last known to hold, at the earliest
	commit    uint64    // number of the last one
	unsure    *committing
	start     codec.EntryID
	live      codec.EntryID
	at        codec.EntryID                 // checkpoint
	read      codec.EntryID                 // last that was read
	passed    int64                         // entries that there ever were up to it; below 0: not known
	began     codec.EntryID                 // checkpoint that this began with
	told      codec.EntryID                 // last that the server was told to have been read
	ahead     []passage                     // what was read above the checkpoint, in order
	above     []codec.EntryID               // what was through above the checkpoint when this began, and was not read again yet
	taken     map[codec.EntryID][]tier.Open // parked entries that are given out again, with what is open of them
	astray    bool                          // others may be taken up that this does not know of, since a reply was lost
	returned  []giveBack
	given     bool          // the first entry after began
	crashes   int           // at the checkpoint that this began with
	reach     codec.EntryID // of those who crashed there
}

// standBy is the pause between two asks for the ownership, which may be handed over at any time.
const standBy = time.Second

// maxAhead are the entries above the checkpoint with which no more are read: what is through of them stands in every commit.
const maxAhead = 8192

// passage is an entry that was read.
type passage struct {
	entry   codec.EntryID
	through bool
}

// Name of the consumer.
func (o *Owner) Name() string { return o.name }

// Lease of the cursor.
func (o *Owner) Lease() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lease
}

// Owns tells whether it owns the cursor, as far as it knows.
func (o *Owner) Owns() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.epoch != ""
}

// Standing is the epoch of the ownership, 0 when it stands by, and the checkpoint, zero before the first commit of a cursor
// that begins at the head.
func (o *Owner) Standing() (epoch uint64, checkpoint codec.EntryID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	epoch, _ = strconv.ParseUint(o.epoch, 10, 64)
	return epoch, o.at
}

// Sync asks for the ownership, or whether it still has it, and tells what it holds.
//
// Errors: ErrStreamRemoved, ErrCursorDeleted, *NameTakenError, *LeaseDiffersError.
func (o *Owner) Sync(ctx context.Context) ([]tier.Held, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := time.Now()
	is, err := o.cursor.acquire(ctx, o.name, o.known)
	if err != nil {
		return nil, err
	}
	o.cursor.place.declared.Store(nil) // the stream may be declared in another way by now
	if is.code == "restarted" {
		o.cursor.place.client.Logger().Warn("the server had lost the stream, or the cursor; it begins with what was written since",
			"stream", o.cursor.place.addr.String(), "cursor", o.cursor.cfg.Name, "was", o.at.String())
	}
	o.known, o.lease, o.paused = true, is.lease, is.paused
	switch {
	case is.code == "standby":
		o.forget(is)
		o.epoch, o.askAt = "", time.Now().Add(min(is.wait, standBy))
	case is.code == "owned" && is.epoch == o.epoch && o.agrees(is.commit):
		o.confirmed, o.passed = asked, is.passed
	default:
		o.forget(is)
		o.epoch, o.commit, o.confirmed = is.epoch, is.commit, asked
	}
	return o.held(), nil
}

// agrees tells whether the server knows of the last commit, after which this goes on. One of unknown outcome is cleared up.
func (o *Owner) agrees(commit uint64) bool {
	if o.unsure != nil && commit == o.unsure.number {
		o.absorb(o.unsure)
	}
	return commit == o.commit
}

// forget begins where the server says that it is: what was in flight is read again.
func (o *Owner) forget(is ownership) {
	o.unsure, o.ahead, o.returned, o.taken, o.astray = nil, nil, nil, map[codec.EntryID][]tier.Open{}, true
	o.at, o.read, o.began, o.told, o.above, o.start, o.live = is.at, is.at, is.at, is.at, is.above, is.start, is.live
	o.given, o.crashes, o.reach, o.passed = false, is.crashes, is.reach, is.passed
}

// held is what was given out and is not settled.
func (o *Owner) held() (held []tier.Held) {
	for _, p := range o.ahead {
		if !p.through {
			held = append(held, tier.Held{Entry: p.entry, Deliveries: 1})
		}
	}
	for e := range o.taken {
		held = append(held, tier.Held{Entry: e, Deliveries: 1})
	}
	return held
}

// Read returns up to n entries after the last that it has read, waiting for the first up to wait. Standing by, it waits
// for the ownership instead. While the cursor is paused, which Renew and the looks learn, it returns none.
func (o *Owner) Read(ctx context.Context, n int, wait time.Duration) ([]tier.Leased, error) {
	if n <= 0 {
		return nil, nil
	}
	if owns, err := o.stand(ctx, wait); !owns || err != nil {
		return nil, err
	}
	from, epoch, suspects, paused := o.readFrom()
	if paused {
		tier.Pause(ctx, wait)
		return nil, nil
	}
	if suspects { // one at a time, when nothing else is in flight
		if n = 1; !o.await(ctx, wait, func() bool { return len(o.held()) == 0 }) {
			return nil, nil
		}
	}
	if !o.await(ctx, wait, func() bool { return len(o.ahead)+len(o.above) < maxAhead }) {
		return nil, nil
	}
	var f fetch
	if err := o.fetch(ctx, &f, from, n, min(wait, maxBlock)); err != nil {
		return nil, err
	}
	if len(f.entries) == 0 {
		o.readAll(epoch, from)
		return nil, nil
	}
	if err := o.tell(ctx, epoch, f.entries[len(f.entries)-1].ID); err != nil {
		return nil, err
	}
	return o.give(ctx, epoch, from, &f)
}

// tell lets the server know what is read, before any of it is handled, until the checkpoint has moved: if this process dies
// of it, the next owner is to know.
func (o *Owner) tell(ctx context.Context, epoch string, reach codec.EntryID) error {
	o.mu.Lock()
	moved := o.at != o.began
	o.told = later(o.told, reach)
	o.mu.Unlock()
	if moved {
		return nil
	}
	return o.keep(ctx, epoch)
}

func later(a, b codec.EntryID) codec.EntryID {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// stand waits for the ownership; true when it is there. One that was not confirmed for a lease may be another's by now.
func (o *Owner) stand(ctx context.Context, wait time.Duration) (owns bool, err error) {
	o.mu.Lock()
	owns, at := o.epoch != "", o.askAt
	stale := owns && time.Since(o.confirmed) > o.lease
	o.mu.Unlock()
	switch {
	case stale:
		return false, tier.ErrFenced
	case owns:
		return true, nil
	}
	if !tier.Pause(ctx, min(wait, time.Until(at))) || time.Now().Before(at) {
		return false, nil
	}
	if _, err = o.Sync(ctx); err == nil && o.Owns() {
		err = tier.ErrFenced // whoever reads has to look first what it holds, and what is parked
	}
	return false, err
}

func (o *Owner) readFrom() (from codec.EntryID, epoch string, suspects, paused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.read, o.epoch, o.crashes >= 2 && o.read.Compare(o.reach) < 0, o.paused
}

// await waits until something is so, which may come to be with a commit. The caller does not hold mu, is does.
func (o *Owner) await(ctx context.Context, wait time.Duration, is func() bool) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		o.mu.Lock()
		so := is()
		o.mu.Unlock()
		if so {
			return true
		}
		select {
		case <-o.wake:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (o *Owner) fetch(ctx context.Context, f *fetch, from codec.EntryID, n int, wait time.Duration) error {
	p := o.cursor.place
	key := p.addr.LogKey()
	read := p.client.B().Xread().Count(int64(n))
	var m rueidis.RedisMessage
	var err error
	if wait >= time.Millisecond {
		m, err = p.client.Wait(ctx, key, wait, read.Block(wait.Milliseconds()).Streams().Key(key).Id(from.String()).Build())
	} else {
		m, err = p.client.Do(ctx, key, read.Streams().Key(key).Id(from.String()).Build())
	}
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.readReply(m)
}

// give notes what was read, and leaves out what was through before.
func (o *Owner) give(ctx context.Context, epoch string, from codec.EntryID, f *fetch) ([]tier.Leased, error) {
	o.mu.Lock()
	start := o.start
	o.mu.Unlock()
	if err := o.cursor.place.decode(ctx, f, nil, start, nil); err != nil {
		return nil, err
	}
	leased := f.leased
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch != epoch || o.read != from || time.Since(o.confirmed) > o.lease {
		return nil, tier.ErrFenced // what was read is another's to handle, or not what comes next
	}
	if o.paused { // since the read began
		return nil, nil
	}
	kept := leased[:0]
	for i := range leased {
		l := &leased[i]
		o.read = l.Entry
		if o.wasThrough(l.Entry) {
			o.ahead = append(o.ahead, passage{entry: l.Entry, through: true})
			continue
		}
		if !o.given { // what comes after the first killed nobody, as far as is known
			l.Deliveries, o.given = 1+o.crashes, true
		}
		l.Replay = l.Entry.Compare(o.live) <= 0
		o.ahead = append(o.ahead, passage{entry: l.Entry})
		kept = append(kept, *l)
	}
	return kept, nil
}

// leased decodes entries.
func (o *Owner) leased(ctx context.Context, entries []codec.Entry, deliveries map[codec.EntryID]int) ([]tier.Leased, error) {
	o.mu.Lock()
	start := o.start
	o.mu.Unlock()
	f := fetch{page: page{entries: entries}}
	if err := o.cursor.place.decode(ctx, &f, deliveries, start, nil); err != nil {
		return nil, err
	}
	return f.leased, nil
}

// readAll notes that the log ends at what was read: what was through beyond it was trimmed, and what is parked of that is to
// be found lost.
func (o *Owner) readAll(epoch string, from codec.EntryID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.above); n > 0 && o.epoch == epoch && o.read == from {
		o.read, o.above = o.above[n-1], nil
	}
}

// wasThrough tells whether an entry, read in order, was through when this began.
func (o *Owner) wasThrough(e codec.EntryID) bool {
	n, found := slices.BinarySearchFunc(o.above, e, codec.EntryID.Compare)
	if o.above = o.above[n:]; found {
		o.above = o.above[1:]
	}
	return found
}
