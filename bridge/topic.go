package bridge

import (
	"fmt"
	"strings"

	"github.com/echomq/pipeline/tier"
)

// escape begins a byte of a topic that no name of a stream may have: two hexadecimal digits follow. It is escaped itself.
const escape = "_-"

const hexDigits = "0123456789ABCDEF"

// StreamOf is the name of a topic's stream: the topic itself where that is a name (A-Z a-z 0-9 . _ -), with each other byte as
// "_-" and its two hexadecimal digits. A "_-" of the topic's own becomes "_-5F-", so that no two topics have one stream and
// [TopicOf] finds the topic again. A name has 128 bytes at most: what is longer is refused by whoever uses it, with a
// *tier.NameError.
func StreamOf(topic string) string {
	if legal(topic) && !strings.Contains(topic, escape) {
		return topic
	}
	var b strings.Builder
	for i := range len(topic) {
		c := topic[i]
		if legalByte(c) && !strings.HasPrefix(topic[i:], escape) {
			b.WriteByte(c)
			continue
		}
		b.WriteString(escape)
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}

// TopicOf is the topic whose stream has the name. The error says why a name is of none.
func TopicOf(stream string) (string, error) {
	var b strings.Builder
	for rest := stream; rest != ""; {
		if !strings.HasPrefix(rest, escape) {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		if len(rest) < len(escape)+2 {
			return "", fmt.Errorf("bridge: stream %q is of no topic: it ends inside an escape", stream)
		}
		high, low := strings.IndexByte(hexDigits, rest[len(escape)]), strings.IndexByte(hexDigits, rest[len(escape)+1])
		if high < 0 || low < 0 {
			return "", fmt.Errorf("bridge: stream %q is of no topic: behind %s stand two digits of 0-9 A-F", stream, escape)
		}
		b.WriteByte(byte(high<<4 | low))
		rest = rest[len(escape)+2:]
	}
	topic := b.String()
	if StreamOf(topic) != stream {
		return "", fmt.Errorf("bridge: stream %q is of no topic: that of %q is %q", stream, topic, StreamOf(topic))
	}
	return topic, nil
}

func legal(topic string) bool {
	for i := range len(topic) {
		if !legalByte(topic[i]) {
			return false
		}
	}
	return true
}

func legalByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Topics says where topics stand at the server. Scope is needed, or Address.
type Topics struct {
	// Scope holds the streams of all topics, each under the name that StreamOf gives it. A scope is one slot of a cluster.
	Scope string
	// Address is "scope/stream" of a topic, in place of Scope: to spread topics over a cluster, say, or to use streams that
	// have names already. Two topics with one address share its messages.
	Address func(topic string) string
	// Wire is how messages stand in the log. Default Native.
	Wire Wire
}

func (t *Topics) validate() error {
	switch {
	case t.Wire > RedisStream:
		return fmt.Errorf("%w: Wire is %d, want Native or RedisStream", ErrConfig, t.Wire)
	case t.Wire == RedisStream && (t.Scope != "" || t.Address != nil):
		return fmt.Errorf("%w: Scope and Address are for the native wire: on RedisStream a topic is the key of its log", ErrConfig)
	case t.Wire == RedisStream || t.Address != nil:
		return nil
	}
	if err := tier.CheckName("scope", t.Scope); err != nil {
		return fmt.Errorf("%w: Scope: %w", ErrConfig, err)
	}
	return nil
}

// address is where a topic stands. *tier.NameError.
func (t *Topics) address(topic string) (string, error) {
	address := t.Scope + "/" + StreamOf(topic)
	switch {
	case t.Wire == RedisStream:
		address = tier.KeyAddress(topic)
	case t.Address != nil:
		address = t.Address(topic)
	}
	if _, err := tier.ParseAddress(address); err != nil {
		return "", fmt.Errorf("bridge: topic %.64q: %w", topic, err)
	}
	return address, nil
}
