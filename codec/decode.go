package codec

import (
	"math"
	"slices"
)

// DecodeMessage reads one message from the front of src into m and returns what
// follows it. It takes every part of m from src without copying, so src must not
// change while m is in use; it reuses the capacity of m.Headers. In steady state
// it allocates nothing.
//
// The error is a *DecodeError, and m is then not to be used. A reader takes what
// a writer of a later version may add: elements after the fifth are skipped. A
// higher version number, which promises another meaning, is refused. Strings may
// be longer than the caps of a writer; headers may not be more. Of a repeated
// header key the last value counts.
func DecodeMessage(src []byte, m *Message) (rest []byte, err error) {
	s := scanner{src: src}
	extra, err := s.open("message", messageVersion, messageLen)
	if err != nil {
		return nil, err
	}
	if m.Type, err = s.str("type"); err != nil {
		return nil, err
	}
	if m.Key, err = s.str("key"); err != nil {
		return nil, err
	}
	if m.Headers, err = s.headers(m.Headers[:0]); err != nil {
		return nil, err
	}
	if m.Data, m.Format, err = s.data(); err != nil {
		return nil, err
	}
	for range extra {
		if err := s.skip(MaxDepth); err != nil {
			return nil, err
		}
	}
	return src[s.off:], nil
}

// open reads the head of an array and its version, and returns how many elements
// follow those that this version knows.
func (s *scanner) open(what string, version uint64, known uint64) (extra uint64, err error) {
	start := s.off
	if b := s.src[start:]; len(b) > 1 && uint64(b[0]) == 0x90|known && uint64(b[1]) == version { // as writers of this version begin
		s.off += 2
		return 0, nil
	}
	k, n, err := s.head()
	if err != nil {
		return 0, err
	}
	if k != kindArray || n == 0 {
		return 0, &DecodeError{start, what + ": want an array"}
	}
	at := s.off
	v, err := s.number("want a version number")
	switch {
	case err != nil:
		return 0, err
	case v < 1:
		return 0, &DecodeError{at, "want a version number"}
	case v > version:
		return 0, &DecodeError{at, what + ": written by a newer version of this library"}
	case n < known:
		return 0, &DecodeError{start, what + ": array is too short"}
	}
	return n - known, nil
}

// number reads an integer of any width that is not below zero.
func (s *scanner) number(want string) (uint64, error) {
	start := s.off
	k, n, err := s.head()
	if err != nil {
		return 0, err
	}
	if (k != kindUint && k != kindInt) || n > math.MaxInt64 {
		return 0, &DecodeError{start, want}
	}
	return n, nil
}

func (s *scanner) str(what string) (string, error) {
	start := s.off
	if b := s.src[start:]; len(b) > 0 && b[0]&0xe0 == 0xa0 { // most are short
		if n := 1 + int(b[0]&0x1f); n <= len(b) {
			s.off += n
			return stringOf(b[1:n]), nil
		}
	}
	k, n, err := s.head()
	if err != nil {
		return "", err
	}
	if k != kindStr {
		return "", &DecodeError{start, what + ": want a str"}
	}
	b, err := s.bytes(n)
	return stringOf(b), err
}

func (s *scanner) headers(h Headers) (Headers, error) {
	start := s.off
	if start < len(s.src) && s.src[start] == 0x80 { // most have none
		s.off++
		return h, nil
	}
	k, n, err := s.head()
	if err != nil {
		return h, err
	}
	if k != kindMap {
		return h, &DecodeError{start, "headers: want a map"}
	}
	if n > MaxHeaders {
		return h, &DecodeError{start, "headers: more than 64"}
	}
	h = slices.Grow(h, int(n)) // at most MaxHeaders
	for range n {
		key, err := s.str("header key")
		if err != nil {
			return h, err
		}
		value, err := s.str("header value")
		if err != nil {
			return h, err
		}
		h.Set(key, value)
	}
	return h, nil
}

func (s *scanner) data() ([]byte, Format, error) {
	start := s.off
	if b := s.src[start:]; len(b) > 1 && b[0] == 0xc4 { // a bin, as most are, of up to 255 bytes
		if n := 2 + int(b[1]); n <= len(b) {
			s.off += n
			return b[2:n:n], FormatBytes, nil
		}
	}
	k, n, err := s.head()
	if err != nil {
		return nil, FormatBytes, err
	}
	if k == kindBin {
		b, err := s.bytes(n)
		return b, FormatBytes, err
	}
	s.off = start
	if err := s.skip(MaxDepth); err != nil {
		return nil, FormatMsgpack, err
	}
	return s.src[start:s.off:s.off], FormatMsgpack, nil
}
