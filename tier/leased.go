package tier

import (
	"errors"
	"time"

	"github.com/echomq/pipeline/codec"
)

// Leased is an entry that its reader has to settle before the lease ends.
type Leased struct {
	Entry      codec.EntryID
	Records    []codec.Record // one, or those of a pack, in order; none where there is a Pack
	Pack       *codec.Pack    // that is not decoded yet, of a reader that leaves that to others; nil: there are Records
	Deliveries int            // this one included, 1 at first
	Crashes    int            // of an entry with Open: deliveries since it was parked that did not end
	Open       []Open         // of Records, one for one, when others of the pack are done, or one has an attempt of its own; nil: all are at attempt Deliveries
	Bytes      int            // of the fields and values of the whole entry
	Terms      *Terms         // what its sender asks for; nil: nothing
	Replay     bool           // it is older than the live part of the log; only exclusive sources know
}

// Messages is how many there are, or of a Pack how many it says it has.
func (l *Leased) Messages() int {
	if l.Pack != nil {
		return l.Pack.Len()
	}
	return len(l.Records)
}

// Terms are what the sender of a message asks of whoever handles it. What is 0 is left to the consumer.
type Terms struct {
	MaxAttempts int           // deliveries at most; below 0: without end
	Backoff     time.Duration // the longest pause after the first failure, which doubles
	MaxBackoff  time.Duration // up to this
	Timeout     time.Duration // of one attempt
	Deadline    time.Time     // from when on the work is of no use, by the server's clock; of what was leased, when that is by this process's
	Keep        time.Duration // what it came to
	Tags        []string
}

// Parked is a message that is nobody's until it is due.
type Parked struct {
	Position codec.Position
	Key      string
	Delay    time.Duration // until it is due; not above 0: it is
}

// Open is a message of an entry that is not done: neither settled nor given up.
type Open struct {
	Index   int           // in its pack, 0 for a plain one
	Attempt int           // that the delivery of its entry is for it, if it is begun
	Delay   time.Duration // until it is due
	Reason  string        // why its last attempt failed; a stream does not keep it
	Suspect bool          // of a pack whose consumers died with it: it is due, and to be handled without others of its entry
}

// Letter is a message that is given up.
type Letter struct {
	Index    int // in its pack; -1 for a whole entry
	Reason   string
	Attempts int
}

// Ending is how the delivery of an entry ends, with all that comes of it. Open are the messages that are to come again,
// when the first of them is due; Dead go to the dead letters; the rest of them is settled. Outputs take effect with it, or
// not at all.
type Ending struct {
	Entry      codec.EntryID
	Deliveries int // this one included
	Open       []Open
	Dead       []Letter
	Outputs    []Output
}

// Held is an entry that a member of a group holds a lease on.
type Held struct {
	Entry      codec.EntryID
	Deliveries int
}

// Returned is an entry that a member hands back. Its Deliveries are those that count; the next one is one more.
type Returned struct {
	Held
	Open []Open // what is open of it, at the attempts of the next delivery, if that is not what it was before
}

// Taken is the outcome of one look for entries whose lease has ended.
type Taken struct {
	Paused bool // nothing was looked for, since the group is paused: nothing is to be read either
	Leased []Leased
	Lost   []codec.EntryID // trimmed while they were pending; no longer pending
	Done   bool            // the look has come to the end of the pending list
	// Next is how long the first parked entry is not due yet; below 0: none is parked.
	Next time.Duration
	// Suspects are entries that the look has passed over, since they are taken one at a time.
	Suspects int
}

// Rebuilt says what became of a group that the server had lost.
type Rebuilt struct {
	How   Rebuild
	After codec.EntryID // the group reads on after it; zero when another member made it again
}

// Rebuild is a way in which a lost group came back.
type Rebuild string

const (
	Found     Rebuild = "found"     // another member made it again
	Resumed   Rebuild = "resumed"   // at its floor: what was settled since the last checkpoint comes again
	Restarted Rebuild = "restarted" // at the beginning: the log is another one than it was
)

// ErrFenced says that a call of a group's member was refused whole, with no effect: entries of its were taken over since
// it last looked, or its consumer was removed.
var ErrFenced = errors.New("tier: refused: entries of this consumer were taken over")
