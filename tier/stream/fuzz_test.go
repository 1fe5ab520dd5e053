package stream_test

import (
	"encoding/binary"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// shaper makes replies of any shape out of a fuzzer's bytes: texts, numbers, nothing, errors, lists and maps inside one
// another. It writes them as the client library caches replies, which is its one door to a reply without a server.
type shaper struct{ src, out []byte }

func (s *shaper) next() byte {
	if len(s.src) == 0 {
		return 0
	}
	b := s.src[0]
	s.src = s.src[1:]
	return b
}

func (s *shaper) head(kind byte, n uint64) {
	s.out = binary.BigEndian.AppendUint64(append(s.out, kind), n)
}

func (s *shaper) value(depth int) {
	op := s.next()
	if depth == 0 {
		op %= 4
	}
	switch op % 6 {
	case 0, 1:
		n := min(int(s.next()), len(s.src))
		s.head("$-"[op%6], uint64(n))
		s.out, s.src = append(s.out, s.src[:n]...), s.src[n:]
	case 2:
		var n [8]byte
		s.src = s.src[copy(n[:], s.src):]
		s.head(':', binary.BigEndian.Uint64(n[:]))
	case 3:
		s.head('_', 0)
	default:
		n := int(s.next() % 8)
		if op%6 == 5 {
			n &^= 1
		}
		s.head("*%"[op%6-4], uint64(n))
		for range n {
			s.value(depth - 1)
		}
	}
}

// FuzzReplies: whatever a server answers, it is read or refused, and nothing panics.
func FuzzReplies(f *testing.F) {
	text := func(s string) []byte { return append([]byte{0, byte(len(s))}, s...) }
	list := func(parts ...[]byte) []byte {
		out := []byte{4, byte(len(parts))}
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	number := []byte{2, 0, 0, 0, 0, 0, 0, 0, 3}
	f.Add(list(list(text("5-6"), list(text("m"), text("x")))))
	f.Add(list(list(text("5-6"), []byte{3}), list(text("x"))))
	f.Add(append([]byte{5, 2}, append(text("log"), list(list(text("5-6"), list(text("m"), text("x"))))...)...))
	f.Add(list(text("5-6"), number, text("5-7")))
	f.Add(list(text("ok"), text("5-6"), number, number))
	f.Add(list(text("dup"), text("18446744073709551615-4095"), number, []byte{2, 255, 255, 255, 255, 255, 255, 255, 255}))
	f.Add(list(append([]byte{5, 2}, append(text("name"), text("g")...)...)))
	f.Add([]byte{1, 3, 'E', 'R', 'R'})
	f.Fuzz(func(t *testing.T, src []byte) {
		s := shaper{src: src, out: make([]byte, 7)}
		s.value(6)
		var m rueidis.RedisMessage
		require.NoError(t, m.CacheUnmarshalView(s.out))
		entries, _ := stream.ReadReplies(m)
		for _, e := range entries {
			require.NotEmpty(t, codec.Identity{Brand: "ORD"}.Records(nil, e))
		}
	})
}
