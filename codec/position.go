package codec

import (
	"cmp"
	"strconv"
	"strings"
)

// Position says which message of which entry: Index is 0 for a plain entry and
// 0..n-1 in a pack of n.
type Position struct {
	Entry EntryID
	Index int
}

// ParsePosition reads "<ms>-<seq>" or "<ms>-<seq>#<index>" with an index of
// 1..MaxPack-1 (0 is not written). The error wraps ErrEntryID.
func ParsePosition(s string) (Position, error) {
	entry, index, ok := strings.Cut(s, "#")
	e, err := ParseEntryID(entry)
	if err != nil {
		return Position{}, err
	}
	if !ok {
		return Position{Entry: e}, nil
	}
	i, ok := parseDecimal(index)
	if !ok || i == 0 || i >= MaxPack {
		return Position{}, entryIDError(s, "want an index of 1 to 4095 after #")
	}
	return Position{e, int(i)}, nil
}

// Compare is negative, zero or positive as p is before, at or after other.
func (p Position) Compare(other Position) int {
	return cmp.Or(p.Entry.Compare(other.Entry), cmp.Compare(p.Index, other.Index))
}

// String returns "<ms>-<seq>" for index 0, "<ms>-<seq>#<index>" otherwise.
func (p Position) String() string {
	var buf [64]byte
	dst := p.Entry.AppendTo(buf[:0])
	if p.Index != 0 {
		dst = strconv.AppendInt(append(dst, '#'), int64(p.Index), 10)
	}
	return string(dst)
}

// MarshalText returns String, in JSON too.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is [ParsePosition].
func (p *Position) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePosition(string(text))
	return err
}
