package stream

import (
	"fmt"

	"github.com/echomq/pipeline/codec"
)

// parcel is what one caller appends, or several who share a call.
type parcel struct {
	messages []string // encoded
	keys     []string // of the messages, of a keyed stream
	bytes    int
	number   uint64    // of a named producer, the position in its source
	follows  string    // what the producer's last position has to be; empty: any
	only     *expected // if that holds; nil: in any case
}

// encode encodes the messages of one call, in memory of their own.
func (w *Writer) encode(ms []codec.Message) (p parcel, err error) {
	if len(ms) > MaxBatch {
		return p, &TooLargeError{What: "batch, messages", Size: len(ms), Limit: MaxBatch}
	}
	most := 0
	for i := range ms {
		size, err := w.size(&ms[i])
		if err != nil {
			return p, err
		}
		most += size
	}
	if most > MaxBatchBytes+len(ms)*codec.SizeSlack { // too large without encoding it
		return p, &TooLargeError{What: "batch, bytes", Size: most, Limit: MaxBatchBytes}
	}
	p.messages = make([]string, len(ms))
	if w.cfg.Keyed {
		p.keys = make([]string, len(ms))
	}
	room := make([]byte, 0, most)
	for i := range ms {
		if p.messages[i], err = w.encodeInto(room[len(room):], &ms[i]); err != nil {
			return p, err
		}
		room = room[:len(room)+len(p.messages[i])]
		if w.cfg.Keyed {
			p.keys[i] = ms[i].Key
		}
		p.bytes += len(p.messages[i])
	}
	if p.bytes > MaxBatchBytes {
		return p, &TooLargeError{What: "batch, bytes", Size: p.bytes, Limit: MaxBatchBytes}
	}
	return p, nil
}

// size is how many bytes the message has at most, encoded.
func (w *Writer) size(m *codec.Message) (int, error) {
	if w.cfg.Keyed && m.Key == "" {
		return 0, fmt.Errorf("%w: a message of type %q has no key: each message of a keyed stream needs one", ErrBadCall, m.Type)
	}
	size := m.Size()
	if size > w.cfg.MaxMessage+codec.SizeSlack { // too large without encoding it
		return 0, &TooLargeError{What: "message, bytes", Size: size, Limit: w.cfg.MaxMessage}
	}
	return size, nil
}

// encodeAlone encodes a message in memory of its own.
func (w *Writer) encodeAlone(m *codec.Message) (string, error) {
	size, err := w.size(m)
	if err != nil {
		return "", err
	}
	return w.encodeInto(make([]byte, 0, size), m)
}

// encodeInto encodes a message into memory that nobody else has, and that has room for it.
func (w *Writer) encodeInto(room []byte, m *codec.Message) (string, error) {
	b, err := codec.AppendMessage(room, m)
	if err != nil {
		return "", err
	}
	if len(b) > w.cfg.MaxMessage {
		return "", &TooLargeError{What: "message, bytes", Size: len(b), Limit: w.cfg.MaxMessage}
	}
	return stringOf(b), nil
}

// A shelf has so many bytes, of which one message takes an eighth at most.
const shelfBytes = 32 << 10

// shelf holds small encoded messages side by side, so that few cost an allocation. It stays as long as one of them, so each writer has
// its own: what it was given at one time goes at one time.
type shelf struct{ free []byte }

// room is for a message of so many bytes at most.
func (s *shelf) room(size int) []byte {
	if size > shelfBytes/8 {
		return make([]byte, 0, size)
	}
	if size > len(s.free) {
		s.free = make([]byte, shelfBytes)
	}
	room := s.free[:0:size]
	s.free = s.free[size:]
	return room
}
