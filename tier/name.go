package tier

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/echomq/pipeline/codec"
)

// MaxName is the longest name, in bytes.
const MaxName = 128

// ReservedScope is the hash tag of the deployment's own keys; no scope may have this name.
const ReservedScope = "emq"

// ErrName is matched by every refusal of a name or an address.
var ErrName = errors.New("tier: bad name")

// NameError says which name was refused and by which rule.
type NameError struct {
	Kind  string // "scope", "stream", "group", "address"
	Value string // cut to 64 bytes
	Rule  string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("tier: %s %q: %s", e.Kind, e.Value, e.Rule)
}

// Is makes errors.Is(err, ErrName) true.
func (e *NameError) Is(target error) bool { return target == ErrName }

func nameError(kind, value, rule string) error {
	if len(value) > 64 {
		value = value[:64]
	}
	return &NameError{Kind: kind, Value: value, Rule: rule}
}

// CheckName refuses what is not 1 to 128 letters, digits, dots, underscores and hyphens. Kind is named in the error.
func CheckName(kind, s string) error {
	if s == "" || len(s) > MaxName {
		return nameError(kind, s, fmt.Sprintf("a name has 1 to %d bytes, this has %d", MaxName, len(s)))
	}
	for i, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return nameError(kind, s, fmt.Sprintf("%s is not one of A-Z a-z 0-9 . _ -", character(s[i:])))
		}
	}
	if kind == "scope" && s == ReservedScope {
		return nameError(kind, s, "this name is reserved for the deployment's own keys")
	}
	return nil
}

// character shows the first one of a text, or its first byte when that is none.
func character(s string) string {
	if c, size := utf8.DecodeRuneInString(s); c != utf8.RuneError || size > 1 {
		return strconv.QuoteRune(c)
	}
	return fmt.Sprintf("byte %#x", s[0])
}

// Address names a stream: "scope/stream".
type Address struct {
	Scope  string
	Stream string
	// Key is that of a log which another program made; empty: LogKey is born here. Scope and Stream are then where what we
	// keep about it stands.
	Key string
}

// keyPrefix begins the address of a log by its key. No scope has a colon.
const keyPrefix = "key:"

// KeyAddress is the address of a log of another program, by its key, which is any text but the empty one. Readers and groups work
// on it, nothing else.
func KeyAddress(key string) string { return keyPrefix + key }

// addressOfKey finds a scope on the slot of a key, for one script has to reach both.
func addressOfKey(key string) (Address, error) {
	if key == "" {
		return Address{}, nameError("address", keyPrefix, "a key has one byte at least")
	}
	a := Address{Key: key, Stream: key}
	if CheckName("stream", key) != nil {
		a.Stream = hash(key)
	}
	for slot, n := Slot(key), 0; ; n++ {
		if a.Scope = "key." + strconv.Itoa(n); Slot(a.Scope) == slot { // which is the hash tag
			return a, nil
		}
	}
}

// ParseAddress reads "scope/stream", and "scope/stream@3", which is the stream in partition 3 of a scope: "scope.3/stream"; and
// what KeyAddress makes.
func ParseAddress(s string) (Address, error) {
	if key, ok := strings.CutPrefix(s, keyPrefix); ok {
		return addressOfKey(key)
	}
	scope, stream, ok := strings.Cut(s, "/")
	if !ok {
		return Address{}, nameError("address", s, `an address is "scope/stream"`)
	}
	stream, partition, in := strings.Cut(stream, "@")
	if err := errors.Join(CheckName("scope", scope), CheckName("stream", stream)); err != nil {
		return Address{}, err
	}
	if in {
		k := index(partition)
		if k < 0 {
			return Address{}, nameError("address", s, fmt.Sprintf("behind @ stands the number of a partition, 0 to %d", codec.MaxPartitions-1))
		}
		scope = PartitionScope(scope, k)
		if err := CheckName("scope", scope); err != nil {
			return Address{}, err
		}
	}
	return Address{Scope: scope, Stream: stream}, nil
}

func (a Address) String() string {
	if a.Key != "" {
		return KeyAddress(a.Key)
	}
	return a.Scope + "/" + a.Stream
}
