package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// What an object says of itself is looked at before memory is taken for it. Its bytes may be any: one that has changed makes a list
// of thousands of millions.
const (
	maxManifest = 256 << 20 // bytes: some 500,000 segments
	maxFooter   = 64 << 20  // bytes that describe a segment: some 20,000 row groups
	maxPage     = 1 << 30   // bytes of a page that is unpacked: a value may have half of that
	maxRows     = 64 << 10  // of a row group; the writer ends one before
	maxValues   = 16 << 20  // that a row group has in a column of lists; the writer, too
)

var errBounds = errors.New("it says of itself what cannot be")

// footer brings all that describes the segment into the window, and looks at it.
func (w *window) footer(size int64) error {
	if err := w.load(max(0, size-footerBytes), min(size, footerBytes)); err != nil {
		return err
	}
	end := len(w.part) - 8 // of a length, and a word
	if end < 0 {
		return errors.New("it is too short: truncated")
	}
	n := int64(binary.LittleEndian.Uint32(w.part[end:]))
	if n > min(size-8, maxFooter) {
		return fmt.Errorf("%w: %d bytes describe it", errBounds, n)
	}
	if n > int64(end) {
		if err := w.load(size-8-n, n+8); err != nil {
			return err
		}
		end = len(w.part) - 8
	}
	w.sum = fmt.Sprintf("%x", sha256.Sum256(w.part[end-int(n):]))
	return (&compact{b: w.part[end-int(n) : end]}).structure(0)
}

// bounded looks at the pages of a column of a row group: they are what the segment says of the column, which no checksum of theirs covers.
func bounded(b []byte, m *format.ColumnMetaData, lists bool) error {
	most := int64(maxRows)
	if lists {
		most = maxValues
	}
	if m.Codec != format.Zstd || m.NumValues < 0 || m.NumValues > most {
		return fmt.Errorf("%w: %d values, packed by %s", errBounds, m.NumValues, m.Codec)
	}
	values, whole := int64(0), int64(0)
	for len(b) > 0 {
		var h format.PageHeader
		c := compact{b: b}
		if err := c.structure(0); err != nil {
			return err
		}
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[:c.at], &h); err != nil {
			return err
		}
		var n, words int32
		switch h.Type {
		case format.DataPage:
			n = h.DataPageHeader.V.NumValues
		case format.DataPageV2:
			n = h.DataPageHeaderV2.V.NumValues
		case format.DictionaryPage:
			words = h.DictionaryPageHeader.V.NumValues
		default:
			return fmt.Errorf("%w: a page of type %d", errBounds, h.Type)
		}
		packed, unpacked := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
		if packed < 0 || packed > int64(len(b)-c.at) || unpacked < 0 || unpacked > maxPage || n < 0 || words > maxValues {
			return fmt.Errorf("%w: a page of %d bytes, %d unpacked, %d values, %d words", errBounds, packed, unpacked, n, words)
		}
		values, whole = values+int64(n), whole+int64(c.at)+unpacked
		b = b[c.at+int(packed):]
	}
	if values != m.NumValues || whole != m.TotalUncompressedSize {
		return fmt.Errorf("%w: pages of %d values and %d bytes, of %d and %d", errBounds, values, whole, m.NumValues, m.TotalUncompressedSize)
	}
	return nil
}

// compact walks through a struct in Thrift's compact form: what it holds is there, and no longer than that.
type compact struct {
	b  []byte
	at int
}

// maxDepth of structs and lists in each other; Parquet's have less.
const maxDepth = 16

var errCompact = fmt.Errorf("%w: lists or texts that are longer than all of it", errBounds)

func (c *compact) skip(n uint64) error {
	if n > uint64(len(c.b)-c.at) {
		return errCompact
	}
	c.at += int(n)
	return nil
}

func (c *compact) byte() (b byte, err error) {
	if err = c.skip(1); err == nil {
		b = c.b[c.at-1]
	}
	return b, err
}

func (c *compact) varint() (uint64, error) {
	n, size := binary.Uvarint(c.b[c.at:])
	if size <= 0 {
		return 0, errCompact
	}
	c.at += size
	return n, nil
}

func (c *compact) structure(depth int) error {
	for {
		head, err := c.byte()
		if err != nil || head == 0 {
			return err
		}
		if head>>4 == 0 { // the number of the field follows
			if _, err := c.varint(); err != nil {
				return err
			}
		}
		if kind := head & 15; kind > 2 { // else it is true or false, and all is said
			if err := c.value(kind, depth+1); err != nil {
				return err
			}
		}
	}
}

func (c *compact) value(kind byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: it is too deep", errBounds)
	}
	switch kind {
	case 1, 2, 3:
		return c.skip(1)
	case 4, 5, 6:
		_, err := c.varint()
		return err
	case 7:
		return c.skip(8)
	case 8:
		n, err := c.varint()
		return errors.Join(err, c.skip(n))
	case 9, 10:
		return c.list(depth)
	case 12:
		return c.structure(depth)
	}
	return fmt.Errorf("%w: a value of kind %d", errBounds, kind) // no map is in a segment
}

func (c *compact) list(depth int) error {
	head, err := c.byte()
	n := uint64(head >> 4)
	if n == 15 && err == nil {
		n, err = c.varint()
	}
	if err != nil || n > uint64(min(len(c.b)-c.at, math.MaxInt32)) { // an element has a byte at least
		return errors.Join(err, errCompact)
	}
	for range n {
		if err := c.value(head&15, depth+1); err != nil {
			return err
		}
	}
	return nil
}
