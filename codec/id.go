package codec

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// The snowflake inside an id: 41 bits of milliseconds since Epoch, 10 bits of
// node, 12 bits of sequence.
const (
	Epoch   = 1704067200000 // 2024-01-01T00:00:00Z in unix milliseconds
	MaxNode = 1023
	MaxSeq  = 4095

	seqBits  = 12
	nodeBits = 10
	lowBits  = nodeBits + seqBits
	maxLow   = 1<<lowBits - 1
	maxMs    = 1<<41 - 1 // since Epoch
)

// IDLen is the length of an id in bytes.
const IDLen = brandLen + base62Len

// ID is a branded id: a [Brand] and the eleven base62 digits of a 63-bit
// snowflake, as text. It is comparable; the zero value is "no id". Values come
// from [Parse], [NewID], [NewIDAt], [ServerID], [HostID] and [Mint.Next]; the
// accessors of any other 14 bytes mean nothing, and do not panic.
type ID [IDLen]byte

// ErrID is what every *IDError is: errors.Is(err, ErrID).
var ErrID = errors.New("codec: not a branded id")

// Reason says which rule an id breaks. Rules are tested in the order of the
// constants.
type Reason string

// The reasons of an [IDError].
const (
	ReasonLength   Reason = "length"   // not 14 bytes
	ReasonBrand    Reason = "brand"    // the first three are not A-Z
	ReasonAlphabet Reason = "alphabet" // the last eleven are not base62
	ReasonRange    Reason = "range"    // above 2^63-1, or a part out of its bits
)

// IDError says why something is not an id. Value is cut to a bounded length.
type IDError struct {
	Value  string
	Reason Reason
}

func newIDError(value string, r Reason) *IDError { return &IDError{Value: clip(value), Reason: r} }

func (e *IDError) Error() string {
	return fmt.Sprintf("codec: not a branded id: %q: %s", e.Value, e.Reason)
}

// Is reports whether target is [ErrID].
func (e *IDError) Is(target error) bool { return target == ErrID }

// maxQuoted bounds what an error quotes of a value that it refuses.
const maxQuoted = 64

func clip(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "..."
	}
	return s
}

// Parse reads an id. The error is an *IDError.
func Parse(s string) (ID, error) {
	if len(s) != IDLen {
		return ID{}, newIDError(s, ReasonLength)
	}
	if !Brand(s[:brandLen]).Valid() {
		return ID{}, newIDError(s, ReasonBrand)
	}
	var id ID
	copy(id[:], s)
	if _, reason := base62(id[brandLen:]); reason != "" {
		return ID{}, newIDError(s, reason)
	}
	return id, nil
}

// NewID makes an id of a brand and a snowflake, 0..2^63-1. The error is an
// *IDError with reason "brand" or "range".
func NewID(b Brand, snowflake int64) (ID, error) {
	if !b.Valid() {
		return ID{}, newIDError(string(b), ReasonBrand)
	}
	if snowflake < 0 {
		return ID{}, newIDError(fmt.Sprint(snowflake), ReasonRange)
	}
	return makeID(b, uint64(snowflake)), nil
}

// NewIDAt makes an id of its parts: unixMs from Epoch to 2093, node 0..MaxNode,
// seq 0..MaxSeq. The error is an *IDError with reason "brand" or "range".
func NewIDAt(b Brand, unixMs int64, node, seq int) (ID, error) {
	if !b.Valid() {
		return ID{}, newIDError(string(b), ReasonBrand)
	}
	if !inRange(unixMs) || uint(node) > MaxNode || uint(seq) > MaxSeq {
		return ID{}, newIDError(fmt.Sprintf("%d ms, node %d, seq %d", unixMs, node, seq), ReasonRange)
	}
	return makeID(b, uint64(unixMs-Epoch)<<lowBits|uint64(node)<<seqBits|uint64(seq)), nil
}

// MinID is the lowest id of t's millisecond. The error is an *IDError with
// reason "brand" or "range" (t before Epoch or past 41 bits).
func MinID(b Brand, t time.Time) (ID, error) { return NewIDAt(b, t.UnixMilli(), 0, 0) }

// MaxID is the highest id of t's millisecond; errors as for [MinID].
func MaxID(b Brand, t time.Time) (ID, error) { return NewIDAt(b, t.UnixMilli(), MaxNode, MaxSeq) }

func inRange(unixMs int64) bool { return unixMs >= Epoch && unixMs-Epoch <= maxMs }

// makeID trusts its arguments.
func makeID(b Brand, snowflake uint64) (id ID) {
	copy(id[:brandLen], b)
	putBase62(id[brandLen:], snowflake)
	return id
}

// IsZero reports whether id is the zero value, "no id".
func (id ID) IsZero() bool { return id == ID{} }

// Brand returns the first three letters, or "" for the zero value.
func (id ID) Brand() Brand {
	if id.IsZero() {
		return ""
	}
	return Brand(id[:brandLen])
}

// Snowflake returns the number, 0..2^63-1; 0 for the zero value.
func (id ID) Snowflake() int64 {
	n, _ := base62(id[brandLen:])
	return int64(n)
}

// UnixMs returns the id's time in unix milliseconds.
func (id ID) UnixMs() int64 { return id.Snowflake()>>lowBits + Epoch }

// Time returns the id's time in UTC, to the millisecond.
func (id ID) Time() time.Time { return time.UnixMilli(id.UnixMs()).UTC() }

// Node returns the node number, 0..MaxNode.
func (id ID) Node() int { return int(id.Snowflake() >> seqBits & MaxNode) }

// Seq returns the sequence inside the millisecond, 0..MaxSeq.
func (id ID) Seq() int { return int(id.Snowflake() & MaxSeq) }

// Compare orders ids by their bytes; inside one brand that is the order in which
// they were minted.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }
