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

func appendStr(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		dst = append(dst, 0xa0|byte(n))
	case n <= math.MaxUint8:
		dst = append(dst, 0xd9, byte(n))
	default: // every str of ours is capped below 64 KiB
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	}
	return append(dst, s...)
}

func appendBin(dst, b []byte) []byte { return append(appendBinHead(dst, len(b)), b...) }

func appendBinHead(dst []byte, n int) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(dst, 0xc4, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xc5), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xc6), uint32(n))
}

func appendMapLen(dst []byte, n int) []byte {
	if n < 16 {
		return append(dst, 0x80|byte(n))
	}
	return binary.BigEndian.AppendUint16(append(dst, 0xde), uint16(n))
}

// stringOf and bytesOf convert without copying. The bytes must not change while
// the string is alive; the bytes of a string must not be written to.

func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
