package stream

import (
	"context"
	"strconv"
	"sync"
	"time"

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
	feed   *tier.Feed    // of the log

	direct    directCommit
	ending    sync.Mutex // held by who commits, or asks where it is, until the reply is here; taken before mu
	mu        sync.Mutex // not held while a commit is under way, so that what comes next is read meanwhile
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
	found     int                           // where the last of them was found that was looked for
	above     []codec.EntryID               // what was through above the checkpoint when this began, and was not read again yet
	taken     map[codec.EntryID][]tier.Open // parked entries that are given out again, with what is open of them
	astray    bool                          // others may be taken up that this does not know of, since a reply was lost
	returned  []giveBack
	given     bool          // the first entry after began
	crashes   int           // at the checkpoint that this began with
	reach     codec.EntryID // of those who crashed there

	past past // below the log's first entry

	memory   [3]fetch      // of ReadAgain
	turn     int           // which of them comes next
	asked    codec.EntryID // entries above it
	askedFor int           // were asked for, so many; 0: none
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

// Close gives up the connections that the owner has for reading and for commits; Leave and Client.Close do that, too. What it reads later comes
// over the client's.
func (o *Owner) Close() {
	o.feed.Close()
	o.direct.tx.Discard()
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
	o.ending.Lock()
	defer o.ending.Unlock()
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
	o.given, o.crashes, o.reach, o.passed, o.past = false, is.crashes, is.reach, is.passed, past{}
}

// held is what was given out and is not settled; of what was handed back, with the deliveries that it was handed back with.
func (o *Owner) held() (held []tier.Held) {
	returned := map[codec.EntryID]tier.Held{}
	for _, g := range o.returned {
		returned[g.Entry] = g.Held
	}
	add := func(e codec.EntryID) {
		h, is := returned[e]
		if !is {
			h = tier.Held{Entry: e, Deliveries: 1}
		}
		held = append(held, h)
	}
	for _, p := range o.ahead {
		if !p.through {
			add(p.entry)
		}
	}
	for e := range o.taken {
		add(e)
	}
	return held
}
