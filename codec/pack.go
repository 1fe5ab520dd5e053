package codec

import (
	"fmt"
	"slices"
)

// MaxPack is how many messages a pack holds at most.
const MaxPack = 4096

const (
	packVersion    = 1
	packLen        = 4
	packRoom       = 16 // more than the rest of a pack takes
	minMessageSize = 6  // array, version, empty type, empty key, no headers, nil
)

// AppendPack appends a pack to dst: body is n encoded messages, one after
// another, as [AppendMessage] writes them; n is 1..MaxPack. With [Zstd] it is compressed
// where that makes it smaller. It does not look into the body: n must be right, or the pack
// is undecodable. The error is a *LimitError, and dst then comes back as it was.
func AppendPack(dst []byte, n int, body []byte, c Compression) ([]byte, error) {
	if n < 1 || n > MaxPack {
		return dst, &LimitError{"pack", MaxPack, n}
	}
	if len(body) > maxData {
		return dst, &LimitError{"data", maxData, len(body)}
	}
	if c == Zstd {
		body, c = compressed(body)
	}
	return append(appendPackHead(slices.Grow(dst, len(body)+packRoom), n, len(body), c), body...), nil
}

// AppendPackHead appends what a pack that is not compressed has before its body of size bytes, for who has that in parts. What AppendPack
// refuses must not be written.
func AppendPackHead(dst []byte, n, size int) []byte {
	return appendPackHead(dst, n, size, NoCompression)
}

func appendPackHead(dst []byte, n, size int, c Compression) []byte {
	dst = append(dst, 0x90|packLen, packVersion)
	dst = appendCount(dst, n)
	dst = append(dst, byte(c))
	return appendBinHead(dst, size)
}

// PackLen returns how many messages a pack says it holds, 1..MaxPack, without
// decoding them. The error is a *DecodeError.
func PackLen(src []byte) (int, error) {
	p, err := openPack(src)
	return p.n, err
}

// DecodePack appends the messages of a pack to dst, as [DecodeMessage] reads
// them: they alias src, unless it is compressed, and reuse the headers of what dst holds past
// its length, so that a caller that passes dst[:0] again allocates nothing in steady state, but
// for what a compressed pack holds.
// A pack is readable as a whole or not at all: on error, a *DecodeError, dst
// comes back as it was.
func DecodePack(dst []Message, src []byte) ([]Message, error) {
	p, err := openPack(src)
	if err != nil {
		return dst, err
	}
	out := slices.Grow(dst, p.n)[:len(dst)+p.n]
	err = p.each(func(i int) *Message { return &out[len(dst)+i] })
	if err != nil {
		return dst, err
	}
	return out, nil
}

// pack is an opened pack: n messages in body, which begins at byte at. That of a compressed one is inflated; what
// is wrong in it is told by where it would stand had it not been compressed.
type pack struct {
	n           int
	compression Compression
	body        []byte
	at          int
}

// each decodes message i into what slot(i) returns, in order.
func (p pack) each(slot func(i int) *Message) error {
	rest := p.body
	for i := range p.n {
		after, err := DecodeMessage(rest, slot(i))
		if err != nil {
			return packed(err, i, p.at+len(p.body)-len(rest))
		}
		rest = after
	}
	if len(rest) > 0 {
		return &DecodeError{p.at + len(p.body) - len(rest), "pack: bytes after the last message"}
	}
	return nil
}

// packed moves an error inside message i to its place in the pack.
func packed(err error, i, at int) error {
	if de, ok := err.(*DecodeError); ok {
		return &DecodeError{at + de.Offset, fmt.Sprintf("pack: message %d: %s", i, de.What)}
	}
	return err
}

// openPack reads everything but the messages.
func openPack(src []byte) (pack, error) {
	s := scanner{src: src}
	extra, err := s.open("pack", packVersion, packLen)
	if err != nil {
		return pack{}, err
	}
	n, err := s.packCount()
	if err != nil {
		return pack{}, err
	}
	c, err := s.packCompression()
	if err != nil {
		return pack{}, err
	}
	body, at, err := s.packBody()
	if err != nil {
		return pack{}, err
	}
	if body, err = inflate(body, c, at); err != nil {
		return pack{}, err
	}
	if n > len(body)/minMessageSize { // what is allocated by n is bounded by what is there
		return pack{}, &DecodeError{at, "pack: fewer messages than it says"}
	}
	for range extra {
		if err := s.skip(MaxDepth); err != nil {
			return pack{}, err
		}
	}
	if s.off != len(src) {
		return pack{}, s.fail("pack: bytes after the pack")
	}
	return pack{n, c, body, at}, nil
}

func (s *scanner) packCount() (int, error) {
	const want = "pack: want a count of 1 to 4096"
	start := s.off
	n, err := s.number(want)
	if err != nil {
		return 0, err
	}
	if n < 1 || n > MaxPack {
		return 0, &DecodeError{start, want}
	}
	return int(n), nil
}

func (s *scanner) packCompression() (Compression, error) {
	start := s.off
	n, err := s.number("pack: want a compression number")
	if err != nil {
		return 0, err
	}
	if n > uint64(Zstd) {
		return 0, &DecodeError{start, "pack: compressed by a newer version of this library"}
	}
	return Compression(n), nil
}

func (s *scanner) packBody() (body []byte, at int, err error) {
	start := s.off
	k, n, err := s.head()
	if err != nil {
		return nil, 0, err
	}
	if k != kindBin {
		return nil, 0, &DecodeError{start, "pack: want a bin"}
	}
	at = s.off
	body, err = s.bytes(n)
	return body, at, err
}

// PackedMessage is the encoded message i of a pack, a part of src unless that is compressed. The error is a *DecodeError.
func PackedMessage(src []byte, i int) ([]byte, error) {
	p, err := openPack(src)
	if err != nil {
		return nil, err
	}
	rest := p.body
	var m Message
	for k := range p.n {
		before := rest
		if rest, err = DecodeMessage(rest, &m); err != nil {
			return nil, packed(err, k, p.at+len(p.body)-len(before))
		}
		if k == i {
			return before[:len(before)-len(rest)], nil
		}
	}
	return nil, &DecodeError{p.at, "pack: no such message"}
}
