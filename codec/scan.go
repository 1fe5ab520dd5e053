package codec

import "encoding/binary"

// MaxDepth is how deep arrays and maps may nest in a payload.
const MaxDepth = 64

// kind is a class of msgpack formats that share how they go on.
type kind uint8

const (
	kindInvalid kind = iota // 0xc1, which msgpack leaves unused
	kindUint                // n is the value
	kindInt                 // n is the value, two's complement
	kindScalar              // nil, bool, float: n more bytes
	kindStr                 // n more bytes
	kindBin                 // n more bytes
	kindExt                 // n more bytes
	kindArray               // n more values
	kindMap                 // n more pairs
)

// formats describes 0xc0..0xdf: width is the size of the big-endian number that
// follows (a length, a count or a value), plus is added to what it says.
var formats = [32]struct {
	kind  kind
	width uint8
	plus  uint8
}{
	0x00: {kindScalar, 0, 0}, // nil
	0x02: {kindScalar, 0, 0}, // false
	0x03: {kindScalar, 0, 0}, // true
	0x04: {kindBin, 1, 0}, 0x05: {kindBin, 2, 0}, 0x06: {kindBin, 4, 0},
	0x07: {kindExt, 1, 1}, 0x08: {kindExt, 2, 1}, 0x09: {kindExt, 4, 1}, // and the type byte
	0x0a: {kindScalar, 0, 4}, 0x0b: {kindScalar, 0, 8}, // float 32, 64
	0x0c: {kindUint, 1, 0}, 0x0d: {kindUint, 2, 0}, 0x0e: {kindUint, 4, 0}, 0x0f: {kindUint, 8, 0},
	0x10: {kindInt, 1, 0}, 0x11: {kindInt, 2, 0}, 0x12: {kindInt, 4, 0}, 0x13: {kindInt, 8, 0},
	0x14: {kindExt, 0, 2}, 0x15: {kindExt, 0, 3}, 0x16: {kindExt, 0, 5}, 0x17: {kindExt, 0, 9}, 0x18: {kindExt, 0, 17},
	0x19: {kindStr, 1, 0}, 0x1a: {kindStr, 2, 0}, 0x1b: {kindStr, 4, 0},
	0x1c: {kindArray, 2, 0}, 0x1d: {kindArray, 4, 0},
	0x1e: {kindMap, 2, 0}, 0x1f: {kindMap, 4, 0},
}

// scanner walks over msgpack. It never allocates, but for an error.
type scanner struct {
	src []byte
	off int
}

func (s *scanner) fail(what string) error { return &DecodeError{Offset: s.off, What: what} }

// head reads the head of one value: its kind and its n.
func (s *scanner) head() (kind, uint64, error) {
	if s.off >= len(s.src) {
		return 0, 0, s.fail("bytes end inside a value")
	}
	c := s.src[s.off]
	s.off++
	switch {
	case c < 0x80:
		return kindUint, uint64(c), nil
	case c < 0x90:
		return kindMap, uint64(c & 0x0f), nil
	case c < 0xa0:
		return kindArray, uint64(c & 0x0f), nil
	case c < 0xc0:
		return kindStr, uint64(c & 0x1f), nil
	case c >= 0xe0:
		return kindInt, uint64(int8(c)), nil
	}
	return s.wideHead(c)
}

func (s *scanner) wideHead(c byte) (kind, uint64, error) {
	f := formats[c-0xc0]
	if f.kind == kindInvalid {
		s.off--
		return 0, 0, s.fail("byte 0xc1 is not msgpack")
	}
	rest := s.src[s.off:]
	if len(rest) < int(f.width) {
		return 0, 0, s.fail("bytes end inside a length")
	}
	s.off += int(f.width)
	var n uint64
	switch f.width {
	case 1:
		n = uint64(rest[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(rest))
	case 4:
		n = uint64(binary.BigEndian.Uint32(rest))
	case 8:
		n = binary.BigEndian.Uint64(rest)
	}
	if f.kind == kindInt { // extend the sign
		shift := 64 - 8*uint(f.width)
		return kindInt, uint64(int64(n<<shift) >> shift), nil
	}
	return f.kind, n + uint64(f.plus), nil
}

// bytes takes the n bytes that a head declared.
func (s *scanner) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(s.src)-s.off) {
		return nil, s.fail("declared length is beyond the end")
	}
	b := s.src[s.off : s.off+int(n) : s.off+int(n)]
	s.off += int(n)
	return b, nil
}

// skip passes over one well-formed value. depth is how many containers it may
// still open. A count is believed only as far as there are bytes, since every
// value takes one at least: the walk is linear in the length of src.
func (s *scanner) skip(depth int) error {
	k, n, err := s.head()
	if err != nil {
		return err
	}
	switch k {
	case kindUint, kindInt:
		return nil
	case kindMap:
		n *= 2
	case kindArray:
	default:
		_, err = s.bytes(n)
		return err
	}
	if n > uint64(len(s.src)-s.off) {
		return s.fail("declared count is beyond the end")
	}
	if depth == 0 {
		return s.fail("nested too deep")
	}
	for range n {
		if err := s.skip(depth - 1); err != nil {
			return err
		}
	}
	return nil
}

// checkValue reports whether b is one well-formed value and nothing else.
func checkValue(b []byte) error {
	s := scanner{src: b}
	if err := s.skip(MaxDepth); err != nil {
		return err
	}
	if s.off != len(b) {
		return s.fail("bytes after the value")
	}
	return nil
}
