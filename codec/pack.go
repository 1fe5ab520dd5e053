package codec

import "fmt"

// MaxPack is how many messages a pack holds at most.
const MaxPack = 4096

const (
	packVersion = 1
	packLen     = 4
	noneCodec   = 0 // the body is not compressed
)

// AppendPack appends a pack to dst: body is n encoded messages, one after
// another, as [AppendMessage] writes them; n is 1..MaxPack. It counts nothing:
// n must be right. The error is a *LimitError.
func AppendPack(dst []byte, n int, body []byte) ([]byte, error) {
	if n < 1 || n > MaxPack {
		return dst, &LimitError{"pack", MaxPack, n}
	}
	if len(body) > maxData {
		return dst, &LimitError{"data", maxData, len(body)}
	}
	dst = append(dst, 0x90|packLen, packVersion)
	dst = appendUint(dst, uint64(n))
	dst = append(dst, noneCodec)
	return appendBin(dst, body), nil
}

// PackLen returns how many messages a pack says it holds, 1..MaxPack, without
// decoding them. The error is a *DecodeError.
func PackLen(src []byte) (int, error) {
	n, _, _, err := openPack(src)
	return n, err
}

// DecodePack appends the messages of a pack to dst, as [DecodeMessage] reads
// them: they alias src, and reuse the headers of what dst holds past its length.
// A pack is readable as a whole or not at all: on error, a *DecodeError, dst
// comes back as it was.
func DecodePack(dst []Message, src []byte) ([]Message, error) {
	out := dst
	err := eachPacked(src, func(i int) *Message {
		if len(out) < cap(out) {
			out = out[:len(out)+1]
		} else {
			out = append(out, Message{})
		}
		return &out[len(out)-1]
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// eachPacked decodes the messages of a pack, each into what slot returns.
func eachPacked(src []byte, slot func(i int) *Message) error {
	n, body, at, err := openPack(src)
	if err != nil {
		return err
	}
	rest := body
	for i := range n {
		done := len(body) - len(rest)
		if rest, err = DecodeMessage(rest, slot(i)); err != nil {
			return packed(err, i, at+done)
		}
	}
	if len(rest) > 0 {
		return &DecodeError{at + len(body) - len(rest), "pack: bytes after the last message"}
	}
	return nil
}

// packed moves an error inside message i to its place in the pack.
func packed(err error, i, at int) error {
	de := err.(*DecodeError)
	return &DecodeError{at + de.Offset, fmt.Sprintf("pack: message %d: %s", i, de.What)}
}

// openPack returns the count, the body and where the body begins.
func openPack(src []byte) (n int, body []byte, at int, err error) {
	s := scanner{src: src}
	extra, err := s.open("pack", packVersion, packLen)
	if err != nil {
		return 0, nil, 0, err
	}
	start := s.off
	k, count, err := s.head()
	if err != nil {
		return 0, nil, 0, err
	}
	if k != kindUint || count < 1 || count > MaxPack {
		return 0, nil, 0, &DecodeError{start, "pack: want a count of 1 to 4096"}
	}
	if body, at, err = s.packBody(count); err != nil {
		return 0, nil, 0, err
	}
	for range extra {
		if err := s.skip(MaxDepth); err != nil {
			return 0, nil, 0, err
		}
	}
	if s.off != len(src) {
		return 0, nil, 0, s.fail("pack: bytes after the pack")
	}
	return int(count), body, at, nil
}

func (s *scanner) packBody(count uint64) (body []byte, at int, err error) {
	start := s.off
	k, codec, err := s.head()
	switch {
	case err != nil:
		return nil, 0, err
	case k != kindUint:
		return nil, 0, &DecodeError{start, "pack: want a compression number"}
	case codec != noneCodec:
		return nil, 0, &DecodeError{start, "pack: compressed by a newer version of this library"}
	}
	start = s.off
	k, n, err := s.head()
	if err != nil {
		return nil, 0, err
	}
	if k != kindBin {
		return nil, 0, &DecodeError{start, "pack: want a bin"}
	}
	at = s.off
	if body, err = s.bytes(n); err != nil {
		return nil, 0, err
	}
	if count > uint64(len(body)) { // a count is believed only as far as there are bytes
		return nil, 0, &DecodeError{at, "pack: fewer messages than it says"}
	}
	return body, at, nil
}
