package archive

import (
	"unicode/utf8"
	"unsafe"

	"github.com/echomq/pipeline/codec"
)

// rebuilder makes an entry of its records again, as our writers would have: to see whether the columns alone give the entry
// back, and to give it back.
type rebuilder struct {
	body, pack []byte
}

// fields of an entry with these records, of a stream of that identity; valid until the next call. False: our writers would
// have written no such entry.
func (b *rebuilder) fields(dst []string, identity codec.Identity, records []codec.Record) ([]string, bool) {
	last := &records[len(records)-1]
	if identity.Exclusive {
		dst = append(dst, codec.FieldID, last.ID.String())
	}
	b.body = b.body[:0]
	var err error
	for i := range records {
		if b.body, err = codec.AppendMessage(b.body, &records[i].Message); err != nil {
			return dst, false
		}
	}
	if len(records) == 1 {
		return append(dst, codec.FieldMessage, stringOf(b.body)), true
	}
	if b.pack, err = codec.AppendPack(b.pack[:0], len(records), b.body, codec.NoCompression); err != nil {
		return dst, false
	}
	return append(dst, codec.FieldPack, stringOf(b.pack)), true
}

// whole: the columns of these records give the entry back to the byte.
func (b *rebuilder) whole(identity codec.Identity, e codec.Entry, records []codec.Record) bool {
	for i := range records {
		r := &records[i]
		if r.Fields != nil || !texts(&r.Message) {
			return false
		}
	}
	var buf [4]string
	fields, ok := b.fields(buf[:0], identity, records)
	if !ok || len(fields) != len(e.Fields) {
		return false
	}
	for i := range fields {
		if fields[i] != e.Fields[i] {
			return false
		}
	}
	return true
}

// texts: the strings of the message are UTF-8, which those of a segment have to be.
func texts(m *codec.Message) bool {
	ok := utf8.ValidString(m.Type) && utf8.ValidString(m.Key)
	for i := range m.Headers {
		ok = ok && utf8.ValidString(m.Headers[i].Key) && utf8.ValidString(m.Headers[i].Value)
	}
	return ok
}

// stringOf and bytesOf see the same bytes as another type: who uses them neither changes nor keeps them longer.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
func bytesOf(s string) []byte  { return unsafe.Slice(unsafe.StringData(s), len(s)) }
