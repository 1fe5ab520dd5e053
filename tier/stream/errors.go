package stream

import (
	"errors"
	"fmt"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// What callers branch on. Errors of the server are classes of package tier.
var (
	// ErrNoStream: nobody has declared the stream yet.
	ErrNoStream = errors.New("stream: no such stream: append to it first, or check the address")
	// ErrStreamRemoved: the stream was removed by its verb while this writer or reader was at work.
	ErrStreamRemoved = errors.New("stream: the stream was removed: a writer that is started again makes it anew")
	// ErrGroupDeleted: the group was deleted by its verb while this member was at work.
	ErrGroupDeleted = errors.New("stream: the group was deleted: a consumer that is started again makes it anew")
	// ErrNotKeyed: the stream has no versions of its keys.
	ErrNotKeyed = errors.New("stream: not a keyed stream: a stream is keyed from its first append on, by writers with Keyed")
	// ErrCursorDeleted: the cursor was deleted by its verb while this member was at work.
	ErrCursorDeleted = errors.New("stream: the cursor was deleted: a consumer that is started again makes it anew")
	// ErrNoCursor: nobody has made the cursor yet.
	ErrNoCursor = errors.New("stream: no such cursor: start its consumer first, or check the name")
	// ErrNotFound: no message has this id.
	ErrNotFound = errors.New("stream: no message with this id")
	// ErrIDSpace: the stream's top is so far in the future that its ids are at their end.
	ErrIDSpace = errors.New("stream: no ids are left: an entry with an id far in the future was added by another program; copy what is needed to a new stream")
	// ErrBrandsExhausted: each of the 17,576 brands belongs to a stream of the scope.
	ErrBrandsExhausted = errors.New("stream: all brands of this scope belong to streams: put the stream into another scope")
	// ErrNonMonotonic: the log of an exclusive stream holds an id that is not below the one to be appended, and this call
	// was not appended before. Nothing was written.
	ErrNonMonotonic = errors.New("stream: the exclusive stream's newest id is not below this one: stop its other writer, or, if its clock was ahead of this host's, wait until that time has come")
	// ErrAlreadyAppended: a named producer's position is below one that was appended, and there is no receipt of it: it
	// was appended so long ago, or left out.
	ErrAlreadyAppended = errors.New("stream: this or a later position of the producer was appended before")
	// ErrPositionReused: a named producer's position was appended before, with another number of messages.
	ErrPositionReused = errors.New("stream: this position of the producer was appended with other messages")
	// ErrProducerMoved: a named producer's last position is another than the one that the call follows. Nothing was written.
	ErrProducerMoved = errors.New("stream: the producer's last position is not the one that this call follows: another process appends under its name, or has until now; read Position, and go on from there")
	// ErrNotRunning: Publish needs Run.
	ErrNotRunning = errors.New("stream: Publish needs Writer.Run: start it, and wait for Ready")
	// ErrUnexpected: a state does not have what it was to have before a commit. Nothing was committed.
	ErrUnexpected = errors.New("stream: a state does not have what a commit expected: somebody else has written to it")
	// ErrSweepLost: the right to trim the streams of a scope is another's, or its lease has ended. Nothing went.
	ErrSweepLost = errors.New("stream: the right to trim is another's, or its lease has ended: take it again")
	// ErrPolicyChanged: the stream has another policy of retention than the one that was to be followed, or none. Nothing went.
	ErrPolicyChanged = errors.New("stream: the policy of retention has changed: read it again")
	// ErrBadCall: an argument breaks a stated rule; nothing was sent.
	ErrBadCall = errors.New("stream: bad call")
)

// NameTakenError says that the stream has a group of the name that a cursor asks for, or the other way round: they share
// their names, and what belongs to these.
type NameTakenError struct {
	Stream, Name string
	By           string // "group" or "cursor"
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("stream: %s has a %s named %s: choose another name, or delete the %s first", e.Stream, e.By, e.Name, e.By)
}

// BrandTakenError says that another stream of the scope has the brand.
type BrandTakenError struct {
	Brand  codec.Brand
	Stream string // that has it
}

func (e *BrandTakenError) Error() string {
	return fmt.Sprintf("stream: brand %s belongs to stream %s of this scope: choose another", e.Brand, e.Stream)
}

// BrandDiffersError says that the stream was declared with another brand than the one asked for.
type BrandDiffersError struct {
	Stream    string
	Have, Ask codec.Brand
}

func (e *BrandDiffersError) Error() string {
	return fmt.Sprintf("stream: %s has brand %s, not %s: leave the brand out, or write to another stream", e.Stream, e.Have, e.Ask)
}

// KindDiffersError says that a stream was declared as another kind than the writer counts on.
type KindDiffersError struct {
	Stream    string
	Have, Ask string // "exclusive", "keyed", or empty: plain
}

func (e *KindDiffersError) Error() string {
	switch e.Have {
	case "":
		without := "Exclusive"
		if e.Ask == keyed {
			without = "Keyed"
		}
		return fmt.Sprintf("stream: %s is a plain one, with ids from the server and without versions of keys: write without %s, or write to another stream", e.Stream, without)
	case keyed:
		return fmt.Sprintf("stream: %s is keyed, each append notes the versions of its keys: write with Keyed, or write to another stream", e.Stream)
	case exclusive:
		return fmt.Sprintf("stream: %s is exclusive, its one writer mints its ids: write with Exclusive, or write to another stream", e.Stream)
	}
	return fmt.Sprintf("stream: %s is of a kind %.32q, which this version does not know: upgrade it, or write to another stream", e.Stream, e.Have)
}

// Both are matched by a *PartitionError; nothing was written.
var (
	// ErrPartitioned: the stream has partitions, and was to be written or read as one without.
	ErrPartitioned = errors.New("stream: partitioned")
	// ErrRepartitioned: the scope has another number of partitions than the writer counts, or is being changed.
	ErrRepartitioned = errors.New("stream: repartitioned")
)

// PartitionError says that a scope has other partitions than the caller counts.
type PartitionError struct {
	Stream tier.Address // "shop/orders", or one of its partitions, "shop.3/orders"
	Have   string       // of a partitioned scope its tier.Layout, of a partition its mark, as in "shop 3 8"; empty: neither
	Ask    string       // of a partition's writer, as in "partition 3/8"; empty: none
}

func (e *PartitionError) Error() string {
	mark, isPart := tier.ParsePartition(e.Have)
	layout, isWhole := tier.ParseLayout(e.Have)
	switch {
	case isWhole == nil && e.Ask != "":
		return fmt.Sprintf("stream: %s: scope %s is being changed from %d to %d partitions: wait for that, or %s", e.Stream, e.Stream.Scope, layout.Count, layout.Next, endChange(e.Stream.Scope, layout))
	case isWhole == nil:
		return fmt.Sprintf("stream: %s: scope %s has %s partitions: write to it with NewPartitionedWriter, read one of them as %s@0, or take another scope", e.Stream, e.Stream.Scope, layout, e.Stream)
	case e.Ask == "" && isPart == nil:
		return fmt.Sprintf("stream: %s: scope %s is partition %d of %s: write to %s/%s with NewPartitionedWriter, which finds the partition, or take another scope",
			e.Stream, e.Stream.Scope, mark.Index, mark.Of, mark.Of, e.Stream.Stream)
	case e.Have == "":
		return fmt.Sprintf("stream: %s: scope %s is not marked as a partition, and the writer is for %s: run 'pipeline scope partition' again with that number", e.Stream, e.Stream.Scope, e.Ask)
	case isPart == nil && mark.Next != 0:
		return fmt.Sprintf("stream: %s: scope %s is being changed from %d to %d partitions: wait for that, or %s", e.Stream, mark.Of, mark.Count, mark.Next, endChange(mark.Of, mark.Layout))
	}
	return fmt.Sprintf("stream: %s: it is marked as %q, and the writer is for %s: the number was changed: append again", e.Stream, e.Have, e.Ask)
}

func endChange(scope string, l tier.Layout) string {
	return fmt.Sprintf("end it with 'pipeline scope partition %s --count %d' (or --count %d, to go back)", scope, l.Next, l.Count)
}

// Is makes errors.Is(err, ErrPartitioned) true for a caller that counts no partitions, errors.Is(err, ErrRepartitioned) for one
// that counts otherwise.
func (e *PartitionError) Is(target error) bool {
	return target == ErrPartitioned && e.Ask == "" || target == ErrRepartitioned && e.Ask != ""
}

// TooLargeError says that a message or a batch is over its limit. Nothing was sent.
type TooLargeError struct {
	What  string // "message, bytes", "batch, bytes", "batch, messages"
	Size  int
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("stream: %s: %d, at most %d: store large payloads elsewhere and send their name, or split the batch", e.What, e.Size, e.Limit)
}

// ErrArchiveAhead: the archive has more of the stream than its reader knows: read its manifest again.
var ErrArchiveAhead = errors.New("stream: the archive has more of the stream than was read of it")

// ErrLogMoved: a log that had lost its end has given ids since it was looked at, maybe below what is archived: look again.
var ErrLogMoved = errors.New("stream: the log had lost its end, and has given ids since it was looked at")

// GapError ends a read that comes to entries which neither the log nor its archive has.
type GapError struct {
	Stream string
	From   codec.EntryID // what was to be read next
	First  codec.EntryID // address of the first message from there on that exists; zero: none yet
}

func (e *GapError) Error() string {
	if e.First.IsZero() {
		return fmt.Sprintf("stream: %s: entries from %s on are gone, and no archive has them: start again to read what comes next", e.Stream, e.From)
	}
	return fmt.Sprintf("stream: %s: entries from %s on are gone, and no archive has them, up to %s (%s): read on from there", e.Stream, e.From, e.First, e.First.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// ErrGap is matched by every *GapError, and so is ErrTrimmed.
var ErrGap = errors.New("stream: gap")

// Is makes errors.Is(err, ErrGap) and errors.Is(err, ErrTrimmed) true.
func (e *GapError) Is(target error) bool { return target == ErrGap || target == ErrTrimmed }

// TrimmedError ends a read that counts on history which is gone.
type TrimmedError struct {
	Stream string
	First  codec.EntryID // address of the first message that exists; zero when the stream is empty
	// Lost: the log is another one than the one that was read. The stream was removed and made again, and then it matches
	// ErrStreamRemoved too, or the server has lost it; nothing on the server tells the two apart.
	Lost bool
}

func (e *TrimmedError) Error() string {
	begins := fmt.Sprintf("it begins at %s (%s)", e.First, e.First.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	switch {
	case e.Lost && e.First.IsZero():
		return fmt.Sprintf("stream: %s: the server lost it (or it was removed and made again): nothing of what was read is there, and it is empty; start again to read what comes next", e.Stream)
	case e.Lost:
		return fmt.Sprintf("stream: %s: the stream was removed and made again, or the server lost it: nothing of what was read is there; %s: read on from there", e.Stream, begins)
	case e.First.IsZero():
		return fmt.Sprintf("stream: %s: what was to be read next is gone: the stream was emptied (reset), or all of it trimmed; start again to read what comes next", e.Stream)
	}
	return fmt.Sprintf("stream: %s: what was to be read next has been trimmed; %s, after a trim or a reset of the stream: read on from there", e.Stream, begins)
}

// ErrTrimmed is matched by every *TrimmedError.
var ErrTrimmed = errors.New("stream: trimmed")

// Is makes errors.Is(err, ErrTrimmed) true, and of a stream that was made again errors.Is(err, ErrStreamRemoved).
func (e *TrimmedError) Is(target error) bool {
	return target == ErrTrimmed || e.Lost && !e.First.IsZero() && target == ErrStreamRemoved
}
