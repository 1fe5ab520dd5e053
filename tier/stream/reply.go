package stream

import (
	"slices"
	"unsafe"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// stringOf gives bytes that nobody changes any more as a string, without copying.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// entriesOf reads the reply of XRANGE, XCLAIM and of a stream in XREADGROUP.
func entriesOf(m rueidis.RedisMessage) ([]codec.Entry, error) {
	var p tier.Page
	if err := p.Read(m); err != nil {
		return nil, err
	}
	return p.Entries, nil
}

// bytesOf is what the fields and values of an entry weigh.
func bytesOf(e codec.Entry) (n int) {
	for _, f := range e.Fields {
		n += len(f)
	}
	return n
}

// textsOf gives entries as texts, appended to dst. They lie in one piece of memory.
func textsOf(dst []string, entries []codec.EntryID) []string {
	dst = slices.Grow(dst, len(entries))
	buf := make([]byte, 0, entryIDBytes*len(entries))
	for _, e := range entries {
		begin := len(buf)
		buf = e.AppendTo(buf) // texts that were given out stay as they are, also when it moves
		dst = append(dst, stringOf(buf[begin:]))
	}
	return dst
}

// entryIDBytes is what an entry id takes as text: 13 digits, until the year 2286, and a sequence, as a rule.
const entryIDBytes = 20

// parseReceipt reads {code, first id, count, size}.
func parseReceipt(m rueidis.RedisMessage) (code string, r receipt, err error) {
	reply, err := tier.Parts("append", m, 4)
	if err != nil {
		return "", r, err
	}
	if code, err = reply[0].ToString(); err != nil || (code != "ok" && code != "dup" && code != "seen") {
		return code, r, err
	}
	first, err := reply[1].ToString()
	if err != nil {
		return code, r, err
	}
	if r.first, err = codec.ParseEntryID(first); err != nil {
		return code, r, err
	}
	n, err := reply[2].AsInt64()
	if err != nil {
		return code, r, err
	}
	size, err := reply[3].AsInt64()
	r.count, r.size = int(n), int(size)
	return code, r, err
}
