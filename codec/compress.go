package codec

import (
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Compression says how the body of a pack is written.
type Compression uint8

// The numbers are those of the wire.
const (
	NoCompression Compression = 0
	Zstd          Compression = 1
)

// MaxCompressed is how many bytes the messages of a compressed pack have at most, before they are compressed: what a reader makes of
// a few bytes is bounded by it. A pack with more is written as it is.
const MaxCompressed = 8 << 20

var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // of these options
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxCompressed))
		if err != nil {
			panic(err) // of these options
		}
		return d
	})
)

// compressed is the body by zstd, or as it is where that makes it no smaller.
func compressed(body []byte) ([]byte, Compression) {
	if len(body) > MaxCompressed {
		return body, NoCompression
	}
	if small := encoder().EncodeAll(body, make([]byte, 0, len(body)/2)); len(small) < len(body) {
		return small, Zstd
	}
	return body, NoCompression
}

// inflate gives a body back, whose bytes begin at byte at of its pack.
func inflate(body []byte, c Compression, at int) ([]byte, error) {
	if c == NoCompression {
		return body, nil
	}
	body, err := decoder().DecodeAll(body, nil)
	if err != nil {
		return nil, &DecodeError{at, fmt.Sprintf("pack: its body is no zstd frame of at most %d bytes: %s", MaxCompressed, err)}
	}
	return body, nil
}

// Uncompressed is the entry with its pack as it would be without compression: the same records, where it is decodable. Any other entry comes
// back as it is.
func Uncompressed(e Entry) Entry {
	at := 1
	for at < len(e.Fields) && e.Fields[at-1] != FieldPack {
		at += 2
	}
	if at >= len(e.Fields) {
		return e
	}
	p, err := openPack(bytesOf(e.Fields[at]))
	if err != nil || p.compression == NoCompression {
		return e
	}
	pack, err := AppendPack(nil, p.n, p.body, NoCompression)
	if err != nil {
		return e
	}
	e.Fields = slices.Clone(e.Fields)
	e.Fields[at] = stringOf(pack)
	return e
}
