package codec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// EntryID is <ms>-<seq>: the address of an entry of a stream and, message by
// message, of what a pack holds. It is comparable; the zero value, 0-0, is below
// every entry. Compare as two numbers, never as text.
type EntryID struct {
	Ms  uint64 // unix milliseconds
	Seq uint64
}

// MaxEntryID is the highest address that a server knows.
var MaxEntryID = EntryID{math.MaxUint64, math.MaxUint64}

// ErrEntryID is wrapped by what [ParseEntryID] and [ParsePosition] refuse.
var ErrEntryID = errors.New("codec: not an entry id")

// ParseEntryID reads "<ms>-<seq>": two decimal numbers below 2^64, without sign,
// space or leading zeros, so that one address has one spelling. The error wraps
// ErrEntryID.
func ParseEntryID(s string) (EntryID, error) {
	ms, seq, ok := strings.Cut(s, "-")
	if !ok {
		return EntryID{}, entryIDError(s, "want <ms>-<seq>")
	}
	var e EntryID
	var okMs, okSeq bool
	e.Ms, okMs = parseDecimal(ms)
	e.Seq, okSeq = parseDecimal(seq)
	if !okMs || !okSeq {
		return EntryID{}, entryIDError(s, "want two decimal numbers below 2^64")
	}
	return e, nil
}

func entryIDError(s, what string) error {
	return fmt.Errorf("%w: %q: %s", ErrEntryID, clip(s), what)
}

// parseDecimal is strconv.ParseUint without its sign, its underscores and its
// leading zeros, and without its allocation on failure.
func parseDecimal(s string) (n uint64, ok bool) {
	if s == "" || len(s) > 20 || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// FloorEntry is the lowest address of t's millisecond, <ms>-0: where a window of
// time begins. Before 1970 it is 0-0.
func FloorEntry(t time.Time) EntryID {
	return EntryID{Ms: uint64(max(t.UnixMilli(), 0))}
}

// CeilEntry is the highest address of t's millisecond: where a window of time
// that includes t ends. Before 1970 it is 0-0, which no entry has.
func CeilEntry(t time.Time) EntryID {
	ms := t.UnixMilli()
	if ms < 0 {
		return EntryID{}
	}
	return EntryID{Ms: uint64(ms), Seq: math.MaxUint64}
}

// IsZero reports whether e is 0-0.
func (e EntryID) IsZero() bool { return e == EntryID{} }

// Time returns the millisecond in UTC.
func (e EntryID) Time() time.Time {
	return time.UnixMilli(int64(min(e.Ms, math.MaxInt64))).UTC()
}

// Compare is negative, zero or positive as e is below, at or above other.
func (e EntryID) Compare(other EntryID) int {
	return cmp.Or(cmp.Compare(e.Ms, other.Ms), cmp.Compare(e.Seq, other.Seq))
}

// Next is the address right above e; MaxEntryID stays.
func (e EntryID) Next() EntryID {
	switch {
	case e.Seq < math.MaxUint64:
		return EntryID{e.Ms, e.Seq + 1}
	case e.Ms < math.MaxUint64:
		return EntryID{e.Ms + 1, 0}
	}
	return e
}

// Prev is the address right below e; 0-0 stays.
func (e EntryID) Prev() EntryID {
	switch {
	case e.Seq > 0:
		return EntryID{e.Ms, e.Seq - 1}
	case e.Ms > 0:
		return EntryID{e.Ms - 1, math.MaxUint64}
	}
	return e
}

// AppendTo appends "<ms>-<seq>".
func (e EntryID) AppendTo(dst []byte) []byte {
	dst = strconv.AppendUint(dst, e.Ms, 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, e.Seq, 10)
}

// String returns "<ms>-<seq>".
func (e EntryID) String() string {
	var buf [41]byte
	return string(e.AppendTo(buf[:0]))
}

// MarshalText returns "<ms>-<seq>", in JSON too.
func (e EntryID) MarshalText() ([]byte, error) { return e.AppendTo(nil), nil }

// UnmarshalText is [ParseEntryID].
func (e *EntryID) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEntryID(string(text))
	return err
}
