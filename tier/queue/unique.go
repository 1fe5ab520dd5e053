package queue

import (
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
)

// maxUniqueKey is how long a unique key is at most, in bytes.
const maxUniqueKey = 1024

// Unique says that there is to be one job of a key at a time. A job gives its key up when it is done, dead, cancelled or
// removed, whatever Until says, but for one of a period: that is over with its time, and not before, unless the job is
// cancelled or removed.
type Unique struct {
	Key      string // 1 to 1024 bytes
	Until    Until
	For      time.Duration // of UntilTime: from when the job was enqueued
	Conflict Conflict
}

// Until is how long a job has its unique key.
type Until string

// How long that is. The zero value is UntilDone.
const (
	UntilDone    Until = "d" // until it has ended
	UntilStarted Until = "s" // until a worker has it
	UntilTime    Until = "p" // for a period
)

// Conflict is what becomes of a job whose unique key another one has.
type Conflict string

// What becomes of it. The zero value is Keep.
const (
	Keep    Conflict = "k" // it is dropped, and the other one's id answered
	Refuse  Conflict = "x" // it is refused, with a *UniqueError
	Replace Conflict = "r" // the other one carries its message, terms, time and this Unique from now on, with all attempts before it; of an active one, it runs after that
)

// UniqueError says which job has the unique key.
type UniqueError struct {
	Key    string
	Holder codec.ID
}

func (e *UniqueError) Error() string {
	return fmt.Sprintf("queue: the unique key %.64q is that of %s", e.Key, e.Holder)
}

// encode is key and policy as enqueue.lua takes them.
func (u *Unique) encode() (key, policy string, err error) {
	if *u == (Unique{}) {
		return "", "", nil
	}
	until, conflict := u.Until, u.Conflict
	if until == "" {
		until = UntilDone
	}
	if conflict == "" {
		conflict = Keep
	}
	switch {
	case u.Key == "" || len(u.Key) > maxUniqueKey:
		return "", "", fmt.Errorf("%w: a unique key has 1 to %d bytes, this has %d", ErrBadCall, maxUniqueKey, len(u.Key))
	case until != UntilDone && until != UntilStarted && until != UntilTime:
		return "", "", fmt.Errorf("%w: a unique key is kept UntilDone, UntilStarted or UntilTime", ErrBadCall)
	case (until == UntilTime) != (u.For >= time.Millisecond) || u.For < 0:
		return "", "", fmt.Errorf("%w: For is that of UntilTime, a millisecond or more", ErrBadCall)
	case conflict != Keep && conflict != Refuse && conflict != Replace:
		return "", "", fmt.Errorf("%w: a conflict ends with Keep, Refuse or Replace", ErrBadCall)
	}
	return string(until) + u.Key, string(conflict) + millis(u.For), nil
}

// uniqueOf reads what encode writes.
func uniqueOf(key, policy string) Unique {
	if key == "" || policy == "" {
		return Unique{}
	}
	ms, _ := strconv.ParseInt(policy[1:], 10, 64)
	return Unique{Key: key[1:], Until: Until(key[:1]), Conflict: Conflict(policy[:1]), For: time.Duration(ms) * time.Millisecond}
}
