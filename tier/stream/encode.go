package stream

import (
	"fmt"
	"sync"

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

func (w *Writer) encode(ms []codec.Message) (p parcel, err error) {
	if len(ms) > MaxBatch {
		return p, &TooLargeError{What: "batch, messages", Size: len(ms), Limit: MaxBatch}
	}
	p.messages = make([]string, len(ms))
	if w.cfg.Keyed {
		p.keys = make([]string, len(ms))
	}
	for i := range ms {
		if p.messages[i], err = w.encodeOne(&ms[i]); err != nil {
			return p, err
		}
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

func (w *Writer) encodeOne(m *codec.Message) (string, error) {
	if w.cfg.Keyed && m.Key == "" {
		return "", fmt.Errorf("%w: a message of type %q has no key: each message of a keyed stream needs one", ErrBadCall, m.Type)
	}
	size := m.Size()
	if size > w.cfg.MaxMessage+codec.SizeSlack { // too large without encoding it
		return "", &TooLargeError{What: "message, bytes", Size: size, Limit: w.cfg.MaxMessage}
	}
	b, err := codec.AppendMessage(w.shelf.room(size), m)
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
type shelf struct {
	mu   sync.Mutex
	free []byte
}

// room is for a message of so many bytes at most.
func (s *shelf) room(size int) []byte {
	if size > shelfBytes/8 {
		return make([]byte, 0, size)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > len(s.free) {
		s.free = make([]byte, shelfBytes)
	}
	room := s.free[:0:size]
	s.free = s.free[size:]
	return room
}
