package codec

import (
	"errors"
	"fmt"
	"slices"
)

// ErrHeaderRepeated is wrapped by AppendMessage's refusal of a message with one
// header key twice: readers in other languages would disagree on which counts.
var ErrHeaderRepeated = errors.New("codec: header key repeated")

// AppendMessage appends the wire form of m to dst and allocates nothing else.
// It refuses, and returns dst as it was, what is over a cap (*LimitError), a
// header key twice (ErrHeaderRepeated), an unknown Format, and data of format
// FormatMsgpack that is not one well-formed value (*DecodeError).
func AppendMessage(dst []byte, m *Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return dst, err
	}
	n := len(dst)
	dst = slices.Grow(dst, m.Size())
	dst = dst[:cap(dst)] // room for all of it, so that nothing below looks whether there is
	dst[n], dst[n+1] = 0x90|messageLen, messageVersion
	n = putStr(dst, n+2, m.Type)
	n = putStr(dst, n, m.Key)
	n = putMapLen(dst, n, len(m.Headers))
	for i := range m.Headers {
		n = putStr(dst, n, m.Headers[i].Key)
		n = putStr(dst, n, m.Headers[i].Value)
	}
	if m.Format != FormatMsgpack {
		n = len(appendBinHead(dst[:n], len(m.Data)))
	}
	n += copy(dst[n:], m.Data)
	return dst[:n], nil
}

// What the encoding adds at most, to a message and to each header.
const (
	envelopeBytes = 24
	headerBytes   = 6
)

// SizeSlack is how far Size may be above what AppendMessage makes, at most.
const SizeSlack = envelopeBytes + headerBytes*MaxHeaders

// Size is how many bytes AppendMessage makes of the message, at most. It is what calls are cut by.
func (m *Message) Size() int {
	size := envelopeBytes + len(m.Type) + len(m.Key) + len(m.Data)
	for i := range m.Headers {
		size += headerBytes + len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return size
}

func (m *Message) check() error {
	switch {
	case len(m.Type) > MaxType:
		return &LimitError{"type", MaxType, len(m.Type)}
	case len(m.Key) > MaxKey:
		return &LimitError{"key", MaxKey, len(m.Key)}
	case len(m.Data) > maxData:
		return &LimitError{"data", maxData, len(m.Data)}
	case m.Format > FormatMsgpack:
		return fmt.Errorf("codec: message format %d: want FormatBytes or FormatMsgpack", m.Format)
	}
	if err := m.Headers.check(); err != nil {
		return err
	}
	if m.Format == FormatMsgpack {
		if err := checkValue(m.Data); err != nil {
			return fmt.Errorf("codec: message data is not one msgpack value: %w", err)
		}
	}
	return nil
}

func (h Headers) check() error {
	if len(h) > MaxHeaders {
		return &LimitError{"headers", MaxHeaders, len(h)}
	}
	var seen uint64 // a bit for each key, so that most need not be compared with those before them
	for i := range h {
		key := h[i].Key
		bit := keyBit(key)
		switch {
		case len(key) > MaxHeaderKey:
			return &LimitError{"header key", MaxHeaderKey, len(key)}
		case len(h[i].Value) > MaxHeaderValue:
			return &LimitError{"header value", MaxHeaderValue, len(h[i].Value)}
		case seen&bit != 0 && h[:i].index(key) >= 0:
			return fmt.Errorf("%w: %q", ErrHeaderRepeated, clip(key))
		}
		seen |= bit
	}
	return nil
}

// keyBit is one of 64 bits, the same for keys that are the same.
func keyBit(key string) uint64 {
	n := uint(len(key))
	if n == 0 {
		return 1
	}
	return 1 << ((n + uint(key[0]) + 7*uint(key[n-1])) % 64)
}
