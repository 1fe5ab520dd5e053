package codec

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// The appenders write the shortest form of each msgpack format.

func appendCount(dst []byte, n int) []byte { // 1..MaxPack
	switch {
	case n < 0x80:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, 0xcc, byte(n))
	}
	return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(n))
}

// putStr writes a str at n, where there is room for it, and returns where it ends.
func putStr(dst []byte, n int, s string) int {
	switch l := len(s); {
	case l < 32:
		dst[n] = 0xa0 | byte(l)
		n++
	case l <= math.MaxUint8:
		dst[n], dst[n+1] = 0xd9, byte(l)
		n += 2
	default: // every str of ours is capped below 64 KiB
		dst[n] = 0xda
		binary.BigEndian.PutUint16(dst[n+1:], uint16(l))
		n += 3
	}
	return n + copy(dst[n:], s)
}

func appendBinHead(dst []byte, n int) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(dst, 0xc4, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xc5), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xc6), uint32(n))
}

// putMapLen is putStr of the head of a map.
func putMapLen(dst []byte, n, pairs int) int {
	if pairs < 16 {
		dst[n] = 0x80 | byte(pairs)
		return n + 1
	}
	dst[n] = 0xde
	binary.BigEndian.PutUint16(dst[n+1:], uint16(pairs))
	return n + 3
}

// stringOf and bytesOf convert without copying. The bytes must not change while
// the string is alive; the bytes of a string must not be written to.

func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
