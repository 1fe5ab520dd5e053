package stream

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Condition is what a call of AppendIf expects of the stream.
type Condition struct {
	onKey   bool
	key     string
	version uint64
	tail    codec.EntryID
}

// Expect expects that the log ends with this address (Record.Addr), its zero value: that the log is empty.
func Expect(tail codec.EntryID) Condition { return Condition{tail: tail} }

// ExpectVersion expects that a key of a keyed stream has this version, 0: that it is new. The call need not append a
// message of the key.
func ExpectVersion(key string, version uint64) Condition {
	return Condition{onKey: true, key: key, version: version}
}

// ConflictError says that a condition does not hold. Nothing was written.
type ConflictError struct {
	Stream    string
	Key       string // whose version is another; empty: the log ends elsewhere
	Want, Got string // versions in decimal, or addresses, 0-0 of an empty log
}

func (e *ConflictError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("stream: %s ends at %s, not at %s: read on, decide again, and append with the new end", e.Stream, e.Got, e.Want)
	}
	return fmt.Sprintf("stream: %s: key %.64q has version %s, not %s: read on, decide again, and append with the new version", e.Stream, e.Key, e.Got, e.Want)
}

// AppendIf appends messages as AppendBatch does, if all conditions hold, else none of them. It goes out alone, not shared
// with other callers, so that a conflict is nobody else's; up to 8 calls are under way at a time. A call whose reply is
// lost is repeated, and answered as at first. Messages take an entry each, whatever Pack says. Not for named producers and
// exclusive streams.
//
// Errors: *ConflictError; ErrBadCall for conditions that contradict each other, or that the stream has not; those of
// Append.
func (w *Writer) AppendIf(ctx context.Context, ms []codec.Message, conditions ...Condition) ([]codec.ID, error) {
	if w.cfg.Producer != "" || w.cfg.Exclusive {
		return nil, fmt.Errorf("%w: AppendIf is for writers without Producer and Exclusive", ErrBadCall)
	}
	if len(ms) == 0 || len(conditions) == 0 {
		return nil, fmt.Errorf("%w: AppendIf needs messages and conditions; AppendBatch appends without any", ErrBadCall)
	}
	only, err := expectedOf(conditions, w.cfg.Keyed)
	if err != nil {
		return nil, err
	}
	only.stream = w.place.addr.String()
	return w.append(ctx, ms, parcel{only: only})
}

// expected is what must hold for a call.
type expected struct {
	stream   string // for the error
	tail     string // address, empty: any
	keys     []string
	versions []string // of the keys
}

func expectedOf(conditions []Condition, isKeyed bool) (*expected, error) {
	var e expected
	for _, c := range conditions {
		want := strconv.FormatUint(c.version, 10)
		i := slices.Index(e.keys, c.key)
		switch {
		case !c.onKey && e.tail != "" && e.tail != c.tail.String():
			return nil, fmt.Errorf("%w: Expect %s and %s: a log has one end", ErrBadCall, e.tail, c.tail)
		case !c.onKey:
			e.tail = c.tail.String()
		case !isKeyed:
			return nil, fmt.Errorf("%w: ExpectVersion is for a writer with Keyed: this stream has no versions", ErrBadCall)
		case c.key == "" || len(c.key) > codec.MaxKey || c.version >= 1<<53:
			return nil, fmt.Errorf("%w: ExpectVersion(%.64q, %d): a key has 1 to %d bytes, and a version is below 2^53", ErrBadCall, c.key, c.version, codec.MaxKey)
		case i >= 0 && e.versions[i] != want:
			return nil, fmt.Errorf("%w: ExpectVersion(%.64q) %s and %s: a key has one version", ErrBadCall, c.key, e.versions[i], want)
		case i < 0:
			e.keys, e.versions = append(e.keys, c.key), append(e.versions, want)
		}
	}
	if len(e.keys) > MaxBatch {
		return nil, &TooLargeError{What: "conditions", Size: len(e.keys), Limit: MaxBatch}
	}
	return &e, nil
}

// expecting adds what append_if.lua takes beside what append.lua does.
func (b *batch) expecting(addr tier.Address, keys, args []string) ([]string, []string) {
	only := b.only
	if only == nil {
		only = &expected{}
	}
	index := map[string]string{} // of a key, from 1
	var wants []string
	add := func(key, want string) string {
		if _, there := index[key]; !there {
			keys, wants = append(keys, addr.IndexKey(key)), append(wants, want)
			index[key] = strconv.Itoa(len(wants))
		}
		return index[key]
	}
	for i, key := range only.keys {
		add(key, only.versions[i])
	}
	messages := make([]string, 0, 2*len(b.messages))
	for i, m := range b.messages {
		of := "0"
		if len(b.keys) > 0 {
			of = add(b.keys[i], "")
		}
		messages = append(messages, of, m)
	}
	return keys, slices.Concat(args, []string{only.tail}, wants, messages)
}

// found is what the server has where a condition expects something else.
type found struct {
	index int // of the key among those of the conditions, from 1; 0: the end of the log
	got   string
}

// parseFound reads {conflict, what is there, index, 0}.
func parseFound(m rueidis.RedisMessage) (f found, err error) {
	reply, err := tier.Parts("append", m, 4)
	if err != nil {
		return f, err
	}
	if f.got, err = reply[1].ToString(); err != nil {
		return f, err
	}
	n, err := reply[2].AsInt64()
	f.index = int(n)
	return f, err
}

// conflict is the error of a call that was refused for what was found.
func (b *batch) conflict(f found) error {
	if b.only == nil || f.index < 0 || f.index > len(b.only.keys) {
		return fmt.Errorf("stream: append: unexpected conflict of condition %d", f.index)
	}
	e := &ConflictError{Stream: b.only.stream, Got: f.got}
	switch f.index {
	case 0:
		e.Want = b.only.tail
	default:
		e.Key, e.Want = b.only.keys[f.index-1], b.only.versions[f.index-1]
	}
	return e
}
