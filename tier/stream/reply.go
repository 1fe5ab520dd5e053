package stream

import (
	"unsafe"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// stringOf gives bytes that nobody changes any more as a string, without copying.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// entriesOf reads the reply of XRANGE, XCLAIM and of a stream in XREADGROUP.
func entriesOf(m rueidis.RedisMessage) ([]codec.Entry, error) {
	rows, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	entries := make([]codec.Entry, 0, len(rows))
	for i := range rows {
		pair, err := tier.Parts("entry", rows[i], 2)
		if err != nil {
			return nil, err
		}
		text, err := pair[0].ToString()
		if err != nil {
			return nil, err
		}
		id, err := codec.ParseEntryID(text)
		if err != nil {
			return nil, err
		}
		fields, err := pair[1].AsStrSlice()
		if err != nil {
			return nil, err
		}
		entries = append(entries, codec.Entry{ID: id, Fields: fields})
	}
	return entries, nil
}

// bytesOf is what the fields and values of an entry weigh.
func bytesOf(e codec.Entry) (n int) {
	for _, f := range e.Fields {
		n += len(f)
	}
	return n
}

// readReply reads the reply of XREADGROUP of one stream, a map in RESP3.
func readReply(m rueidis.RedisMessage) ([]codec.Entry, error) {
	streams, err := m.AsMap()
	if err != nil {
		return nil, err
	}
	for _, entries := range streams {
		return entriesOf(entries)
	}
	return nil, nil
}

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
