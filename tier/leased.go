package tier

import (
	"errors"

	"github.com/echomq/pipeline/codec"
)

// Leased is an entry that its reader has to settle before the lease ends.
type Leased struct {
	Entry      codec.EntryID
	Records    []codec.Record // one, or those of a pack, in order
	Deliveries int            // this one included, 1 at first
	Bytes      int            // of the fields and values of the whole entry
}

// Held is an entry that a member of a group holds a lease on.
type Held struct {
	Entry      codec.EntryID
	Deliveries int
}

// Taken is the outcome of one look for entries whose lease has ended.
type Taken struct {
	Leased []Leased
	Lost   []codec.EntryID // trimmed while they were pending; no longer pending
	Done   bool            // the look has come to the end of the pending list
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
